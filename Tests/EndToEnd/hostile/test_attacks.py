"""Peers that mean harm: each attack is fought off where it has to be, and everybody else is served meanwhile."""

import contextlib
import gc
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

ROUNDS = 20_000
# What one attack sends at once.
BURST = 500

EMPTY_DATA = [headers(1, fields(frames.WATCH))] + [data(1, b"", flags=0)] * ROUNDS


@contextlib.contextmanager
def beside(target):
    """Honest calls and a look at the memory, all the while; each call is in time and the memory comes back."""
    gc.collect()
    before, descriptors = target.resident, target.descriptors
    stop, worst, failures, peak = threading.Event(), [0.0], [], [before]

    def honest():
        try:
            with target.connect(timeout=DEADLINE) as client:
                number = 1
                while True:
                    started = time.monotonic()
                    client.send(call(number))
                    assert client.status(number) == 0
                    worst[0] = max(worst[0], time.monotonic() - started)
                    peak[0] = max(peak[0], target.resident)
                    number += 2
                    if stop.wait(0.005):
                        break
                target.call()
        except BaseException as error:  # noqa: BLE001  (told to the test below)
            failures.append(error)

    thread = threading.Thread(target=honest)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert not failures, failures
    assert worst[0] < DEADLINE
    assert peak[0] - before < IN_FLIGHT, f"{(peak[0] - before) >> 20} MiB more during the attack"
    wait_until(lambda: target.resident - before < LEFT_BEHIND and target.descriptors <= descriptors)


def wait_until(condition, seconds=10):
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


def test_tiny_data_frames(target):
    """A message that arrives in thousands of one-byte frames costs the others nothing"""
    with beside(target), target.connect() as attacker:
        body = message(b"\x0a" + frames.integer(3, 7) + b"abc" + b"\x92\x03\xb0\x6d" + bytes(14_000))
        attacker.send(headers(1))
        flood(attacker, [data(1, body[index : index + 1], flags=0) for index in range(len(body))])
        attacker.barrier()
        # Whatever the server says about the message: it is alive to say it.
        attacker.send(data(1))
        assert attacker.status(1) in range(17)


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
    with beside(target), target.raw() as silent, target.connect() as slow, target.raw() as drip:
        started = time.monotonic()
        drip.send(b"GET /healthz HTTP/1.1\r\n")
        silent.send(PREFACE, settings())
        slow.send(headers(1, raw=block(fields()), flags=0))
        # A line every now and then counts for nothing.
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - started < 15:
                drip.send(b"x: y\r\n")
                time.sleep(0.25)
        assert time.monotonic() - started < 15, "the server waits for ever"
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
