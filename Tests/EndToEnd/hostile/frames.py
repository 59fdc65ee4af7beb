"""HTTP/2 frames as bytes, right or wrong. RFC 9113 §4.1, §6; RFC 7541 for the header blocks."""

import struct

import hpack

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY_FLAG = 0x1, 0x1, 0x4, 0x8, 0x20

NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, SETTINGS_TIMEOUT, STREAM_CLOSED, FRAME_SIZE_ERROR = range(7)
REFUSED_STREAM, CANCEL, COMPRESSION_ERROR, CONNECT_ERROR, ENHANCE_YOUR_CALM = range(7, 12)

HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = range(1, 7)

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

CHECK = "/grpc.health.v1.Health/Check"
ISSUE = "/latchkey.qr.v1.QrSessionService/IssueSession"
POLL = "/latchkey.qr.v1.QrSessionService/PollSession"
WATCH = "/grpc.health.v1.Health/Watch"
REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"


def frame(kind, flags=0, stream=0, payload=b"", length=None):
    """A frame; its length field may lie."""
    length = len(payload) if length is None else length
    return struct.pack(">BHBBI", length >> 16, length & 0xFFFF, kind, flags, stream) + payload


def settings(*entries, flags=0, stream=0):
    return frame(SETTINGS, flags, stream, b"".join(struct.pack(">HI", key, value) for key, value in entries))


def window_update(stream, increment):
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", increment))


def rst_stream(stream, code=CANCEL):
    return frame(RST_STREAM, 0, stream, struct.pack(">I", code))


def priority(stream, dependency=0, weight=15):
    return frame(PRIORITY, 0, stream, struct.pack(">IB", dependency, weight))


def goaway(last=0, code=NO_ERROR, debug=b"", stream=0):
    return frame(GOAWAY, 0, stream, struct.pack(">II", last, code) + debug)


def fields(path=CHECK, *extra, drop=(), method="POST", content_type="application/grpc"):
    """The header fields of a sound gRPC request, without those in `drop`, with `extra` at the end."""
    sound = [
        (":method", method), (":scheme", "http"), (":path", path), (":authority", "localhost"),
        ("te", "trailers"), ("content-type", content_type),
    ]  # fmt: skip
    return [field for field in sound if field[0] not in drop] + list(extra)


def block(list_of_fields):
    """A header block that leaves the compression table alone, so that any number of them fit any connection."""
    return hpack.Encoder().encode([hpack.NeverIndexedHeaderTuple(*field) for field in list_of_fields], huffman=False)


def literal(name, value):
    """A field that an honest encoder would not write: literal, not indexed, not Huffman-coded. RFC 7541 §6.2.2."""
    return b"\x00" + integer(len(name), 7) + name + integer(len(value), 7) + value


def integer(value, bits, flags=0):
    """RFC 7541 §5.1."""
    limit = (1 << bits) - 1
    if value < limit:
        return bytes([flags | value])
    out = [flags | limit]
    value -= limit
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def headers(stream, list_of_fields=None, flags=END_HEADERS, raw=None):
    return frame(HEADERS, flags, stream, raw if raw is not None else block(list_of_fields or fields()))


def message(body=b"", length=None, compressed=0):
    """A gRPC message; its length prefix may lie."""
    return struct.pack(">BI", compressed, len(body) if length is None else length) + body


def data(stream, body=b"", flags=END_STREAM):
    return frame(DATA, flags, stream, body)


def call(stream, path=CHECK, body=b"", *extra):
    """A whole unary call."""
    return headers(stream, fields(path, *extra)) + data(stream, message(body))
