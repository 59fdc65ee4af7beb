"""What "gRPC over HTTP/2" asks of a server, by a client that writes the fields itself. Its sections, and where each is tested:

Requests        Call-Definition, Path       P1; test_bad_input.py (unknown methods)
                Timeout                     P2; GRPCTimeoutTests in WireFormTests.swift, test_bad_input.py (garbage)
                Content-Type                P3; test_bad_input.py and test_web.py (others are 415)
                Message-Encoding            P4; CompressionTests.swift
                Custom-Metadata, -bin       P5; WireFormTests.swift
                Length-Prefixed-Message     P6; MessageFramerTests in WireFormTests.swift, test_bad_input.py
Responses       Response-Headers, Trailers  P7
                Status, Status-Message      P8; WireFormTests.swift
                Error codes of HTTP/2       HTTP2SessionTests.swift (an early answer), test_attacks.py, test_conformance.py
Connection      GOAWAY                      ClientRecoveryTests.swift, test_processes.py, test_proxies.py
                PING                        RPCServerTests.swift (abuse), test_conformance.py
                user agents                 P5
"""

import contextlib
import pathlib
import subprocess
import sys
import time
import types

import pytest
import services
import wire

ROOT = pathlib.Path(__file__).resolve().parents[2]

sys.path.append(str(ROOT / "Tests" / "Interop"))

EMPTY = "/grpc.testing.TestService/EmptyCall"
UNARY = "/grpc.testing.TestService/UnaryCall"
DUPLEX = "/grpc.testing.TestService/FullDuplexCall"
INPUT = "/grpc.testing.TestService/StreamingInputCall"
OK, DEADLINE_EXCEEDED, UNIMPLEMENTED, INTERNAL = 0, 4, 12, 13
BINARY = "x-grpc-test-echo-trailing-bin"


