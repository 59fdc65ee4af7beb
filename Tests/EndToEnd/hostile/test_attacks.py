"""Peers that mean harm: each attack is fought off where it has to be, and everybody else is served meanwhile."""

import contextlib
import gc
import gzip
import http.client
import os
import socket
import ssl
import struct
import threading
import time

import frames
import pytest
from frames import (
    CONTINUATION, DATA, END_HEADERS, ENHANCE_YOUR_CALM, PING, PREFACE, PROTOCOL_ERROR, block, call, data,
    fields, frame, headers, literal, message, priority, rst_stream, settings, window_update,
)  # fmt: skip
from peer import DEADLINE

# What an attack may leave behind, allocator slack included, and what it may take while it runs.
LEFT_BEHIND = 24 * 1024 * 1024
IN_FLIGHT = 96 * 1024 * 1024

# Files that a service may open by itself meanwhile, such as those of its database.
OWN_FILES = 4

ROUNDS = 20_000
# What one attack sends at once.
BURST = 500

EMPTY_DATA = [headers(1, fields(frames.WATCH))] + [data(1, b"", flags=0)] * ROUNDS


@contextlib.contextmanager
def beside(target):
    """Honest polls and a look at the memory, all the while; each poll is in time and the memory comes back.

    Before and after, a code is issued on a connection of its own.
    """
    gc.collect()
    quiet = quiet_p99(target)
    before, descriptors = target.resident, target.descriptors
    poll = target.issue()
    stop, times, failures, peak = threading.Event(), [], [], [before]

    def honest():
        try:
            # Connected before the attack begins.
            with client:
                number = 1
                while True:
                    times.append(timed(client, number, poll))
                    peak[0] = max(peak[0], target.resident)
                    number += 2
                    if stop.wait(0.005):
                        break
            if not target.is_full:
                target.issue()
        except BaseException as error:  # noqa: BLE001  (told to the test below)
            failures.append(error)

    client = target.connect(timeout=DEADLINE)
    thread = threading.Thread(target=honest)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert not failures, failures
    name = os.environ["PYTEST_CURRENT_TEST"].split("::")[-1].rsplit(" ", 1)[0]
    target.measured.append((name, quiet, p99(times), len(times), peak[0] - before))
    assert max(times) < DEADLINE
    assert peak[0] - before < IN_FLIGHT, f"{(peak[0] - before) >> 20} MiB more during the attack"
    wait_until(lambda: target.descriptors <= descriptors + OWN_FILES)
    wait_until(lambda: target.resident - before < LEFT_BEHIND)


def timed(client, number, poll):
    """How long one honest poll takes."""
    started = time.monotonic()
    client.send(call(number, frames.POLL, poll))
    assert client.status(number) == 0
    return time.monotonic() - started


