"""What a server owes a peer that breaks RFC 9113 or RFC 7541: the right error of the right kind, and no other.

Where each section that binds a server is tested; "cases" are those of `CASES`, under a comment of that section:

RFC 9113
    3.3, 3.4        test_tls.py (ALPN), test_preface_*
    4.1, 4.2        cases; test_sequences.py cuts frames at every byte
    4.3             cases of RFC 7541, test_table_of_unserved_requests, test_header_block_in_pieces
    5.1             cases, test_closed_stream, test_stream_reset_by_peer, test_half_closed_stream
    5.1.1, 5.1.2    cases, test_more_streams_than_allowed
    5.2, 6.9        cases, test_window_is_respected, test_negative_window, test_padding_is_granted
    5.3, 6.3        cases
    5.4             every verdict, test_closed_after_goaway
    5.5             cases
    6.1, 6.2, 6.4   cases
    6.5             cases, test_settings_are_acknowledged
    6.6 to 6.8      cases, test_goaway_leaves_streams
    6.10            cases, test_header_block_in_pieces
    8.1 to 8.3      cases; cookies in RPCServerTests.swift
    8.4, 8.5        cases
    9.2             test_tls.py, by sslyze
    10.5            test_attacks.py
RFC 7541
    2.3.3, 4.2      cases
    4.3, 4.4        cases, test_compression_table
    5.1, 5.2        cases
    6.1 to 6.3      cases, test_compression_table
"""

import itertools
import struct

import frames
import h2.config
import h2.connection
import h2.events
import pytest
from frames import (
    ACK, COMPRESSION_ERROR, CONTINUATION, DATA, END_HEADERS, END_STREAM, FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR, GOAWAY,
    HEADERS, PADDED, PING, PREFACE, PRIORITY, PRIORITY_FLAG, PROTOCOL_ERROR, PUSH_PROMISE, RST_STREAM, SETTINGS,
    STREAM_CLOSED, WINDOW_UPDATE, block, call, data, fields, frame, goaway, headers, literal, message, priority,
    rst_stream, settings, window_update,
)  # fmt: skip
from peer import Closed, Peer

OPEN = ("open", None)


def connection(code):
    return {("connection", code)}


def stream(code):
    return {("stream", code)}


def either(code):
    """RFC 9113 §5.4.2: an endpoint may treat a stream error as a connection error."""
    return stream(code) | connection(code)