@pytest.fixture(scope="module")
def served(binaries):
    """The interoperability cases' service, as `wire` takes it for a world."""
    server = subprocess.Popen(
        [binaries / "latchkey-interop"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=services.clean_environment()
    )
    try:
        port = int(server.stdout.readline())
        fleet = types.SimpleNamespace(host="localhost", scheme="http", ports={"interop": (port, None)})
        yield types.SimpleNamespace(fleet=fleet, authority=None)
    finally:
        with contextlib.suppress(BrokenPipeError):
            server.stdin.close()
        server.wait(timeout=30)


@pytest.fixture
def client(served):
    with wire.Connection(served, "interop") as connection:
        yield connection


@pytest.fixture(scope="module")
def messages():
    import interop

    return interop


def call(client, path=EMPTY, body=wire.framed(b""), *headers, **options):
    """(header fields, body, trailers) of a call."""
    return client.answer(client.request(path, body, headers=headers, **options))


def status(answer):
    return int((answer[0] | answer[2])["grpc-status"])


def test_paths(client):
    """P1: a path is a service and a method, byte by byte, whatever the scheme and the authority are"""
    assert status(call(client)) == OK
    for path in (
        EMPTY.lower(), EMPTY + "/", EMPTY + "?a=b", "/" + EMPTY, "/EmptyCall", "/grpc.testing.TestService", "/", "/%45mptyCall"
    ):  # fmt: skip
        answer = call(client, path)
        assert status(answer) == UNIMPLEMENTED and answer[0][":status"] == "200", path
    client.scheme, client.host = "https", "other.example:1"
    assert status(call(client)) == OK


@pytest.mark.parametrize("timeout", ["300m", "300000u", "99999999n", "0S", "0n"])
def test_short_timeouts(client, messages, timeout):
    """P2: a deadline counts in each of its units, and none at all is long over"""
    request = messages.output_request(1, 1, interval_us=30_000_000).SerializeToString()
    started = time.monotonic()
    assert status(call(client, DUPLEX, wire.framed(request), ("grpc-timeout", timeout))) == DEADLINE_EXCEEDED
    took = time.monotonic() - started
    assert took < 5 and (timeout.startswith("0") or took > 0.09)


@pytest.mark.parametrize("timeout", ["20S", "1M", "1H", "99999999H", "99999999M", "99999999S", "00000020S"])
def test_long_timeouts(client, timeout):
    """P2: a deadline far away does not end a call, up to the longest that can be said"""
    assert status(call(client, EMPTY, wire.framed(b""), ("grpc-timeout", timeout))) == OK


@pytest.mark.parametrize(
    "content_type", ["application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8", "application/grpc+x"]
)
def test_content_types(client, content_type):
    """P3: gRPC's content types are answered in gRPC's own"""
    headers, _, trailers = call(client, content_type=content_type)
    assert headers["content-type"].startswith("application/grpc") and trailers["grpc-status"] == "0"


@pytest.mark.parametrize("encoding", ["br", "snappy", "GZIP", "gzip, identity", ""])
def test_unknown_encodings(client, encoding):
    """P4: an encoding that the server lacks is UNIMPLEMENTED, and the ones it has are named"""
    answer = call(client, EMPTY, wire.framed(b"", compressed=1), ("grpc-encoding", encoding))
    assert status(answer) == UNIMPLEMENTED
    assert set((answer[0] | answer[2])["grpc-accept-encoding"].split(",")) == {"identity", "gzip"}


def test_answers_in_an_encoding_that_was_offered(client, messages):
    """P4: an answer is compressed only where the client has said that it can expand it"""
    request = messages.SimpleRequest(response_size=5000)
    request.response_compressed.value = True
    body = wire.framed(request.SerializeToString())
    for offer, flag in (((), 0), ((("grpc-accept-encoding", "br, gzip,identity"),), 1), ((("grpc-accept-encoding", "br"),), 0)):
        headers, answer, trailers = call(client, UNARY, body, *offer)
        assert answer[0] == flag and trailers["grpc-status"] == "0"
        assert headers.get("grpc-encoding", "identity") == ("gzip" if flag else "identity")
    # The flag without an encoding, or with one that changes nothing, says nothing.
    for encoding in ((), (("grpc-encoding", "identity"),)):
        assert status(call(client, EMPTY, wire.framed(b"", compressed=1), *encoding)) == INTERNAL


@pytest.mark.parametrize(
    ("sent", "echoed"),
    [
        ("q6ur", "q6ur"), ("qw==", "qw"), ("qw", "qw"), ("q6s=", "q6s"), ("q6s", "q6s"), ("", ""), ("//++", "//++"),
        ("qw==,q6ur", "qw"), ("qw,q6ur", "qw"),
    ],
)  # fmt: skip
def test_binary_metadata(client, sent, echoed):
    """P5: bytes in metadata come padded or not, and several in one field; they leave without padding"""
    trailers = call(client, EMPTY, wire.framed(b""), (BINARY, sent))[2]
    assert trailers["grpc-status"] == "0" and trailers[BINARY] == echoed


@pytest.mark.parametrize("sent", ["q", "!!!!", "q6u", "====", "qw=", "a b c d", "qw,!"])
def test_binary_metadata_that_is_none(client, sent):
    """P5: what is not base64, or says bits that are no byte, ends the call"""
    assert status(call(client, EMPTY, wire.framed(b""), (BINARY, sent))) == INTERNAL


def test_other_metadata(client):
    """P5: names of the protocol's, unknown ones, user agents, and values of any ASCII hinder no call"""
    headers = [
        ("user-agent", "grpc-x/1.0 (y; z)"), ("grpc-unheard-of", "x"), ("grpc-previous-rpc-attempts", "2"),
        ("grpc-tags-bin", "qw"), ("grpc-trace-bin", "qw"), ("x-1.2_3", "".join(map(chr, range(0x21, 0x7F)))), ("x", ""),
        ("x", "second"), ("grpc-message-type", "grpc.testing.Empty"), ("content-length", "5"),
    ]  # fmt: skip
    answer = call(client, EMPTY, wire.framed(b""), *headers, ("x-grpc-test-echo-initial", "a  b,c"))
    assert status(answer) == OK and answer[0]["x-grpc-test-echo-initial"] == "a  b,c"
    assert not any(name.startswith("grpc-un") for name in answer[0] | answer[2])


def test_messages_however_they_are_cut(client, messages):
    """P6: a message is what its prefix says, across frames and within one, and an empty one counts"""
    message = messages.InputRequest()
    message.payload.body = bytes(100)
    framed = wire.framed(message.SerializeToString())
    for pieces in ([framed * 3], [bytes([byte]) for byte in framed], [framed[:3], b"", framed[3:] + framed[:7], framed[7:]]):
        stream = client.request(INPUT, end=False)
        for piece in pieces:
            client.h2.send_data(stream, piece)
        client.h2.send_data(stream, wire.framed(b""), end_stream=True)
        client.flush()
        headers, body, trailers = client.answer(stream)
        count = sum(map(len, pieces)) // len(framed)
        assert trailers["grpc-status"] == "0"
        assert messages.InputResponse.FromString(body[5:]).aggregated_payload_size == 100 * count


def test_answers(client, messages):
    """P7: an answer is headers, messages and trailers; one without messages that fails is trailers alone"""
    headers, body, trailers = call(client)
    assert (headers[":status"], headers["content-type"]) == ("200", "application/grpc")
    assert body == wire.framed(b"") and trailers == {"grpc-status": "0"}
    request = messages.SimpleRequest()
    request.response_status.code = 2
    for path, sent in ((UNARY, request.SerializeToString()), ("/no.Service/Method", b"")):
        headers, body, trailers = call(client, path, wire.framed(sent))
        assert headers[":status"] == "200" and headers["content-type"] == "application/grpc"
        assert "grpc-status" in headers and body == b"" and trailers == {}
    # A stream without an answer has headers or none, and its status either way.
    assert status(call(client, DUPLEX, b"")) == OK


@pytest.mark.parametrize("code", [*range(1, 17), 99, -1])
def test_statuses(client, messages, code):
    """P8: every code arrives as its number, and what is none as UNKNOWN"""
    request = messages.SimpleRequest()
    request.response_status.code = code
    assert status(call(client, UNARY, wire.framed(request.SerializeToString()))) == (code if 1 <= code <= 16 else 2)


@pytest.mark.parametrize(
    "text", ["plain", "100 %", "%41", "\t\r\n", "\u263a \U0001f608", "\x7f\x00", " a ", " ", "".join(map(chr, range(0x20, 0x7F)))]
)
def test_status_messages(client, messages, text):
    """P8: a message is percent-encoded UTF-8, and printable ASCII goes as it is"""
    request = messages.SimpleRequest()
    request.response_status.code = 2
    request.response_status.message = text
    field = call(client, UNARY, wire.framed(request.SerializeToString()))[0]["grpc-message"]
    # No value may begin or end with a space (RFC 9113 §8.2.1), so that one there is encoded as well.
    outer = {0, len(text.encode()) - 1}
    plain = [0x20 <= byte < 0x7F and byte != 0x25 and not (byte == 0x20 and i in outer) for i, byte in enumerate(text.encode())]
    assert field == "".join(chr(byte) if is_plain else f"%{byte:02X}" for byte, is_plain in zip(text.encode(), plain))
