"""Peers that break no rule, or one that costs little, and go on with it: others are served, memory stays bounded."""

import contextlib
import http.client
import random
import socket
import ssl
import threading
import time

import frames
import key_updates
import pytest
from frames import (
    DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, INITIAL_WINDOW_SIZE, block, data, fields, headers, message,
    window_update,
)  # fmt: skip
from peer import Closed
from test_attacks import beside, flood

# A list of what the server serves; hundreds of bytes for two.
LIST = message(b"\x3a\x00")
# The files of a service, some 40 KB each time.
SYMBOL = b"latchkey.qr.v1.QrSessionService"
FILES = message(b"\x22" + bytes([len(SYMBOL)]) + SYMBOL)


def table_churn(rounds):
    """Requests that empty the compression table, size it again and fill it with fields of their own. RFC 7541 §6.3"""
    empty, full = frames.integer(0, 5, 0x20), frames.integer(4096, 5, 0x20)
    for index in range(rounds):
        entries = b"".join(
            b"\x40" + frames.integer(8, 7) + b"x-%06d" % (index * 20 + entry) + frames.integer(100, 7) + b"v" * 100
            for entry in range(20)
        )
        number = 2 * index + 1
        yield headers(number, raw=empty + full + block(fields()) + entries, flags=END_HEADERS) + data(number, message())


def test_table_churn(target):
    """RFC 7541 §6.3: a table that each request empties, resizes and fills again stays right, and small"""
    with beside(target), target.connect() as attacker:
        reader = threading.Thread(target=attacker.read_to_end)
        attacker.send(window_update(0, 1 << 24))
        reader.start()
        assert flood(attacker, (part for part in table_churn(90)))
        attacker.socket.shutdown(socket.SHUT_WR)
        reader.join(timeout=15)
        assert attacker.goaway in {None, frames.NO_ERROR}, attacker.debug


def test_table_of_a_size_that_was_not_agreed(target):
    """RFC 7541 §6.3: a table larger than ours may be is an error of the connection"""
    with beside(target):
        for size in (4097, 1 << 20, (1 << 31) - 1):
            with target.connect() as attacker:
                attacker.send(headers(1, raw=frames.integer(size, 5, 0x20) + block(fields())))
                attacker.read_to_end()
                assert attacker.goaway == frames.COMPRESSION_ERROR


def test_window_by_the_byte(target):
    """CVE-2019-9511: a peer that has an answer sent byte by byte, on window after window of one, is cut off"""
    with beside(target), target.connect((INITIAL_WINDOW_SIZE, 0), timeout=30) as attacker:
        attacker.send(headers(1, fields(frames.REFLECTION)), data(1, FILES, flags=0))
        taken, began = 0, time.monotonic()
        with contextlib.suppress(Closed, ConnectionError):
            while taken < 20_000:
                attacker.send(window_update(1, 1))
                while attacker.next().kind != DATA:
                    pass
                taken += 1
        # What is allowed at once, and a second, of frames that do no work.
        assert taken < 500 + 50 * (time.monotonic() - began) + 100
        assert attacker.goaway in {ENHANCE_YOUR_CALM, None}, (attacker.goaway, attacker.debug)


def test_small_windows_of_an_honest_client(target):
    """A client that grants little at a time, but as it reads, gets the whole of a long answer"""
    with beside(target), target.connect((INITIAL_WINDOW_SIZE, 1024), timeout=30) as client:
        client.send(window_update(0, 1 << 24), headers(1, fields(frames.REFLECTION)), data(1, FILES * 10))
        while 1 not in client.ended:
            got = client.next()
            if got.kind == DATA and got.payload:
                client.send(window_update(1, len(got.payload)))
        assert client.status(1) == 0
        assert len(client.answers[1][1]) > 50_000


def test_trickling_reader(target):
    """Peers that read their large answers some bytes at a time hold no more than their bounds"""
    with beside(target), contextlib.ExitStack() as stack:
        attackers = [stack.enter_context(target.connect(receive_buffer=4096, timeout=10)) for _ in range(10)]
        for attacker in attackers:
            attacker.send(window_update(0, 1 << 30), frames.settings((INITIAL_WINDOW_SIZE, 1 << 30)))
            for number in range(1, 20, 2):
                attacker.send(headers(number, fields(frames.REFLECTION)), data(number, FILES * 50, flags=0))
        end = time.monotonic() + 2
        while time.monotonic() < end:
            for attacker in attackers:
                assert attacker.socket.recv(10)
        target.call()


@pytest.mark.parametrize("content_type", ["application/grpc-web", "application/grpc-web-text"])
def test_web_streams_that_nobody_reads(target, content_type):
    """gRPC-Web streams over HTTP/1.1 and HTTP/2 that are opened and never read end with their connections"""
    with beside(target), contextlib.ExitStack() as stack:
        body = message() if content_type.endswith("web") else b"AAAAAAA="
        for _ in range(100):
            attacker = stack.enter_context(target.raw(receive_buffer=4096))
            attacker.send(
                b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n"
                % (frames.WATCH.encode(), content_type.encode(), len(body)),
                body,
            )
        for _ in range(10):
            attacker = stack.enter_context(target.connect((INITIAL_WINDOW_SIZE, 0)))
            for number in range(1, 100, 2):
                attacker.send(headers(number, fields(frames.WATCH, content_type=content_type)), data(number, body))
        target.call()


def test_uploads_without_end(target):
    """Streams of requests that are begun and left open cost little and leave nothing, whole or in half a message"""
    with beside(target), contextlib.ExitStack() as stack:
        for _ in range(10):
            attacker = stack.enter_context(target.connect())
            for number in range(1, 200, 2):
                begun = LIST + message(bytes(60_000))[:1000] if number % 4 == 1 else b""
                attacker.send(headers(number, fields(frames.REFLECTION)), data(number, begun, flags=0))
        target.call()