SOUND = block(fields())
OPENED = headers(1)
CASES = {
    # §3.4, §6.5
    "SETTINGS on a stream": (settings(stream=1), connection(PROTOCOL_ERROR)),
    "SETTINGS of a bad length": (frame(SETTINGS, payload=bytes(5)), connection(FRAME_SIZE_ERROR)),
    "SETTINGS ACK with payload": (settings((1, 4096), flags=ACK), connection(FRAME_SIZE_ERROR)),
    "ENABLE_PUSH of 2": (settings((frames.ENABLE_PUSH, 2)), connection(PROTOCOL_ERROR)),
    "INITIAL_WINDOW_SIZE of 2^31": (settings((frames.INITIAL_WINDOW_SIZE, 1 << 31)), connection(FLOW_CONTROL_ERROR)),
    "MAX_FRAME_SIZE of 16383": (settings((frames.MAX_FRAME_SIZE, 16383)), connection(PROTOCOL_ERROR)),
    "MAX_FRAME_SIZE of 2^24": (settings((frames.MAX_FRAME_SIZE, 1 << 24)), connection(PROTOCOL_ERROR)),
    "unknown setting": (settings((0xFFFF, 7)), {OPEN}),
    "the same setting twice": (settings((frames.HEADER_TABLE_SIZE, 1), (frames.HEADER_TABLE_SIZE, 2)), {OPEN}),
    "windows overflow by SETTINGS": (
        OPENED + window_update(1, 0x7FFFFFFF - 65535) + settings((frames.INITIAL_WINDOW_SIZE, 65536)),
        connection(FLOW_CONTROL_ERROR),
    ),
    # §4.1, §4.2
    "reserved bit of a stream id": (headers(1 | 1 << 31) + data(1, message()), {OPEN}),
    "unknown frame type": (frame(0xEE, 0xFF, 0, b"what") + frame(0xEF, 0, 1, b"ever"), {OPEN}),
    "DATA over the frame size": (OPENED + data(1, bytes(16385)), either(FRAME_SIZE_ERROR)),
    "HEADERS over the frame size": (headers(1, raw=bytes(16385)), connection(FRAME_SIZE_ERROR)),
    "unknown frame over the frame size": (frame(0xEE, payload=bytes(16385)), connection(FRAME_SIZE_ERROR)),
    # §4.1: flags that a type does not define are passed over.
    "undefined flags": (
        headers(1, flags=END_HEADERS | 0xD2) + frame(WINDOW_UPDATE, 0xFF, 1, struct.pack(">I", 1))
        + frame(PING, 0xFE, 0, bytes(8)) + data(1, message(), flags=END_STREAM | 0xF6),
        {OPEN},
    ),
    # §5.1, §6.2
    "HEADERS on stream 0": (headers(0), connection(PROTOCOL_ERROR)),
    "HEADERS on an even stream": (headers(2), connection(PROTOCOL_ERROR)),
    "HEADERS on a lower stream": (call(5) + call(3), connection(PROTOCOL_ERROR)),
    "HEADERS on a half-closed stream": (
        headers(1, fields(frames.WATCH)) + data(1, message()) + headers(1, flags=END_HEADERS | END_STREAM),
        either(STREAM_CLOSED),
    ),
    "HEADERS in the middle without END_STREAM": (
        OPENED + headers(1, [("x", "y")], flags=END_HEADERS), either(PROTOCOL_ERROR)
    ),
    "HEADERS with too much padding": (
        headers(1, raw=bytes([200]) + SOUND, flags=END_HEADERS | PADDED), connection(PROTOCOL_ERROR)
    ),
    "HEADERS without room for the padding's length": (
        # Too short (§4.2) and padded beyond its end (§6.2): either names it.
        headers(1, raw=b"", flags=END_HEADERS | PADDED), connection(FRAME_SIZE_ERROR) | connection(PROTOCOL_ERROR)
    ),
    "HEADERS without room for the priority": (
        headers(1, raw=bytes(4), flags=END_HEADERS | PRIORITY_FLAG), connection(FRAME_SIZE_ERROR)
    ),
    "HEADERS with padding and priority": (
        headers(1, raw=bytes([3]) + bytes(5) + SOUND + bytes(3), flags=END_HEADERS | PADDED | PRIORITY_FLAG)
        + data(1, message()),
        {OPEN},
    ),
    "HEADERS that depend on themselves": (
        headers(1, raw=struct.pack(">IB", 1, 15) + SOUND, flags=END_HEADERS | PRIORITY_FLAG), stream(PROTOCOL_ERROR)
    ),
    "padded HEADERS that depend on themselves exclusively": (
        headers(
            1,
            raw=struct.pack(">BIB", 2, 1 << 31 | 1, 15) + SOUND + bytes(2),
            flags=END_HEADERS | PADDED | PRIORITY_FLAG,
        ),
        stream(PROTOCOL_ERROR),
    ),
    "HEADERS that depend on another stream": (
        headers(1, raw=struct.pack(">IB", 3, 15) + SOUND, flags=END_HEADERS | PRIORITY_FLAG) + data(1, message()),
        {OPEN},
    ),
    "trailers that depend on themselves": (
        OPENED
        + headers(
            1, raw=struct.pack(">IB", 1, 15) + literal(b"x", b"y"), flags=END_HEADERS | END_STREAM | PRIORITY_FLAG
        ),
        stream(PROTOCOL_ERROR),
    ),
    # §6.1
    "DATA on stream 0": (data(0, b"x"), connection(PROTOCOL_ERROR)),
    "DATA on an idle stream": (data(1, b"x"), connection(PROTOCOL_ERROR)),
    "DATA on an even stream": (data(2, b"x"), connection(PROTOCOL_ERROR)),
    "DATA on a half-closed stream": (
        headers(1, fields(frames.WATCH)) + data(1, message()) + data(1, b"x"), either(STREAM_CLOSED)
    ),
    "DATA with padding as long as the frame": (
        OPENED + data(1, bytes([2]) + bytes(1), flags=PADDED), connection(PROTOCOL_ERROR)
    ),
    "DATA without room for the padding's length": (
        OPENED + data(1, b"", flags=PADDED), connection(FRAME_SIZE_ERROR) | connection(PROTOCOL_ERROR)
    ),
    "DATA with padding": (OPENED + data(1, bytes([3]) + message() + bytes(3), flags=PADDED | END_STREAM), {OPEN}),
    # §6.3
    "PRIORITY on stream 0": (priority(0, 1), connection(PROTOCOL_ERROR)),
    "PRIORITY of a bad length": (OPENED + frame(PRIORITY, 0, 1, bytes(4)), either(FRAME_SIZE_ERROR)),
    "PRIORITY that depends on itself": (OPENED + priority(1, 1), connection(PROTOCOL_ERROR)),
    "PRIORITY of an idle stream that depends on itself": (priority(1, 1), connection(PROTOCOL_ERROR)),
    "PRIORITY on an idle stream": (priority(9, 3), {OPEN}),
    # §6.4
    "RST_STREAM on stream 0": (rst_stream(0), connection(PROTOCOL_ERROR)),
    "RST_STREAM on an idle stream": (rst_stream(1), connection(PROTOCOL_ERROR)),
    "RST_STREAM of a bad length": (OPENED + frame(RST_STREAM, 0, 1, bytes(3)), connection(FRAME_SIZE_ERROR)),
    "RST_STREAM of an open stream": (OPENED + rst_stream(1), {OPEN}),
    # §6.6, §8.4
    "PUSH_PROMISE by a client": (
        OPENED + frame(PUSH_PROMISE, END_HEADERS, 1, struct.pack(">I", 2) + SOUND), connection(PROTOCOL_ERROR)
    ),
    # §6.7
    "PING on a stream": (frame(PING, 0, 1, bytes(8)), connection(PROTOCOL_ERROR)),
    "PING of a bad length": (frame(PING, payload=bytes(7)), connection(FRAME_SIZE_ERROR)),
    "PING answer that nobody asked for": (frame(PING, ACK, 0, bytes(8)), {OPEN}),
    # §6.8
    "GOAWAY on a stream": (goaway(stream=1), connection(PROTOCOL_ERROR)),
    "GOAWAY too short": (frame(GOAWAY, payload=bytes(7)), connection(FRAME_SIZE_ERROR)),
    # §6.9
    "WINDOW_UPDATE of 0 on the connection": (window_update(0, 0), connection(PROTOCOL_ERROR)),
    "WINDOW_UPDATE of 0 on a stream": (OPENED + window_update(1, 0), either(PROTOCOL_ERROR)),
    "WINDOW_UPDATE of a bad length": (frame(WINDOW_UPDATE, payload=bytes(3)), connection(FRAME_SIZE_ERROR)),
    "WINDOW_UPDATE on an idle stream": (window_update(1, 1), connection(PROTOCOL_ERROR)),
    "WINDOW_UPDATE overflow of the connection": (window_update(0, 0x7FFFFFFF), connection(FLOW_CONTROL_ERROR)),
    "WINDOW_UPDATE overflow of a stream": (OPENED + window_update(1, 0x7FFFFFFF), stream(FLOW_CONTROL_ERROR)),
    "WINDOW_UPDATE with the reserved bit": (window_update(0, 1 << 31 | 1), {OPEN}),
    # §6.10
    "CONTINUATION of nothing": (frame(CONTINUATION, END_HEADERS, 1, SOUND), connection(PROTOCOL_ERROR)),
    "CONTINUATION after the end": (OPENED + frame(CONTINUATION, END_HEADERS, 1, SOUND), connection(PROTOCOL_ERROR)),
    "CONTINUATION on stream 0": (
        headers(1, raw=SOUND, flags=0) + frame(CONTINUATION, END_HEADERS, 0), connection(PROTOCOL_ERROR)
    ),
    "CONTINUATION on another stream": (
        headers(1, raw=SOUND, flags=0) + frame(CONTINUATION, END_HEADERS, 3), connection(PROTOCOL_ERROR)
    ),
    "PING within a header block": (
        headers(1, raw=SOUND, flags=0) + frame(PING, payload=bytes(8)), connection(PROTOCOL_ERROR)
    ),
    "DATA within a header block": (headers(1, raw=SOUND, flags=0) + data(1), connection(PROTOCOL_ERROR)),
    "HEADERS within a header block": (headers(1, raw=SOUND, flags=0) + headers(3), connection(PROTOCOL_ERROR)),
    "unknown frame within a header block": (
        headers(1, raw=SOUND, flags=0) + frame(0xEE, 0, 1), connection(PROTOCOL_ERROR)
    ),
    # §8.1, §8.3: malformed requests
    "response pseudo-header": (headers(1, raw=SOUND + literal(b":status", b"200")), either(PROTOCOL_ERROR)),
    "unknown pseudo-header": (headers(1, raw=literal(b":what", b"x") + SOUND), either(PROTOCOL_ERROR)),
    "pseudo-header after the others": (
        headers(1, fields(drop=[":path"]) + [(":path", frames.CHECK)]), either(PROTOCOL_ERROR)
    ),
    "pseudo-header in trailers": (
        OPENED + headers(1, [(":path", "/")], flags=END_HEADERS | END_STREAM), either(PROTOCOL_ERROR)
    ),
    "no fields at all": (headers(1, raw=b""), either(PROTOCOL_ERROR)),
    "path without a slash": (headers(1, [(":path", "a/b")] + fields(drop=[":path"])), either(PROTOCOL_ERROR)),
    "asterisk of another method": (headers(1, [(":path", "*")] + fields(drop=[":path"])), either(PROTOCOL_ERROR)),
    # §8.3.1
    "Host of another server": (headers(1, fields(frames.CHECK, ("host", "localhost.example"))), either(PROTOCOL_ERROR)),
    "Host with another port": (headers(1, fields(frames.CHECK, ("host", "localhost:81"))), either(PROTOCOL_ERROR)),
    "Host as :authority": (headers(1, fields(frames.CHECK, ("host", "LocalHost:80"))) + data(1, message()), {OPEN}),
    "Host alone": (
        headers(1, fields(frames.CHECK, ("host", "localhost"), drop=[":authority"])) + data(1, message()), {OPEN}
    ),
    "two different Host fields": (
        headers(1, fields(frames.CHECK, ("host", "a"), ("host", "b"), drop=[":authority"])), either(PROTOCOL_ERROR)
    ),
    "the name of a user in :authority": (
        headers(1, [*fields(drop=[":authority"])[:3], (":authority", "a@localhost")]), either(PROTOCOL_ERROR)
    ),
    "neither :authority nor Host": (headers(1, fields(drop=[":authority"])), either(PROTOCOL_ERROR)),
    # §8.5
    "CONNECT with a path": (
        headers(1, [(":method", "CONNECT"), (":path", "/"), (":authority", "a:1")]), either(PROTOCOL_ERROR)
    ),
    "CONNECT without an authority": (headers(1, [(":method", "CONNECT")]), either(PROTOCOL_ERROR)),
    "empty path": (headers(1, [(":path", "")] + fields(drop=[":path"])), either(PROTOCOL_ERROR)),
    "te other than trailers": (headers(1, fields(frames.CHECK, ("te", "gzip"), drop=["te"])), either(PROTOCOL_ERROR)),
    "upper case": (headers(1, raw=SOUND + literal(b"X-Upper", b"x")), either(PROTOCOL_ERROR)),
    "space in a name": (headers(1, raw=SOUND + literal(b"x y", b"x")), either(PROTOCOL_ERROR)),
    "colon in a name": (headers(1, raw=SOUND + literal(b"x:y", b"x")), either(PROTOCOL_ERROR)),
    "byte beyond ASCII in a name": (headers(1, raw=SOUND + literal(b"x\x80", b"x")), either(PROTOCOL_ERROR)),
    "space before a value": (headers(1, raw=SOUND + literal(b"x", b" x")), either(PROTOCOL_ERROR)),
    "tab behind a value": (headers(1, raw=SOUND + literal(b"x", b"x\t")), either(PROTOCOL_ERROR)),
    "malformed trailers": (
        OPENED + data(1, message(), flags=0) + headers(1, raw=literal(b"X", b"x"), flags=END_HEADERS | END_STREAM),
        either(PROTOCOL_ERROR),
    ),
    "empty name": (headers(1, raw=SOUND + literal(b"", b"x")), either(PROTOCOL_ERROR)),
    "content-length above the body": (
        headers(1, fields(frames.CHECK, ("content-length", "6"))) + data(1, message()), either(PROTOCOL_ERROR)
    ),
    "content-length below the body": (
        headers(1, fields(frames.CHECK, ("content-length", "4"))) + data(1, message()), either(PROTOCOL_ERROR)
    ),
    "content-length of no number": (headers(1, fields(frames.CHECK, ("content-length", "x"))), either(PROTOCOL_ERROR)),
    "content-length twice": (
        headers(1, fields(frames.CHECK, ("content-length", "5"), ("content-length", "6"))), either(PROTOCOL_ERROR)
    ),
    "content-length as the body is": (
        headers(1, fields(frames.CHECK, ("content-length", "5"))) + data(1, message()), {OPEN}
    ),
    # RFC 7541
    "index 0": (headers(1, raw=b"\x80"), connection(COMPRESSION_ERROR)),
    "index beyond the tables": (headers(1, raw=b"\xfe"), connection(COMPRESSION_ERROR)),
    "index of a name beyond the tables": (headers(1, raw=b"\x7e\x01x"), connection(COMPRESSION_ERROR)),
    "integer that overflows": (headers(1, raw=b"\xff" + b"\xff" * 10 + b"\x01"), connection(COMPRESSION_ERROR)),
    "string longer than the block": (headers(1, raw=b"\x00\x05ab"), connection(COMPRESSION_ERROR)),
    "Huffman padding of a whole byte": (headers(1, raw=b"\x00\x01x\x82\x07\xff\xff"), connection(COMPRESSION_ERROR)),
    "Huffman padding of zeros": (headers(1, raw=b"\x00\x01x\x81\x00"), connection(COMPRESSION_ERROR)),
    "Huffman end of string": (headers(1, raw=b"\x00\x01x\x84\xff\xff\xff\xff"), connection(COMPRESSION_ERROR)),
    "table size over the limit": (headers(1, raw=frames.integer(4097, 5, 0x20) + SOUND), connection(COMPRESSION_ERROR)),
    "table size after a field": (headers(1, raw=SOUND + b"\x20"), connection(COMPRESSION_ERROR)),
    "table size twice at the start": (headers(1, raw=b"\x20\x3f\xe1\x1f" + SOUND) + data(1, message()), {OPEN}),
    "integer cut off": (headers(1, raw=b"\xff\xff"), connection(COMPRESSION_ERROR)),
    "value missing": (headers(1, raw=SOUND + b"\x00\x01x"), connection(COMPRESSION_ERROR)),
    # §4.4: it empties the table, and is no error.
    "field larger than the table": (
        headers(1, raw=SOUND + b"\x40" + literal(b"x", b"y" * 5000)[1:]) + data(1, message()), {OPEN}
    ),
    "index of what a large field drove out": (
        headers(1, raw=SOUND + b"\x40\x01a\x01b\x40" + literal(b"x", b"y" * 5000)[1:])
        + headers(3, raw=SOUND + b"\xbe"),
        connection(COMPRESSION_ERROR),
    ),
    "bad block in trailers": (
        OPENED + headers(1, raw=b"\x80", flags=END_HEADERS | END_STREAM), connection(COMPRESSION_ERROR)
    ),
}  # fmt: skip

