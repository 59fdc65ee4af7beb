#!/usr/bin/env python3
"""Writes the hand-made inputs of Tests/Fuzz/Corpus; those that libFuzzer found (named by their hash) stay.

    python Tests/Fuzz/make_seeds.py      needs PyPI's hpack, as the tests do

An input of the targets that take a stream begins with a byte for the size of the reads, 0 for one read.
"""

import base64
import gzip
import json
import pathlib
import struct
import sys

import hpack

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORPUS = pathlib.Path(__file__).parent / "Corpus"
sys.path.insert(0, str(ROOT / "Tests" / "EndToEnd" / "hostile"))

from frames import (  # noqa: E402
    ACK, CONTINUATION, END_HEADERS, END_STREAM, HEADER_TABLE_SIZE, HEADERS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, PADDED,
    PING, PREFACE, PRIORITY_FLAG, PUSH_PROMISE, SETTINGS, WINDOW_UPDATE, block, call, data, fields, frame, goaway,
    headers, message, priority, rst_stream, settings, window_update,
)

WHOLE, BYTES, SEVENS = b"\x00", b"\x01", b"\x07"


def answer(stream, end=True):
    """What a server says: fields, a message, trailers."""
    ok = headers(stream, [(":status", "200"), ("content-type", "application/grpc")])
    trailers = headers(stream, [("grpc-status", "0")], flags=END_HEADERS | (END_STREAM if end else 0))
    return ok + data(stream, message(b"hello"), flags=0) + trailers


FRAMES = {
    "call": call(1) + call(3) + call(5),
    "answered-early": headers(1) + call(9) + data(1, message(b"x")),
    "reset": headers(1) + rst_stream(1) + headers(3) + rst_stream(3),
    "continuation": frame(HEADERS, 0, 1, block(fields())[:9]) + frame(CONTINUATION, END_HEADERS, 1, block(fields())[9:]),
    "trailers": headers(1) + data(1, message(b""), flags=0) + headers(1, [("x-end", "1")], END_HEADERS | END_STREAM),
    "padded": frame(HEADERS, END_HEADERS | PADDED, 1, b"\x04" + block(fields()) + bytes(4)),
    "priority": frame(HEADERS, END_HEADERS | PRIORITY_FLAG, 1, bytes(5) + block(fields())) + priority(1, 0),
    "settings": settings((INITIAL_WINDOW_SIZE, 1), (MAX_FRAME_SIZE, 16384), (HEADER_TABLE_SIZE, 0)) + call(1),
    "table": headers(1, raw=hpack.Encoder().encode(fields())) + headers(3, raw=b"\x3f\xe1\x1f" + block(fields())),
    "windows": settings((INITIAL_WINDOW_SIZE, 0)) + call(1) + window_update(1, 100) + window_update(0, 2**31 - 1),
    "control": frame(PING, 0, 0, bytes(8)) + goaway(0) + settings(flags=ACK) + frame(0xEE, 0, 0, b"x") + call(1),
    "bad-frames": frame(PING, 0, 1, bytes(8)) + frame(SETTINGS, ACK, 0, bytes(6)) + frame(WINDOW_UPDATE, 0, 0, bytes(3)),
    "even-stream": headers(2) + headers(1, fields(drop=(":path",))),
}  # fmt: skip
ANSWERS = {
    "informational": headers(1, [(":status", "103")]) + answer(1),
    "trailers-only": headers(1, [(":status", "200"), ("grpc-status", "14")], END_HEADERS | END_STREAM),
    "push": frame(PUSH_PROMISE, END_HEADERS, 1, struct.pack(">I", 2) + block(fields())),
    "goaway": goaway(1, 11, b"too_many_pings") + answer(1),
    "refused": rst_stream(1, 7) + rst_stream(3, 0) + answer(5, end=False) + rst_stream(5, 8),
    "two-answers": answer(1, end=False) + answer(1),
}


def to_path(path, body, *extra):
    return headers(1, fields(path, *extra)) + data(1, body)


