"""Right sequences in random order and in random pieces are served; one wrong step at the end gets its verdict.

Each case has a seed in its name: `pytest Tests/EndToEnd/hostile/test_sequences.py -k seed7` runs that one again.
"""

import random

import frames
import hpack
import pytest
from frames import (
    CANCEL, DATA, END_HEADERS, END_STREAM, FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR, PING, PREFACE, PROTOCOL_ERROR,
    STREAM_CLOSED, call, data, fields, frame, headers, message, priority, rst_stream, settings, window_update,
)  # fmt: skip
from peer import Closed, Verdict

SEEDS = 40
STEPS = 40


@pytest.fixture(params=["cleartext", "tls"])
def any_target(request):
    return request.getfixturevalue("target" if request.param == "cleartext" else "tls_target")


def recorded():
    """A whole connection of three calls as a client wrote it."""
    return PREFACE + settings() + settings(flags=frames.ACK) + call(1) + call(3) + call(5)


def served(client):
    assert [client.status(stream) for stream in (1, 3, 5)] == [0, 0, 0]


def test_cut_at_every_byte(any_target):
    """A connection whose bytes arrive in two pieces is served, wherever the cut is"""
    whole = recorded()
    for cut in range(1, len(whole)):
        with any_target.raw(tls=any_target.authority) as client:
            client.send(whole[:cut])
            client.send(whole[cut:])
            served(client)


def test_every_byte_by_itself(any_target):
    """A connection whose bytes arrive one by one is served"""
    with any_target.raw(tls=any_target.authority) as client:
        for byte in recorded():
            client.send(bytes([byte]))
        served(client)


def test_ended_at_every_byte(any_target):
    """A connection that ends anywhere leaves the service as it was"""
    whole = recorded()
    # A handshake costs more than all that follows it: over TLS a few places do.
    for cut in range(0, len(whole), 1 if any_target.authority is None else 11):
        with any_target.raw(tls=any_target.authority) as client:
            client.send(whole[:cut])
    any_target.call()


@pytest.mark.parametrize("seed", range(20), ids=lambda seed: f"seed{seed}")
def test_compression_table(target, seed):
    """Requests whose fields fill, evict and resize the compression table in random ways mean what they say"""
    chance = random.Random(seed)
    encoder = hpack.Encoder()
    names = [f"x-{chance.randbytes(chance.randrange(1, 20)).hex()}" for _ in range(30)]
    with target.connect() as client:
        for number in range(1, 121, 2):
            if chance.random() < 0.1:
                # Up to what the server allows: the size update goes ahead of the next block.
                encoder.header_table_size = chance.choice([0, 64, 500, 4096])
            extra = [
                (chance.choice(names), chance.randbytes(chance.randrange(60)).hex())
                for _ in range(chance.randrange(12))
            ]
            marked = [
                hpack.NeverIndexedHeaderTuple(*field) if chance.random() < 0.2 else hpack.HeaderTuple(*field)
                for field in fields(frames.CHECK, *extra)
            ]
            raw = encoder.encode(marked, huffman=chance.random() < 0.5)
            # The health of a service that does not exist says whether the message belongs to this block's path.
            body = message(b"\x0a\x02no") if chance.random() < 0.5 else message()
            client.send(headers(number, raw=raw), data(number, body))
            assert client.status(number) == (5 if body != message() else 0), f"request {number}"


class Sequence:
    """Random legal steps of a client, and what has to come of each of its streams."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.next = 1
        self.unsent = {}
        self.complete = []
        self.aborted = []

    def step(self):
        steps = [self.begin, self.begin, self.whole, self.control]
        if self.unsent:
            steps += [self.send, self.send, self.send, self.abort, self.trailers]
        return self.chance.choice(steps)()

    def take(self):
        number, self.next = self.next, self.next + 2
        return number

    def any_open(self):
        return self.chance.choice(sorted(self.unsent))

    def begin(self):
        number = self.take()
        self.unsent[number] = message()
        extra = [(f"x-{self.chance.randrange(100)}", "v" * self.chance.randrange(50))]
        return headers(number, fields(frames.CHECK, *extra))

    def whole(self):
        number = self.take()
        self.complete.append(number)
        return call(number)

    def send(self):
        number = self.any_open()
        count = self.chance.randrange(1, len(self.unsent[number]) + 1)
        piece, self.unsent[number] = self.unsent[number][:count], self.unsent[number][count:]
        if self.unsent[number]:
            return data(number, piece, flags=0)
        del self.unsent[number]
        self.complete.append(number)
        return data(number, piece)

    def trailers(self):
        number = self.any_open()
        rest = self.unsent.pop(number)
        self.complete.append(number)
        return data(number, rest, flags=0) + headers(number, [("x-end", "1")], END_HEADERS | END_STREAM)

    def abort(self):
        number = self.any_open()
        del self.unsent[number]
        self.aborted.append(number)
        return rst_stream(number, CANCEL)

    def control(self):
        return self.chance.choice([
            lambda: priority(self.next, 0),
            lambda: window_update(0, self.chance.randrange(1, 1000)),
            lambda: frame(0xEE, 0, self.next, b"unknown"),
            lambda: settings((frames.INITIAL_WINDOW_SIZE, self.chance.randrange(1000, 100_000))),
            lambda: window_update(self.any_open(), 1) if self.unsent else b"",
        ])()  # fmt: skip

    def finish(self):
        """What is left of the open requests."""
        while self.unsent:
            yield self.send()

    def wrong_step(self):
        """A step that RFC 9113 forbids after all of these, and its verdict."""
        idle = self.next + 10
        return self.chance.choice([
            (data(idle), Verdict("connection", PROTOCOL_ERROR)),
            (window_update(idle, 1), Verdict("connection", PROTOCOL_ERROR)),
            (rst_stream(idle), Verdict("connection", PROTOCOL_ERROR)),
            (headers(2), Verdict("connection", PROTOCOL_ERROR)),
            (window_update(0, 0), Verdict("connection", PROTOCOL_ERROR)),
            (window_update(0, 2**31 - 1), Verdict("connection", FLOW_CONTROL_ERROR)),
            (frame(PING, 0, 1, bytes(8)), Verdict("connection", PROTOCOL_ERROR)),
            (frame(PING, 0, 0, bytes(7)), Verdict("connection", FRAME_SIZE_ERROR)),
            (frame(DATA, 0, 0, b""), Verdict("connection", PROTOCOL_ERROR)),
            (data(self.complete[-1], b"x"), Verdict("connection", STREAM_CLOSED)),
        ])  # fmt: skip


@pytest.mark.parametrize("seed", range(SEEDS), ids=lambda seed: f"seed{seed}")
def test_random_sequence(target, seed):
    """Whatever the order of legal steps, each complete request is answered; the first illegal one ends it rightly"""
    sequence = Sequence(seed)
    with target.connect() as client:
        script = b"".join(sequence.step() for _ in range(STEPS)) + call(sequence.take()) + b"".join(sequence.finish())
        sequence.complete.append(sequence.next - 2)
        # In pieces that know nothing of frames.
        while script:
            count = sequence.chance.randrange(1, 200)
            client.send(script[:count])
            script = script[count:]
        for number in sequence.complete:
            assert client.status(number) == 0, f"stream {number}"
        assert client.verdict() == Verdict("open", None), client.debug
        assert not set(sequence.complete) & {stream for stream, code in client.resets.items() if code != 0}
        wrong, verdict = sequence.wrong_step()
        try:
            client.send(wrong)
            assert client.verdict() == verdict
        except Closed:
            assert client.goaway == verdict.code