for _name in ("connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"):
    CASES[f"field {_name}"] = (headers(1, fields(frames.CHECK, (_name, "x"))), either(PROTOCOL_ERROR))
for _name in (":method", ":scheme", ":path"):
    CASES[f"no {_name}"] = (headers(1, fields(drop=[_name])), either(PROTOCOL_ERROR))
for _name, _value in fields()[:4]:
    CASES[f"{_name} twice"] = (headers(1, [(_name, _value), *fields()]), either(PROTOCOL_ERROR))
for _byte in (0, 10, 13):
    CASES[f"byte {_byte} in a value"] = (
        headers(1, raw=SOUND + literal(b"x", b"a" + bytes([_byte]) + b"b")), either(PROTOCOL_ERROR)
    )  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_error_kind(target, name):
    """RFC 9113, RFC 7541: each violation gets its error, on the stream or on the connection as the RFC says"""
    sent, allowed = CASES[name]
    with target.connect() as peer:
        peer.send(sent)
        assert peer.verdict(stream=1) in allowed, (peer.debug, peer.seen)
        if peer.goaway is None:
            peer.send(call(101))
            assert peer.status(101) == 0, "the connection did not go on"


@pytest.mark.parametrize(
    ("late", "allowed"),
    [
        (headers(1, flags=END_HEADERS | END_STREAM), connection(STREAM_CLOSED)),
        (data(1, b"x"), connection(STREAM_CLOSED) | stream(STREAM_CLOSED)),
        (window_update(1, 1), {OPEN}),
        (rst_stream(1), {OPEN}),
        (priority(1, 3), {OPEN}),
    ],
    ids=["HEADERS", "DATA", "WINDOW_UPDATE", "RST_STREAM", "PRIORITY"],
)
def test_closed_stream(target, late, allowed):
    """RFC 9113 §5.1: on a stream that both sides ended, HEADERS and DATA are STREAM_CLOSED and the rest is ignored"""
    with target.connect() as peer:
        peer.send(call(1))
        assert peer.status(1) == 0
        peer.send(late)
        assert peer.verdict(stream=1) in allowed