ZIPPED = gzip.compress(b"hello " * 50, mtime=0)
CONNECTIONS = {
    **{name: PREFACE + settings() + frames for name, frames in FRAMES.items()},
    "echo": PREFACE + settings() + to_path("/t.T/Echo", message(b"hello"), ("grpc-timeout", "1S")),
    "many": PREFACE + settings() + to_path("/t.T/Many", message(b"\x05"), ("grpc-accept-encoding", "gzip")),
    "sum": PREFACE + settings() + to_path("/t.T/Sum", message(b"a") + message(b"b")),
    "ping-pong": PREFACE + settings() + to_path(
        "/t.T/PingPong", message(ZIPPED, compressed=1) + message(b"b"), ("grpc-encoding", "gzip")),
    "page": PREFACE + settings() + headers(1, fields("/healthz", method="GET", content_type="x"), END_HEADERS | END_STREAM),
    "http1": b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\nPOST /form HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc",
    "http1-chunked": b"POST /form HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "web": b"POST /t.T/Echo HTTP/1.1\r\nhost: a\r\ncontent-type: application/grpc-web+proto\r\n"
           b"content-length: 10\r\n\r\n" + message(b"hello"),
    "web-text": b"POST /t.T/Many HTTP/1.1\r\nhost: a\r\ncontent-type: application/grpc-web-text\r\norigin: http://a\r\n"
                b"content-length: 8\r\n\r\n" + base64.b64encode(message(b"\x03")),
    "web-h2": PREFACE + settings() + headers(1, fields("/t.T/Echo", content_type="application/grpc-web"))
              + data(1, message(b"hello")),
    "cors": b"OPTIONS /t.T/Echo HTTP/1.1\r\nhost: a\r\norigin: http://a\r\naccess-control-request-method: POST\r\n\r\n",
    "preface-cut": PREFACE[:12],
}  # fmt: skip
FRAMER = {
    "one": message(b"hello"),
    "three": message(b"") + message(b"a") + message(bytes(300)),
    "gzip": message(ZIPPED, compressed=1) + message(b"b"),
    "gzip-members": message(ZIPPED + gzip.compress(b"more", mtime=0), compressed=1),
    "bomb": message(gzip.compress(bytes(10_000), mtime=0), compressed=1),
    "cut-gzip": message(ZIPPED[:20], compressed=1),
    "long": message(b"x", length=2**32 - 1),
    "flag": message(b"x", compressed=2),
    "cut": message(b"hello")[:7],
}
# The byte that chooses the call, and the body: text 1, then the method, then the codings.
ECHO, MANY, SUM, NONE, TEXT, ZIP, TAKES_ZIP, ORIGIN = 0, 2, 4, 6, 1, 8, 16, 32
HALVES = [base64.b64encode(half) for half in (message(b"hello")[:4], message(b"hello")[4:])]
WEB = {
    "echo": (ECHO, message(b"hello")),
    "many": (MANY | TAKES_ZIP | ORIGIN, message(b"\x05")),
    "none": (NONE, message(b"x")),
    "sum": (SUM, message(b"a") + message(b"b")),
    "text": (ECHO | TEXT, base64.b64encode(message(b"hello"))),
    "text-many": (MANY | TEXT, base64.b64encode(message(b"\x03"))),
    "text-padded-twice": (ECHO | TEXT, b"".join(HALVES)),
    "text-cut": (ECHO | TEXT, base64.b64encode(message(b"hello"))[:-2]),
    "text-letters": (ECHO | TEXT, b"AAAA****"),
    "two": (ECHO, message(b"a") + message(b"b")),
    "empty": (ECHO, message(b"")),
    "cut": (ECHO, message(b"hello")[:7]),
    "long": (ECHO, message(b"x", length=2**32 - 1)),
    "gzip": (ECHO | ZIP, message(ZIPPED, compressed=1)),
    "gzip-text": (ECHO | ZIP | TEXT, base64.b64encode(message(ZIPPED, compressed=1))),
    "gzip-unasked": (ECHO, message(ZIPPED, compressed=1)),
    "trailers": (ECHO, message(b"hello") + b"\x80\0\0\0\x05a: b\n"),
}  # fmt: skip
METADATA = {
    "request": b"\n".join(part.encode() for field in fields("/t.T/Echo") for part in field),
    "values": b":method\nPOST\n:path\n/t.T/Echo\ncontent-type\napplication/grpc\ngrpc-timeout\n100m\nx-a-bin\nAAH/,qqs=\n"
              b"x-b\nb\ngrpc-accept-encoding\nidentity,gzip\ngrpc-encoding\ngzip\nauthorization\nBearer abc",
    "response": b":status\n200\ncontent-type\napplication/grpc+proto\ngrpc-status\n3\ngrpc-message\nn%C3%B6t%20%GG\n"
                b"grpc-retry-pushback-ms\n100\ngrpc-status-details-bin\nCAMSA25vdA==\ngrpc-encoding\nidentity",
    "timeouts": b"\n".join([b"1H", b"99999999M", b"0n", b"12345678S", b"7m", b"8u", b"123456789S", b"-1S", b"S"]),
    "base64": b"\n".join([b"", b"QQ", b"QQ==", b"QUI", b"QUI=", b"QUJD", b"QR", b"Q", b"=", b"QUJD,QQ"]),
}  # fmt: skip