def p99(times):
    return sorted(times)[len(times) * 99 // 100]


def quiet_p99(target):
    """What an honest client sees while nobody attacks; measured once for each server."""
    if target.quiet is None:
        poll = target.issue()
        with target.connect(timeout=DEADLINE) as client:
            target.quiet = p99([timed(client, number, poll) for number in range(1, 401, 2)])
    return target.quiet


def wait_until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the server does not return to where it was"
        time.sleep(0.02)


def flood(peer, parts):
    """Sends the parts in bursts until they are through or the server has had enough: whether all were taken."""
    parts = list(parts)
    try:
        for start in range(0, len(parts), BURST):
            peer.send(*parts[start : start + BURST])
    except (ConnectionError, ssl.SSLError, TimeoutError):
        return False
    return True


def requests(count, ending):
    """Requests with what follows each: `ending(stream)`."""
    for index in range(count):
        number = 2 * index + 1
        yield headers(number) + ending(number)


RAPID_RESET = list(requests(ROUNDS, rst_stream))

# What the attacker sends, and what ends its connection: the code of the GOAWAY; None where none can be sent.
FLOODS = {
    "rapid reset (CVE-2023-44487)": (RAPID_RESET, {ENHANCE_YOUR_CALM, frames.INTERNAL_ERROR}),
    "MadeYouReset by window overflow (CVE-2025-8671)": (
        requests(ROUNDS, lambda number: window_update(number, 0x7FFFFFFF)), {ENHANCE_YOUR_CALM}
    ),
    "MadeYouReset by a bad field name": (
        (headers(2 * index + 1, raw=block(fields()) + literal(b"X", b"x")) for index in range(ROUNDS)),
        {ENHANCE_YOUR_CALM},
    ),
    "MadeYouReset by missing pseudo-headers": (
        (headers(2 * index + 1, fields(drop=[":path"])) for index in range(ROUNDS)), {ENHANCE_YOUR_CALM}
    ),
    "MadeYouReset by a wrong content-length": (
        (headers(2 * index + 1, fields(frames.CHECK, ("content-length", "1"))) + data(2 * index + 1, message())
         for index in range(ROUNDS)),
        {ENHANCE_YOUR_CALM},
    ),
    "MadeYouReset by WINDOW_UPDATE of 0": (
        requests(ROUNDS, lambda number: window_update(number, 0)), {PROTOCOL_ERROR, ENHANCE_YOUR_CALM}
    ),
    "MadeYouReset by DATA after the end": (
        requests(ROUNDS, lambda number: data(number, message()) + data(number, b"x")),
        {frames.STREAM_CLOSED, ENHANCE_YOUR_CALM},
    ),
    "SETTINGS": ([settings()] * ROUNDS, {ENHANCE_YOUR_CALM}),
    "SETTINGS with many entries": ([settings(*[(0xFF, 1)] * 100)], {ENHANCE_YOUR_CALM}),
    "PING": ([frame(PING, payload=bytes(8))] * ROUNDS, {ENHANCE_YOUR_CALM}),
    "empty DATA": (EMPTY_DATA, {ENHANCE_YOUR_CALM}),
    "PRIORITY": ([priority(2 * index + 1, 0) for index in range(ROUNDS)], {ENHANCE_YOUR_CALM}),
    "WINDOW_UPDATE": ([window_update(0, 1)] * ROUNDS, {ENHANCE_YOUR_CALM}),
    "unknown frames": ([frame(0xEE, payload=b"x")] * ROUNDS, {ENHANCE_YOUR_CALM}),
    "PRIORITY_UPDATE": (
        [frame(0x10, payload=(2 * index + 1).to_bytes(4, "big") + b"u=0") for index in range(ROUNDS)],
        {ENHANCE_YOUR_CALM},
    ),
    "trailers that do not end": (
        (headers(2 * index + 1) + headers(2 * index + 1, [("x", "y")]) for index in range(ROUNDS)), {ENHANCE_YOUR_CALM}
    ),
    "empty header block pieces": (
        [headers(1, raw=b"", flags=0)] + [frame(CONTINUATION, 0, 1)] * ROUNDS,
        {ENHANCE_YOUR_CALM, PROTOCOL_ERROR, frames.INTERNAL_ERROR},
    ),
    "CONTINUATION (CVE-2024-27316)": (
        [headers(1, raw=block(fields()), flags=0)] + [frame(CONTINUATION, 0, 1, literal(b"x", bytes(1000)))] * 2000,
        {ENHANCE_YOUR_CALM, PROTOCOL_ERROR, frames.INTERNAL_ERROR},
    ),
    "streams beyond the limit": ([headers(2 * index + 1) for index in range(200)], {PROTOCOL_ERROR, ENHANCE_YOUR_CALM}),
}  # fmt: skip


@pytest.mark.parametrize("name", FLOODS)
def test_flood(target, name):
    """A peer that floods and reads gets its GOAWAY, and its connection ends"""
    sent, codes = FLOODS[name]
    with beside(target), target.connect() as attacker:
        reader = threading.Thread(target=attacker.read_to_end)
        reader.start()
        flood(attacker, sent)
        reader.join(timeout=15)
        assert not reader.is_alive(), "the attacker is still connected"
        # A reset of the connection may overtake the GOAWAY, as bytes are on their way to a closed socket.
        assert attacker.goaway in codes | {None}, (attacker.goaway, attacker.debug)


@pytest.mark.parametrize(
    "name", ["rapid reset (CVE-2023-44487)", "SETTINGS", "PING", "empty DATA", "PRIORITY", "WINDOW_UPDATE"]
)
def test_flood_without_reading(target, name):
    """A peer that floods and never reads is cut off as well, and before all that it sent was worked on"""
    with beside(target), target.connect(receive_buffer=4096, timeout=15) as attacker:
        parts = list(RAPID_RESET if name.startswith("rapid") else FLOODS[name][0])
        # More than the socket buffers on both sides hold.
        while flood(attacker, parts):
            if name.startswith("rapid"):
                break
        assert attacker.is_closed_within(15)


def test_hpack_bomb(target):
    """RFC 7541 §7.3: a small block that stands for megabytes of fields is refused at the limit of the header list"""
    value = b"v" * 3900
    bomb = b"\x40" + frames.integer(1, 7) + b"n" + frames.integer(len(value), 7) + value + b"\xbe" * 11000
    with beside(target), target.connect() as attacker:
        for number in range(1, 60, 2):
            raw = block(fields()) + bomb
            try:
                attacker.send(headers(number, raw=raw[:16384]))
            except ConnectionError:
                break
        verdict = attacker.verdict(stream=1)
        assert verdict.scope != "open", verdict


@pytest.mark.parametrize("count", [5, 7, 40])
def test_header_list_over_the_limit(target, count):
    """RFC 9113 §10.5.1: a header list over the limit, with or without CONTINUATION, is not processed"""
    piece = b"".join(literal(b"name-%d" % index, b"x" * 1000) for index in range(15))
    with beside(target), target.connect() as attacker:
        parts = [headers(1, raw=block(fields()), flags=0)]
        parts += [frame(CONTINUATION, 0, 1, piece)] * (count - 1) + [frame(CONTINUATION, END_HEADERS, 1, piece)]
        flood(attacker, parts)
        assert attacker.verdict(stream=1).scope != "open"
        assert "grpc-status" not in attacker.answers.get(1, ({},))[0]


def test_string_that_is_not_decoded(target):
    """RFC 7541 §4.4: a string of over 64 KiB in a header block costs its request, whoever else is on the connection goes on"""
    for size in (60_000, 70_000):
        raw = block(fields()) + literal(b"x", b"y" * size)
        pieces = [raw[at : at + 16384] for at in range(0, len(raw), 16384)]
        with beside(target), target.connect() as attacker:
            parts = [headers(1, raw=pieces[0], flags=0)]
            parts += [frame(CONTINUATION, END_HEADERS if piece is pieces[-1] else 0, 1, piece) for piece in pieces[1:]]
            flood(attacker, parts)
            assert attacker.verdict(stream=1).scope == "stream"
            attacker.send(headers(3), data(3, message(b"")))
            assert attacker.status(3) == 0
            assert attacker.goaway is None, (attacker.goaway, attacker.debug)


def test_unfinished_block_that_stands_for_much(target):
    """RFC 7541 §7.3: a block that has not ended counts as what is held of it, not as the hundreds of megabytes that it stands for"""
    # A field of the table, which each byte that follows stands for.
    start = block(fields()) + b"\x40" + literal(b"n", b"v" * 3900)[1:]
    with contextlib.ExitStack() as connections:
        with beside(target):
            for _ in range(3):
                attacker = connections.enter_context(target.connect())
                attacker.send(headers(1, raw=start + b"\xbe" * (16384 - len(start)), flags=0))
                attacker.send(*[frame(CONTINUATION, 0, 1, b"\xbe" * 16384)] * 7)
                for _ in range(50):
                    target.issue()


def test_tiny_data_frames(target):
    """A message that arrives in thousands of one-byte frames ends the connection that sends it, and costs nobody else"""
    body = message(bytes(14_000))
    with beside(target), target.connect() as attacker:
        attacker.send(headers(1))
        flood(attacker, [data(1, body[index : index + 1], flags=0) for index in range(len(body))])
        attacker.read_to_end()
        # A reset of the connection may overtake the GOAWAY.
        assert attacker.goaway in {ENHANCE_YOUR_CALM, None}, (attacker.goaway, attacker.debug)


def test_small_messages(target):
    """Small messages in small frames are work: streams of thousands of them are answered"""
    count = 300
    question = message(b"\x3a\x00")
    with beside(target), target.connect((frames.INITIAL_WINDOW_SIZE, 1 << 24)) as client:
        client.send(window_update(0, 1 << 24))
        for number in range(1, 20, 2):
            client.send(headers(number, fields(frames.REFLECTION)), *[data(number, question, flags=0)] * count)
            client.send(data(number))
            assert client.status(number) == 0
            body, answers = client.answers[number][1], 0
            while body:
                body = body[5 + int.from_bytes(body[1:5], "big") :]
                answers += 1
            assert answers == count


def test_claimed_length(target):
    """A length prefix of 4 GiB with five bytes behind it is refused at once and takes no memory"""
    with beside(target), target.connect() as attacker:
        for number in range(1, 60, 2):
            attacker.send(headers(number), data(number, message(b"12345", length=0xFFFFFFFF), flags=0))
        for number in range(1, 60, 2):
            assert attacker.status(number) == 8


def test_zero_window(target):
    """A peer with a window of zero gets no byte, and what waits for it is bounded"""
    question = message(b"\x3a\x00")
    with beside(target), contextlib.ExitStack() as stack:
        attackers = [
            stack.enter_context(target.connect((frames.INITIAL_WINDOW_SIZE, 0), timeout=15)) for _ in range(20)
        ]
        for attacker in attackers:
            for number in range(1, 60, 2):
                attacker.send(headers(number, fields(frames.REFLECTION)), data(number, question * 100, flags=0))
        for attacker in attackers:
            attacker.barrier()
            assert not any(got.kind == DATA and got.payload for got in attacker.seen)


def test_slow_preface(target):
    """A connection that says nothing, a part of the preface or a part of a request line is closed in seconds"""
    with beside(target), contextlib.ExitStack() as stack:
        beginnings = [b"", PREFACE[:1], PREFACE[:10], PREFACE[:-1]]
        attackers = [stack.enter_context(target.raw()) for _ in beginnings]
        for attacker, beginning in zip(attackers, beginnings, strict=True):
            attacker.send(beginning)
        for attacker in attackers:
            assert attacker.is_closed_within(12)


def test_slow_peers(target):
    """A peer that never acknowledges our SETTINGS, or never finishes its header block, is dropped; over HTTP/1.1 too"""
    with (
        beside(target), target.raw() as silent, target.connect() as slow, target.connect() as body,
        target.raw() as drip, target.raw() as second,
    ):  # fmt: skip
        started = time.monotonic()
        drip.send(b"GET /healthz HTTP/1.1\r\n")
        second.send(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert second.socket.recv(4096).startswith(b"HTTP/1.1 200")
        second.send(b"GET /healthz HTTP/1.1\r\n")
        # A message that never gets on, on a call that may last as long as it likes.
        body.send(headers(1, fields(frames.WATCH)), data(1, message(bytes(1000))[:100], flags=0))
        silent.send(PREFACE, settings())
        slow.send(headers(1, raw=block(fields()), flags=0))
        # A line every now and then counts for nothing.
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - started < 15:
                drip.send(b"x: y\r\n")
                second.send(b"x: y\r\n")
                body.send(data(1, b"x", flags=0))
                time.sleep(0.25)
        assert time.monotonic() - started < 15, "the server waits for ever"
        for attacker in (drip, second):
            assert attacker.is_closed_within(5)
        assert body.status(1) == 4
        slow.read_to_end()
        assert slow.goaway == ENHANCE_YOUR_CALM
        silent.socket.settimeout(15)
        silent.read_to_end()
        assert silent.goaway == frames.SETTINGS_TIMEOUT


def test_slow_handshake(tls_target):
    """A TLS handshake that does not get on is given up in seconds, byte by byte or not at all"""
    hello = ssl.MemoryBIO()
    context = ssl.create_default_context(cafile=str(tls_target.authority))
    session = context.wrap_bio(ssl.MemoryBIO(), hello, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        session.do_handshake()
    first = hello.read()
    with beside(tls_target), contextlib.ExitStack() as stack:
        silent, half, drip = (stack.enter_context(tls_target.raw()) for _ in range(3))
        half.send(first[: len(first) // 2])
        started = time.monotonic()
        with contextlib.suppress(ConnectionError):
            for byte in first[:-1]:
                drip.send(bytes([byte]))
                time.sleep(0.05)
                if time.monotonic() - started > 7:
                    break
        for attacker in (silent, half, drip):
            assert attacker.is_closed_within(12)


def test_many_slow_handshakes(tls_target):
    """Hundreds of handshakes that do not begin keep nobody from being served, and are over in seconds"""
    with beside(tls_target), contextlib.ExitStack() as stack:
        attackers = [stack.enter_context(tls_target.raw()) for _ in range(300)]
        tls_target.call()
        assert all(attacker.is_closed_within(12) for attacker in attackers)


def test_half_open(target):
    """A peer that closes its side, or resets the connection, leaves nothing behind"""
    with beside(target):
        for index in range(200):
            with target.connect() as attacker:
                attacker.send(headers(1, fields(frames.WATCH)), data(1, message()))
                if index % 2:
                    attacker.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                else:
                    attacker.socket.shutdown(socket.SHUT_WR)


def test_connection_flood(target):
    """Hundreds of connections that do nothing do not keep anybody from being served"""
    with beside(target), contextlib.ExitStack() as stack:
        for _ in range(700):
            stack.enter_context(target.raw())
        target.call()


def test_never_reading(target):
    """Peers that ask for large answers and never read them are held within their bounds, and others are served"""
    symbol = b"latchkey.qr.v1.QrSessionService"
    question = message(b"\x22" + bytes([len(symbol)]) + symbol)
    with beside(target), contextlib.ExitStack() as stack:
        attackers = [stack.enter_context(target.connect(receive_buffer=4096)) for _ in range(5)]
        for attacker in attackers:
            attacker.socket.settimeout(0.5)
            # The windows are wide open; it is the socket that nobody reads.
            attacker.send(window_update(0, 0x3FFFFFFF), settings((frames.INITIAL_WINDOW_SIZE, 0x3FFFFFFF)))
            with contextlib.suppress(ConnectionError, TimeoutError):
                for number in range(1, 100, 2):
                    attacker.send(headers(number, fields(frames.REFLECTION)), data(number, question * 100, flags=0))
        target.call()


def bomb(size=50_000_000):
    """A compressed message of a few KB that stands for megabytes."""
    packed = gzip.compress(bytes(size))
    return message(packed, compressed=1)


def test_zip_bomb(target):
    """A compressed message counts by what it stands for, before it takes that much memory"""
    compressed = fields(frames.CHECK, ("grpc-encoding", "gzip"))
    packed = bomb()
    assert len(packed) < 64 * 1024
    with beside(target), contextlib.ExitStack() as stack:
        for _ in range(5):
            attacker = stack.enter_context(target.connect())
            for number in range(1, 20, 2):
                attacker.send(headers(number, compressed))
                attacker.send(*[data(number, packed[at : at + 16384], flags=0) for at in range(0, len(packed), 16384)])
                attacker.send(data(number))
                assert attacker.status(number) == 8


def test_zip_bombs_in_a_row(target):
    """A window full of compressed messages is expanded one by one, as they are read, and not as they come"""
    # 60 KB each when it is expanded, which the method takes; hundreds of them fit into one window.
    packed = message(gzip.compress(b"\x3a\xe0\xd4\x03" + bytes(60_000)), compressed=1)
    assert len(packed) < 200
    with beside(target), contextlib.ExitStack() as stack:
        attackers = [stack.enter_context(target.connect((frames.INITIAL_WINDOW_SIZE, 0))) for _ in range(5)]
        for attacker in attackers:
            for number in range(1, 30, 2):
                attacker.send(headers(number, fields(frames.REFLECTION, ("grpc-encoding", "gzip"))))
                attacker.send(data(number, packed * (16_000 // len(packed)), flags=0))
            attacker.barrier()


def test_large_fields_over_http1(target):
    """Header fields over HTTP/1.1 are bounded, in bytes and in number, on the first request and on later ones"""
    fat = b"".join(b"x-%d: %s\r\n" % (index, b"y" * 1000) for index in range(2000))
    many = b"".join(b"x-%d: y\r\n" % index for index in range(5000))
    long = b"x: " + b"y" * 2_000_000
    get = b"GET /healthz HTTP/1.1\r\nhost: x\r\n"
    with beside(target):
        for start in (b"", get + b"\r\n"):
            for more in (fat, many, long):
                with target.raw() as attacker:
                    with contextlib.suppress(ConnectionError):
                        attacker.send(start + get + more)
                    assert attacker.is_closed_within(5)


def test_web_input(target):
    """Bad gRPC-Web bodies by the hundred, over HTTP/1.1: each is answered or its connection ends, nothing is left"""
    bodies = [b"", b"\0", b"\0\xff\xff\xff\xff", b"\x80\0\0\0\0", b"!!!!", b"A" * 70_000, bytes(70_000), b"\1\0\0\0\0"]
    with beside(target):
        for index in range(400):
            client = http.client.HTTPConnection("127.0.0.1", target.port, timeout=5)
            kind = "application/grpc-web" + ("-text" if index % 2 else "")
            with contextlib.suppress(ConnectionError, http.client.HTTPException):
                client.request("POST", frames.CHECK, bodies[index % len(bodies)], {"content-type": kind})
                if index % 3:
                    answer = client.getresponse()
                    assert answer.status == 200
                    answer.read()
            client.close()


def test_connections_over_the_limit(small_target):
    """Connections beyond the limit are closed, most of them at once; health checks and those within it are served"""
    with beside(small_target), contextlib.ExitStack() as stack:
        flooded = [stack.enter_context(small_target.raw()) for _ in range(300)]
        # The first ones, beside those of the honest.
        held = small_target.connections - 5
        closed = sum(attacker.is_closed_within(0.05 if index < held else 2) for index, attacker in enumerate(flooded))
        assert closed >= 300 - small_target.connections
        assert small_target.is_live()
    # The silent ones are gone after their time, and there is room again.
    wait_until(lambda: small_target.metrics()["server_connections"] == 0)
    small_target.call()


def test_idle_connections_make_room(small_target):
    """Connections that have done nothing for a while go when the server is nearly full"""
    with beside(small_target), contextlib.ExitStack() as stack:
        idle = [stack.enter_context(small_target.connect()) for _ in range(small_target.connections * 3 // 4)]
        time.sleep(10.5)
        with small_target.connect() as newcomer:
            newcomer.send(call(1))
            assert newcomer.status(1) == 0
        for attacker in idle:
            attacker.read_to_end()
            assert attacker.goaway == frames.NO_ERROR


def test_calls_over_the_limit(small_target):
    """Calls that wait beyond the limit are refused with the time to come back; probes and short calls are answered"""
    with contextlib.ExitStack() as stack:
        attackers = [stack.enter_context(small_target.connect()) for _ in range(4)]
        with beside(small_target):
            for attacker in attackers:
                for number in range(1, 100, 2):
                    attacker.send(headers(number, fields(frames.WATCH)), data(number, message()))
                attacker.barrier()
                attacker.barrier()
            refused = [
                got for attacker in attackers for got, _ in attacker.answers.values() if got.get("grpc-status") == "8"
            ]
            # Two event loops may count at the same moment.
            assert abs(len(refused) - (4 * 50 - small_target.calls)) <= 2
            assert all("grpc-status-details-bin" in got for got in refused)
            assert small_target.is_live()
            metrics = small_target.metrics()
            assert metrics["server_refused_calls_total"] == len(refused)
            assert metrics["server_waiting_calls"] == 4 * 50 - len(refused)
    small_target.call()