@pytest.mark.parametrize(
    ("late", "allowed"),
    [
        (headers(1, flags=END_HEADERS | END_STREAM), connection(STREAM_CLOSED) | stream(STREAM_CLOSED)),
        (data(1, b"x"), connection(STREAM_CLOSED) | stream(STREAM_CLOSED)),
        (window_update(1, 1), {OPEN}),
        (priority(1, 3), {OPEN}),
    ],
    ids=["HEADERS", "DATA", "WINDOW_UPDATE", "PRIORITY"],
)
def test_stream_reset_by_peer(target, late, allowed):
    """RFC 9113 §5.1: after its own RST_STREAM a peer sends nothing but PRIORITY"""
    with target.connect() as peer:
        peer.send(OPENED, rst_stream(1), late)
        assert peer.verdict(stream=1) in allowed


@pytest.mark.parametrize(
    "late", [window_update(1, 1), priority(1, 3), rst_stream(1)], ids=["WINDOW_UPDATE", "PRIORITY", "RST_STREAM"]
)
def test_half_closed_stream(target, late):
    """RFC 9113 §5.1: on a stream whose request has ended, WINDOW_UPDATE, PRIORITY and RST_STREAM are in order"""
    with target.connect() as peer:
        peer.send(headers(1, fields(frames.WATCH)), data(1, message()), late)
        assert peer.verdict(stream=1) == OPEN