def jws(header, payload=b"{}", signature=bytes(64)):
    def part(content):
        return base64.urlsafe_b64encode(content).rstrip(b"=")

    return b".".join([part(json.dumps(header).encode()), part(payload), part(signature)])


KEY = {"kty": "EC", "crv": "P-256", "kid": "k", "use": "sig", "alg": "ES256",
       "x": "axfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpY", "y": "T-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU"}  # fmt: skip
TOKENS = {
    "token": jws({"alg": "ES256", "typ": "at+jwt", "kid": "k"}),
    "none": jws({"alg": "none", "typ": "at+jwt", "kid": "k"}, signature=b""),
    "key-inside": jws({"alg": "ES256", "typ": "AT+JWT", "kid": "k", "jwk": KEY}),
    "key": json.dumps(KEY).encode(),
    "keys": json.dumps({"keys": [KEY]}).encode(),
    "values": b'{"a":[1,-2.5e3,true,false,null,"\\u00e9\\ud83d\\ude00\\n"],"b":{}}',
    "numbers": b"[0,-0,1e400,9223372036854775807,9223372036854775808,0.1]",
    "deep": b"[" * 40 + b"]" * 40,
    "surrogate": b'"\\ud83d"',
    "twice": b'{"a":1,"a":2}',
}
QR_CODES = {
    "payload": b"https://login.example/q/1/Tz3Rb8esxhSLmmSc6Jm9ew",
    "loopback": b"http://127.0.0.1:7402/q/1/Tz3Rb8esxhSLmmSc6Jm9ew",
    "version": b"https://login.example/q/2/Tz3Rb8esxhSLmmSc6Jm9ew",
    "suffix": b"https://login.example.evil.example/q/1/Tz3Rb8esxhSLmmSc6Jm9ew",
    "user": b"https://login.example@evil.example/q/1/Tz3Rb8esxhSLmmSc6Jm9ew",
    "code": b"WXKX-CJJT",
    "typed": b" wxkx cjjt",
    "base": b"https://[::1]:7402/a/b",
    "ticket": b"A" * 64,
    "scope": b"basic profile",
}


# The first two bytes choose the type. Each body is tried as the types that read it in ways of their own: `-merge=1` of
# libFuzzer keeps all of these, and drops every other pair.
BODIES = {
    "empty": (b"", (3, 40, 77, 110)),
    "strings": (b"".join(bytes([number << 3 | 2, 3]) + b"abc" for number in range(1, 8)), (3, 110)),
    "numbers": (b"".join(bytes([number << 3, 5]) for number in range(1, 8)), (3, 40, 77)),
    "nested": (b"\x0a\x08\x0a\x03abc\x12\x01x\x12\x04\x08\x01\x10\x02", (3, 110)),
    "not-utf8": (b"\x0a\x02\xff\xfe\x12\x02\xc3\x28", (3, 40, 77, 110)),
    "long-length": (b"\x0a\xff\xff\xff\xff\x0f", (3, 40, 77, 110)),
    "repeated": (b"\x0a\x01a" * 20 + b"\x12\x01b" * 20, (110,)),
}
MESSAGES = {f"{name}-{number}": struct.pack(">H", number) + body
            for name, (body, numbers) in BODIES.items() for number in numbers}  # fmt: skip

PAGE = b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n"
WAIT = b"GET /wait HTTP/1.1\r\nhost: a\r\n\r\n"
FORM = b"POST /form HTTP/1.1\r\nhost: a\r\n"
WEB_CALL = b"content-type: application/grpc-web+proto\r\ncontent-length: 5\r\n\r\n" + message(b"")
REFUSED_CALL = b"POST /none/none HTTP/1.1\r\nhost: a\r\n" + WEB_CALL
ECHO_CALL = b"POST /t.T/Echo HTTP/1.1\r\nhost: a\r\n" + WEB_CALL
# The first write that fails, and whether the peer ends its side before it goes; then what it sends.
PAGES = {
    "pages": (255, 0, PAGE * 3 + PAGE.replace(b"GET", b"HEAD")),
    "gone": (0, 0, PAGE + REFUSED_CALL + PAGE),
    "half": (2, 1, PAGE + ECHO_CALL + PAGE),
    "refused": (255, 1, ECHO_CALL + b"GET /healthz HTTP/1.1\r\n\r\n" + PAGE),
    "chunks": (3, 0, FORM + b"transfer-encoding: chunked\r\n\r\n3\r\na=b\r\n0\r\nx: y\r\n\r\n" + REFUSED_CALL),
    "continue": (1, 1, FORM + b"expect: 100-continue\r\ncontent-length: 3\r\n\r\na=b" + ECHO_CALL),
    "unfinished": (255, 1, ECHO_CALL + FORM + b"content-length: 400\r\n\r\na"),
    "unreadable": (255, 0, PAGE + b"\x01\r\n\r\n" + PAGE),
    "old": (255, 0, b"GET /healthz HTTP/1.0\r\nconnection: keep-alive\r\n\r\n" * 2),
    "many": (4, 0, b"POST /t.T/Many HTTP/1.1\r\nhost: a\r\n" + WEB_CALL.replace(b": 5", b": 6")[:-5] + message(b"\x09") + PAGE),
    "waiting": (255, 0, WAIT),
    "waiting-behind": (255, 1, PAGE + ECHO_CALL + WAIT + PAGE),
    "waiting-failing": (2, 0, PAGE + WAIT + PAGE),
}  # fmt: skip