def test_many_paths(target):
    """Calls of methods that are not there leave nothing in the metrics, however many names they think up"""
    lines = len(target.metric_lines())
    with beside(target), target.connect(timeout=30) as attacker:
        attacker.send(window_update(0, 1 << 24))
        for start in range(1, 4001, 100):
            numbers = range(start, start + 100, 2)
            attacker.send(
                *(headers(number, fields(f"/x{number}.Y/z{number}"), END_HEADERS | END_STREAM) for number in numbers)
            )
            assert all(attacker.status(number) == 12 for number in numbers)
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", target.port, timeout=5)) as client:
        for number in range(300):
            client.request("GET", f"/page-{number}")
            answer = client.getresponse()
            assert answer.status == 404
            answer.read()
    assert len(target.metric_lines()) <= lines + 20


@pytest.mark.parametrize(
    "timeout", ["99999999H", "99999999n", "0n", "999999999S", "-1S", "18446744073709551616S", "1", "S", ""]
)
def test_timeouts(target, timeout):
    """A `grpc-timeout` of ages, of nothing or of nonsense is a deadline or an error, and never anything worse"""
    with beside(target), target.connect() as client:
        client.send(headers(1, fields(frames.CHECK, ("grpc-timeout", timeout))) + data(1, message()))
        status = client.status(1)
        expected = {"99999999H": {0}, "99999999n": {0, 4}, "0n": {0, 4}}.get(timeout, {3, 13})
        assert status in expected, status
        client.send(frames.call(3))
        assert client.status(3) == 0


def test_upgrade(target):
    """RFC 9113 §3.1: the upgrade to h2c is of the past; who asks for it is answered in HTTP/1.1"""
    asked = (
        b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: upgrade, http2-settings\r\nupgrade: h2c\r\n"
        b"http2-settings: AAMAAABkAAQAAP__\r\n\r\n"
    )
    with beside(target):
        for _ in range(200):
            with target.raw() as attacker:
                attacker.send(asked)
                answer = attacker.socket.recv(4096)
                assert answer.startswith(b"HTTP/1.1 200"), answer
                # What a client would go on with had it been told 101.
                with contextlib.suppress(ConnectionError):
                    attacker.send(frames.PREFACE, frames.settings())
                assert attacker.is_closed_within(5)


def test_connect(target):
    """RFC 9110 §9.3.6: nobody gets a tunnel, over HTTP/2 or HTTP/1.1"""
    with beside(target):
        with target.connect() as attacker:
            asked = [(":method", "CONNECT"), (":authority", "localhost:22")]
            attacker.send(headers(1, asked, END_HEADERS | END_STREAM), headers(3, asked), data(3, b"SSH-2.0-x\r\n"))
            assert all(attacker.answer(number)[0][":status"] == "404" for number in (1, 3))
        for target_of in (b"localhost:22", b"/healthz"):
            with target.raw() as attacker:
                attacker.send(b"CONNECT %s HTTP/1.1\r\nhost: localhost:22\r\n\r\n" % target_of)
                assert attacker.socket.recv(4096).startswith(b"HTTP/1.1 4")


def test_chunks(target):
    """Chunks of a byte with extensions of a thousand bring a body of HTTP/1.1 no further than its bounds"""
    head = b"POST /healthz HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    piece = b"1;" + b"x" * 1000 + b"\r\ny\r\n"
    with beside(target), contextlib.ExitStack() as stack:
        for _ in range(10):
            attacker = stack.enter_context(target.raw(timeout=5))
            with contextlib.suppress(ConnectionError, TimeoutError):
                attacker.send(head, piece * 4000)
        target.call()


def test_alpn_garbage(tls_target):
    """Handshakes that offer nothing but unknown protocols, hundreds of them or huge ones, are refused"""
    rng = random.Random(1)
    with beside(tls_target):
        for count in [1, 100] * 20:
            context = ssl.create_default_context(cafile=str(tls_target.authority))
            context.set_alpn_protocols(["%0200x" % rng.getrandbits(800) for _ in range(count)])
            with tls_target.raw() as attacker, pytest.raises((ssl.SSLError, ConnectionError)):
                context.wrap_socket(attacker.socket, server_hostname="localhost")


def test_handshakes_at_once(tls_target):
    """Handshakes that come all at once keep others waiting for no more than some of them"""
    context = ssl.create_default_context(cafile=str(tls_target.authority))
    context.set_alpn_protocols(["h2"])
    with beside(tls_target):
        for _ in range(10):
            with contextlib.ExitStack() as stack:
                begun = []
                for _ in range(30):
                    peer = stack.enter_context(tls_target.raw())
                    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
                    session = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
                    with contextlib.suppress(ssl.SSLWantReadError):
                        session.do_handshake()
                    begun.append((peer, outgoing.read()))
                for peer, hello in begun:
                    peer.send(hello)
                assert all(peer.socket.recv(65536) for peer, _ in begun)


@pytest.mark.parametrize("asks", [True, False], ids=["answered", "unanswered"])
def test_key_updates(tls_target, asks):
    """RFC 8446 §4.6.3: a peer that changes its keys again and again is cut off; one that does so now and then is not"""
    with beside(tls_target):
        with key_updates.Client(tls_target.port) as attacker:
            assert attacker.update(20_000, asks) < 20_000
        with key_updates.Client(tls_target.port) as client:
            assert client.update(30, asks) == 30
            client.send(frames.PREFACE + frames.settings() + frames.settings(flags=frames.ACK) + frames.call(1))
            assert client.receives(b"\0\0\0\0\2\x08")