@pytest.mark.parametrize(
    "late",
    [data(1, b"longer"), data(1, b"x", 0) + headers(1, [(":path", "/")])],
    ids=["content-length below the body", "pseudo-header in trailers"],
)
def test_malformed_late(target, late):
    """RFC 9113 §8.1.1: a request that turns out malformed after its fields were looked at is an error, whatever it is about"""
    with target.connect() as peer:
        peer.send(headers(1, fields("/", ("content-length", "1"), content_type="text/plain"), flags=END_HEADERS))
        peer.barrier()
        peer.send(late)
        assert peer.verdict(stream=1) in either(PROTOCOL_ERROR)


@pytest.mark.parametrize(
    "unserved",
    [
        headers(1, raw=block(fields(drop=[":path"])) + b"\x40\x01a\x01b"),
        headers(1) + rst_stream(1) + headers(3, raw=SOUND + literal(b"X", b"x") + b"\x40\x01a\x01b"),
        headers(1, raw=SOUND + b"".join(literal(b"x", b"y" * 4000) for _ in range(4)) + b"\x40\x01a\x01b"),
    ],
    ids=["malformed", "malformed in the middle", "too large"],
)
def test_table_of_unserved_requests(target, unserved):
    """RFC 9113 §4.3: a block that nobody reads still changes the compression table"""
    with target.connect() as peer:
        peer.send(unserved, headers(5, raw=SOUND + b"\xbe"), data(5, message()))
        assert peer.status(5) == 0