# As pages, from the first byte of a connection on.
FAILING = {
    **{name: (index % 6, index % 2, CONNECTIONS[name]) for index, name in enumerate(sorted(CONNECTIONS))},
    "all": (255, 1, PREFACE + settings() + to_path("/t.T/Many", message(b"\x09")) + call(3)),
    "web-h2-late": (3, 0, PREFACE + settings() + headers(1, fields("/t.T/Many", content_type="application/grpc-web"))
                    + data(1, message(b"\x09"))),
    "without-answer": (255, 1, PREFACE + settings()
                       + headers(1, fields("/wait", method="GET", content_type="x"), END_HEADERS | END_STREAM)),
}  # fmt: skip
# The first write that fails, the choices, which byte is changed and how; then what is said.
RAW, ENDS, TLS12, HTTP1, RESUMES, GOODBYE = 1, 2, 4, 8, 16, 32
ALERT, APPLICATION_DATA, HANDSHAKE = b"\x15\x03\x03\0\x02\x01\0", b"\x17\x03\x03\0\x01a", b"\x16\x03\x01\0\x04\x01\0\0\0"
TLS_RECORDS = {
    "call": (255, GOODBYE, 0, 0, CONNECTIONS["echo"]),
    "many": (255, ENDS, 0, 0, CONNECTIONS["many"]),
    "failing": (4, 0, 0, 0, CONNECTIONS["many"]),
    "failing-handshake": (0, 0, 0, 0, CONNECTIONS["echo"]),
    "old": (255, TLS12 | GOODBYE, 0, 0, CONNECTIONS["ping-pong"]),
    "pages": (255, HTTP1 | ENDS, 0, 0, PAGE + ECHO_CALL + PAGE),
    "pages-failing": (5, HTTP1, 0, 0, PAGE + REFUSED_CALL + PAGE),
    "resumed": (255, RESUMES, 0, 0, CONNECTIONS["echo"]),
    "resumed-old": (255, RESUMES | TLS12 | HTTP1, 0, 0, PAGE),
    "hello-changed": (255, 0, 60, 1, CONNECTIONS["echo"]),
    "finished-changed": (255, 0, 560, 128, CONNECTIONS["echo"]),
    "ticket-changed": (255, RESUMES, 400, 2, CONNECTIONS["echo"]),
    "data-changed": (255, TLS12, 700, 4, CONNECTIONS["echo"]),
    "records": (255, RAW | ENDS, 0, 0, HANDSHAKE + APPLICATION_DATA + ALERT),
    "not-tls": (255, RAW, 0, 0, PAGE),
}  # fmt: skip

STREAMS = {"server-frames": FRAMES, "client-frames": ANSWERS, "connection": CONNECTIONS, "framer": FRAMER, "web": WEB,
           "pages": PAGES, "failing-writes": FAILING, "tls-records": TLS_RECORDS}  # fmt: skip
PLAIN = {"metadata": METADATA, "tokens": TOKENS, "qr-codes": QR_CODES, "messages": MESSAGES}


def main():
    for target, seeds in (STREAMS | PLAIN).items():
        folder = CORPUS / target
        folder.mkdir(parents=True, exist_ok=True)
        for index, (name, content) in enumerate(sorted(seeds.items())):
            reads = (WHOLE, BYTES, SEVENS)[index % 3] if target in STREAMS else b""
            choice = b""
            if target == "web":
                choice, content = bytes([content[0]]), content[1]
            if target in ("pages", "failing-writes"):
                choice, content = bytes(content[:2]), content[2]
            if target == "tls-records":
                choice, content = struct.pack(">BBHB", *content[:4]), content[4]
            (folder / f"seed-{name}").write_bytes(choice + reads + content)


if __name__ == "__main__":
    main()