def test_padding_is_granted(target):
    """RFC 9113 §6.1: padding counts against the windows, so it is granted again, whatever the message says"""
    body = message(b"\x0a\x8b\x03" + b"x" * 395)
    padded = [data(1, bytes([255, byte]) + bytes(255), flags=PADDED) for byte in body]
    with target.connect() as peer:
        peer.send(headers(1), *padded[:200])
        while not any(got.kind == WINDOW_UPDATE and got.stream == 1 for got in peer.seen):
            peer.next()
        peer.send(*padded[200:], data(1))
        assert peer.status(1) == 5, "the health of a service that is not there"


def test_preface_wrong(target):
    """RFC 9113 §3.4: a preface wrong at any byte is not served as HTTP/2, and the connection ends"""
    for index in range(len(PREFACE)):
        wrong = bytearray(PREFACE)
        wrong[index] ^= 0x20
        with target.raw() as peer:
            peer.send(bytes(wrong), settings(), call(1))
            got = b""
            try:
                while some := peer.socket.recv(4096):
                    got += some
            except ConnectionError:
                pass
            assert got == b"" or got.startswith(b"HTTP/1.1 4"), (index, got)


@pytest.mark.parametrize(
    "line",
    [b"INVALID CONNECTION PREFACE\r\n\r\n", b"PRI X", b"PRI * HTTP/1.1\r\n\r\n", b"EHLO there\r\n", b"GET /\n"],
    ids=["no version", "the preface's method", "its method alone", "another protocol", "version 0.9"],
)
def test_preface_of_something_else(target, line):
    """RFC 9113 §3.4: where the first bytes are not HTTP/1's either, the connection ends without a word"""
    with target.raw() as peer:
        peer.send(line)
        try:
            assert peer.socket.recv(4096) == b""
        except ConnectionError:
            pass


def test_preface_cut(target):
    """RFC 9113 §3.4: a connection that ends at any byte of its preface is closed at once"""
    for count in range(len(PREFACE) + 9):
        with target.raw() as peer:
            peer.send((PREFACE + settings())[:count])
            peer.socket.shutdown(1)
            assert peer.is_closed_within(4), count


def test_preface_in_pieces(target):
    """RFC 9113 §3.4: a preface and a call that arrive byte by byte are served"""
    with target.raw() as peer:
        for byte in PREFACE + settings() + call(1):
            peer.send(bytes([byte]))
        assert peer.status(1) == 0


def test_preface_without_settings(target):
    """RFC 9113 §3.4: the first frame is SETTINGS"""
    with target.raw() as peer:
        peer.send(PREFACE, call(1))
        peer.read_to_end()
        assert peer.goaway == PROTOCOL_ERROR


def test_header_block_in_pieces(target):
    """RFC 9113 §6.10: a header block cut at any byte is put together again"""
    with target.connect() as peer:
        for index in range(len(SOUND)):
            number = 2 * index + 1
            peer.send(
                headers(number, raw=SOUND[:index], flags=0),
                frame(CONTINUATION, END_HEADERS, number, SOUND[index:]),
                data(number, message()),
            )
            assert peer.status(number) == 0


def test_settings_are_acknowledged(target):
    """RFC 9113 §6.5.3: every SETTINGS is acknowledged, once"""
    with target.connect() as peer:
        peer.send(settings((frames.MAX_FRAME_SIZE, 32768)), settings())
        assert peer.verdict() == OPEN
        assert sum(got.kind == SETTINGS and got.flags & ACK for got in peer.seen) == 3


def test_window_is_respected(target):
    """RFC 9113 §6.9: no byte more than the window, also after it became smaller or negative"""
    with target.connect((frames.INITIAL_WINDOW_SIZE, 3)) as peer:
        peer.send(call(1))
        assert peer.verdict(1) == OPEN
        sent = sum(len(got.payload) for got in peer.seen if got.kind == DATA)
        assert sent == 3
        peer.send(settings((frames.INITIAL_WINDOW_SIZE, 0)), window_update(1, 3))
        peer.barrier()
        # Its window is 3 - 3 + 0 now: nothing more.
        assert sum(len(got.payload) for got in peer.seen if got.kind == DATA) == 3
        peer.send(window_update(1, 100))
        assert peer.status(1) == 0


def test_negative_window(target):
    """RFC 9113 §6.9.2: a window that SETTINGS made negative lets nothing out until it is positive again"""
    get = fields("/healthz", method="GET", drop=["te", "content-type"])

    def sent(*steps):
        """How much of the body has come when the server has dealt with the steps."""
        peer.send(*steps)
        # A request that is refused tells; the second one comes behind all that the read of the first made it say.
        for _ in range(2):
            number = next(numbers)
            peer.send(headers(number, fields(drop=[":path"]), flags=END_HEADERS | END_STREAM))
            while number not in peer.ended:
                peer.next()
        return len(peer.answers[1][1])

    numbers = itertools.count(3, 2)
    with target.connect((frames.INITIAL_WINDOW_SIZE, 3)) as peer:
        assert sent(headers(1, get, flags=END_HEADERS | END_STREAM)) == 3
        assert sent(settings((frames.INITIAL_WINDOW_SIZE, 2)), window_update(1, 1)) == 3
        assert sent(window_update(1, 1)) == 4
        peer.send(settings((frames.INITIAL_WINDOW_SIZE, 65535)))
        assert len(peer.answer(1)[1]) > 4


def test_goaway_leaves_streams(target):
    """RFC 9113 §6.8: a client's GOAWAY ends nothing that it has begun"""
    with target.connect() as peer:
        peer.send(headers(1), goaway(), data(1, message()))
        assert peer.status(1) == 0


def test_more_streams_than_allowed(target):
    """RFC 9113 §5.1.2: a stream over the limit is refused with PROTOCOL_ERROR or REFUSED_STREAM"""
    with target.connect() as peer:
        limit = next(
            struct.unpack(">I", got.payload[index + 2 : index + 6])[0]
            for got in peer.seen if got.kind == SETTINGS
            for index in range(0, len(got.payload), 6)
            if got.payload[index : index + 2] == struct.pack(">H", frames.MAX_CONCURRENT_STREAMS)
        )  # fmt: skip
        assert limit == 100
        peer.send(*[headers(2 * index + 1) for index in range(limit + 1)])
        verdict = peer.verdict(2 * limit + 1)
        assert verdict.code in (PROTOCOL_ERROR, frames.REFUSED_STREAM), verdict


@pytest.mark.parametrize("name", ["target", "tls_target"])
def test_strict_client(request, name):
    """RFC 9113: a client that checks every frame of ours finds nothing wrong in a hundred calls"""
    target = request.getfixturevalue(name)
    with Peer(target.port, tls=target.authority) as peer:
        client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        client.initiate_connection()
        for _ in range(100):
            number = client.get_next_available_stream_id()
            client.send_headers(number, fields())
            client.send_data(number, message(), end_stream=True)
        peer.send(client.data_to_send())
        ended, statuses = 0, []
        while ended < 100:
            some = peer.socket.recv(65536)
            assert some
            for event in client.receive_data(some):
                if isinstance(event, h2.events.DataReceived):
                    client.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, h2.events.TrailersReceived):
                    statuses.append(dict(event.headers)["grpc-status"])
                elif isinstance(event, h2.events.StreamEnded):
                    ended += 1
            peer.send(client.data_to_send())
        assert statuses == ["0"] * 100


def test_closed_after_goaway(target):
    """RFC 9113 §5.4.1: after the GOAWAY of a connection error the connection is closed, and nothing more is served"""
    with target.connect() as peer:
        peer.send(frame(PING, payload=bytes(7)), call(1))
        with pytest.raises(Closed):
            while True:
                assert peer.next().kind != HEADERS
        assert peer.goaway == FRAME_SIZE_ERROR
