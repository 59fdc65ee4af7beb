"""HTTP/1.1 on the ports of the services, as RFC 9112 and RFC 9110 ask of a server: by a stock client, and byte by byte."""

import email.utils
import http.client
import itertools
import socket
import ssl
import struct
import time

import pytest
import web
import wire

pytestmark = pytest.mark.usefixtures("engine")

HOST = b"host: localhost\r\n"
GET = b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n"
CHECK = "/grpc.health.v1.Health/Check"


class Raw:
    """A connection that sends what it is told to, and reads what any HTTP/1.1 client would."""

    def __init__(self, world, name="qr", alpn=("http/1.1",)):
        self.socket = socket.create_connection(("127.0.0.1", world.fleet.ports[name][0]), timeout=10)
        if world.authority is not None:
            context = ssl.create_default_context(cafile=str(world.authority))
            if alpn:
                context.set_alpn_protocols(list(alpn))
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, *parts):
        for part in parts:
            self.socket.sendall(part)

    def answer(self, method="GET"):
        """The next answer: (status, fields, body). It reads not a byte more."""
        answer = http.client.HTTPResponse(_Unbuffered(self.socket), method=method)
        answer.begin()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()

    def line(self):
        """The next line."""
        text = b""
        while not text.endswith(b"\n"):
            byte = self.socket.recv(1)
            assert byte, text
            text += byte
        return text

    def rest(self):
        """Everything up to the end of the connection."""
        got = b""
        try:
            while some := self.socket.recv(65536):
                got += some
        except (ConnectionError, ssl.SSLError):
            pass
        return got


class _Unbuffered:
    """What http.client reads an answer from, without reading ahead into the next one."""

    def __init__(self, connection):
        self.connection = connection

    def makefile(self, _):
        return self.connection.makefile("rb", buffering=0)


@pytest.fixture(params=["cleartext", "tls"])
def any_world(request):
    return request.getfixturevalue("world" if request.param == "cleartext" else "tls_world")


def refused(world, sent, statuses=(400,)):
    """What is refused is answered, its connection ends, and nothing behind it is served."""
    with Raw(world) as connection:
        connection.send(sent + GET)
        status, fields, _ = connection.answer()
        assert status in statuses, status
        assert fields["connection"] == "close"
        assert connection.rest() == b""


def test_kept_alive(any_world):
    """H1: a connection is kept as its client asks: always by HTTP/1.1, on demand by HTTP/1.0, never with "close\""""
    with Raw(any_world) as connection:
        for _ in range(3):
            connection.send(GET)
            status, fields, body = connection.answer()
            assert (status, body) == (200, b"serving\n") and "connection" not in fields
        connection.send(GET.replace(b"\r\n\r\n", b"\r\nConnection: Close\r\n\r\n"))
        assert connection.answer()[1]["connection"] == "close"
        assert connection.rest() == b""
    with Raw(any_world) as connection:
        for _ in range(2):
            connection.send(b"GET /healthz HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
            assert connection.answer()[1]["connection"] == "keep-alive"
        connection.send(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert connection.answer()[0] == 200
        assert connection.rest() == b""


def test_pipelined(any_world):
    """H2: requests sent at once are answered one by one in their order, pages, calls and refusals among them"""
    call = (
        b"POST %s HTTP/1.1\r\n" % CHECK.encode() + HOST
        + b"content-type: application/grpc-web+proto\r\ncontent-length: 5\r\n\r\n" + wire.framed(b"")
    )  # fmt: skip
    missing = GET.replace(b"/healthz", b"/none")
    with Raw(any_world) as connection:
        connection.send((GET + call + missing) * 10)
        for _ in range(10):
            assert connection.answer()[2] == b"serving\n"
            reply = web.Reply(*connection.answer("POST"))
            assert reply.status == 0 and len(reply.messages) == 1
            assert connection.answer()[0] == 404


def test_chunks(any_world):
    """H3: a body in chunks of one byte, with extensions and trailers, is one body; its end ends the request"""
    body = wire.framed(b"")
    head = b"POST %s HTTP/1.1\r\n" % CHECK.encode() + HOST + b"content-type: application/grpc-web\r\n"
    chunks = b"".join(b"1;name=value\r\n%c\r\n" % byte for byte in body) + b"0\r\nx-trailer: y\r\n\r\n"
    with Raw(any_world) as connection:
        for _ in range(2):
            connection.send(head + b"transfer-encoding: chunked\r\n\r\n", chunks)
            assert web.Reply(*connection.answer("POST")).status == 0
        # The stock client's way.
    with web.HTTP1(any_world, "qr") as stock:
        fields = {"content-type": web.BINARY}
        stock.connection.request("POST", CHECK, (body[index : index + 1] for index in range(5)), fields)
        answer = stock.connection.getresponse()
        assert answer.status == 200 and b"grpc-status: 0" in answer.read()


def test_continue(any_world):
    """H4: a client that waits for leave to send its body gets it (RFC 9110 §10.1.1), and one that does not wait as well"""
    head = (
        b"POST %s HTTP/1.1\r\n" % CHECK.encode() + HOST
        + b"content-type: application/grpc-web\r\ncontent-length: 5\r\nexpect: 100-Continue\r\n\r\n"
    )  # fmt: skip
    page = head.replace(CHECK.encode(), b"/none").replace(b"application/grpc-web", b"text/plain")
    for sent, status in ((head, 200), (page, 404)):
        with Raw(any_world) as connection:
            connection.send(sent)
            assert connection.line() == b"HTTP/1.1 100 Continue\r\n"
            assert connection.line() == b"\r\n"
            connection.send(wire.framed(b""))
            assert connection.answer("POST")[0] == status
            connection.send(GET)
            assert connection.answer()[0] == 200
    with Raw(any_world) as connection:
        connection.send(head + wire.framed(b""), GET)
        # The stock reader passes over the interim answer, if there is one.
        assert connection.answer("POST")[0] == 200
        assert connection.answer()[0] == 200
    # Nothing follows, or the client knows of no interim answers: there is none.
    for sent in (
        GET.replace(b"\r\n\r\n", b"\r\nexpect: 100-continue\r\n\r\n"),
        b"POST /none HTTP/1.0\r\ncontent-length: 1\r\nexpect: 100-continue\r\n\r\nx",
    ):
        with Raw(any_world) as connection:
            connection.send(sent)
            assert connection.line().split()[1] in (b"200", b"404")
    refused(any_world, head.replace(b"100-Continue", b"a-wonder"), statuses=(417,))


def test_absolute_form(any_world):
    """H5: a target in absolute form, as proxies get it, means the same as its path (RFC 9112 §3.2.2)"""
    origin = f"{any_world.fleet.scheme}://localhost".encode()
    with Raw(any_world) as connection:
        for target in (b"/healthz", b"/healthz?a=b"):
            connection.send(GET.replace(b"/healthz", origin + target))
            assert connection.answer()[2] == b"serving\n"
        connection.send(
            b"POST %s%s HTTP/1.1\r\n" % (origin, CHECK.encode()) + HOST
            + b"content-type: application/grpc-web\r\ncontent-length: 5\r\n\r\n" + wire.framed(b"")
        )  # fmt: skip
        assert web.Reply(*connection.answer("POST")).status == 0
        # A path may be empty there, and a query of its own.
        for target in (b"", b"?a=b", b"/none"):
            connection.send(GET.replace(b"/healthz", origin + target))
            assert connection.answer()[0] in (200, 404)
    for target in (b"healthz", b"localhost:80", b"ftp://localhost/healthz", b"http:///healthz", b"*"):
        refused(any_world, GET.replace(b"/healthz", target))


def test_head(any_world):
    """H6: HEAD is answered like GET, to the length of the body, without the body"""
    with Raw(any_world) as connection:
        connection.send(GET)
        status, fields, body = connection.answer()
        connection.send(GET.replace(b"GET", b"HEAD"), GET)
        head = connection.answer("HEAD")
        assert head[0] == status and head[1]["content-length"] == fields["content-length"] == str(len(body))
        assert connection.answer()[2] == body


@pytest.mark.parametrize(
    "fields",
    [
        b"content-length: five\r\n", b"content-length: -5\r\n", b"content-length: +5\r\n", b"content-length: 5, 6\r\n",
        b"content-length: 5\r\ncontent-length: 6\r\n", b"content-length: 99999999999999999999999\r\n",
        b"content-length: 5\r\ntransfer-encoding: chunked\r\n", b"transfer-encoding: chunked\r\ncontent-length: 5\r\n",
        b"transfer-encoding: chunked, identity\r\n",
    ],
)  # fmt: skip
def test_wrong_length(world, fields):
    """H7: a body whose length is in doubt is refused, with all that follows (RFC 9112 §6.3, §11.2)"""
    refused(world, b"POST /none HTTP/1.1\r\n" + HOST + fields + b"\r\n" + b"0\r\n\r\n")


def test_coding_of_an_old_version(world):
    """H7: HTTP/1.0 has no transfer codings: another reader sees another body (RFC 9112 §6.1)"""
    sent = b"POST /none HTTP/1.0\r\nconnection: keep-alive\r\n" + HOST + b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n"
    refused(world, sent, statuses=(400,))


def test_trailers_that_end_the_connection(world):
    """H7: the next request is nobody's whose connection the trailers before it ended: it is said with the answer"""
    for name in (b"connection", b"Proxy-Connection"):
        with Raw(world) as connection:
            head = b"POST /none HTTP/1.1\r\n" + HOST + b"transfer-encoding: chunked\r\n\r\n"
            connection.send(head + b"0\r\n" + name + b": close\r\n\r\n")
            status, fields, _ = connection.answer()
            assert (status, fields["connection"]) == (404, "close")
            assert connection.rest() == b""


def test_unknown_coding(world):
    """H7: a body in a coding that is unknown is refused (RFC 9112 §6.1)"""
    for coding in (b"gzip, chunked", b"x-unheard-of, chunked"):
        sent = b"POST /none HTTP/1.1\r\n" + HOST + b"transfer-encoding: " + coding + b"\r\n\r\n0\r\n\r\n"
        refused(world, sent, statuses=(501, 400))


def test_length_that_is_not_kept(world):
    """H7: what is beyond the length is another request, and a body that ends before it has no answer"""
    head = b"POST /none HTTP/1.1\r\n" + HOST + b"content-length: 3\r\n\r\n"
    with Raw(world) as connection:
        connection.send(head + b"abc" + GET)
        assert connection.answer()[0] == 404
        assert connection.answer()[0] == 200
    with Raw(world) as connection:
        connection.send(head + b"abcd")
        assert connection.answer()[0] == 404
        connection.send(b"\r\n\r\n")
        assert connection.answer()[0] == 400
        assert connection.rest() == b""
    with Raw(world) as connection:
        connection.send(head + b"ab")
        connection.socket.shutdown(socket.SHUT_WR)
        assert not connection.rest().startswith(b"HTTP/1.1 2")


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n" + HOST + HOST + b"\r\n",
        b"GET /healthz HTTP/1.1\r\n" + HOST + b"Host: other.example\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: a b\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: user@localhost\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: localhost/path\r\n\r\n",
        b"GET /healthz HTTP/1.0\r\n" + HOST + HOST + b"\r\n",
    ],
    ids=["none", "twice", "two", "a space", "a user", "a path", "twice by 1.0"],
)  # fmt: skip
def test_host(any_world, sent):
    """H8: a request says once whom it is for (RFC 9112 §3.2)"""
    refused(any_world, sent)


@pytest.mark.parametrize(
    "fields",
    [
        b"x : y\r\n", b"x\x00y: z\r\n", b"x: a\x00b\r\n", b": y\r\n", b"x: y\r\n folded\r\n", b"no colon\r\n", b"x: a\rb\r\n",
        b"(x): y\r\n",
    ],
)  # fmt: skip
def test_bad_fields(world, fields):
    """H9: fields that another server on the way could read otherwise are refused (RFC 9112 §5, §11.1)"""
    refused(world, b"GET /healthz HTTP/1.1\r\n" + HOST + fields + b"\r\n")


@pytest.mark.parametrize(
    "line", [b"GET /healthz HTTP/1.1 ", b"GET /heal\x01thz HTTP/1.1", b"GET /healthz HTTP/1.x"]
)
def test_bad_request_lines(world, line):
    """H9: a request line that is none is refused, or its connection ends"""
    with Raw(world) as connection:
        connection.send(line + b"\r\n" + HOST + b"\r\n" + GET)
        got = connection.rest()
        assert got == b"" or got.startswith(b"HTTP/1.1 400 ") and got.count(b"HTTP/1.1") == 1, got


def test_methods(world):
    """H10: a method that a page does not take is 405 and says which it takes; one that nobody knows is no page's"""
    with Raw(world) as connection:
        for method in (b"POST", b"DELETE", b"OPTIONS"):
            connection.send(GET.replace(b"GET", method))
            status, fields, _ = connection.answer()
            assert (status, fields["allow"]) == (405, "GET, HEAD")
        connection.send(GET.replace(b"GET /healthz", b"OPTIONS *"))
        assert connection.answer()[0] in (200, 204, 404, 405)
    for method in (b"get", b"BREW"):
        with Raw(world) as connection:
            connection.send(GET.replace(b"GET", method))
            assert connection.answer()[0] in (400, 405, 501)


def test_date(any_world):
    """H11: answers of 2xx and 4xx have a date (RFC 9110 §6.6.1), over HTTP/1.1 and over HTTP/2"""
    for connect in (web.HTTP1, web.HTTP2):
        with connect(any_world, "qr") as connection:
            for path in ("/healthz", "/none"):
                date = connection.request("GET", path)[1]["date"]
                then = email.utils.parsedate_to_datetime(date)
                assert abs(then.timestamp() - time.time()) < 60
                assert email.utils.format_datetime(then, usegmt=True) == date


def test_cut_anywhere(any_world):
    """H12: what a connection speaks is found out wherever its first bytes are cut"""
    call = (
        b"POST %s HTTP/1.1\r\n" % CHECK.encode() + HOST
        + b"content-type: application/grpc-web\r\ncontent-length: 5\r\n\r\n" + wire.framed(b"")
    )  # fmt: skip
    # Methods that begin as the preface of HTTP/2 does.
    for sent in (GET, call, GET.replace(b"GET", b"PUT"), GET.replace(b"GET", b"PROPFIND")):
        cuts = range(1, len(sent)) if any_world.authority is None else range(1, len(sent), 7)
        for cut in cuts:
            with Raw(any_world) as connection:
                connection.send(sent[:cut], sent[cut:])
                assert connection.answer()[0] in (200, 405), (sent, cut)
    with Raw(any_world) as connection:
        connection.send(*(bytes([byte]) for byte in call + GET))
        assert connection.answer()[0] == 200
        assert connection.answer()[0] == 200


@pytest.mark.parametrize(
    "beginning",
    [
        b"GET /healthz HTTP/1.1\r\nx:",
        b"GET /healthz",
        b"POST /healthz HTTP/1.1\r\n" + HOST + b"transfer-encoding: chunked\r\n\r\n0\r\nx:",
        b"POST " + CHECK.encode() + b" HTTP/1.1\r\n" + HOST + b"content-type: application/grpc-web\r\n"
        b"transfer-encoding: chunked\r\n\r\n5\r\n\0\0\0\0\0\r\n0\r\nx:",
    ],
    ids=["a field", "a target", "a trailer", "a call's trailer"],
)
def test_endless_blanks(any_world, beginning):
    """Blanks that belong to nothing, in a head or in trailers, end the connection before there are many"""
    with Raw(any_world) as raw:
        raw.send(beginning)
        with pytest.raises(OSError):
            for _ in range(400):
                raw.send(b" " * 65536)
                # In a second what was sent is more than any socket holds.
                time.sleep(0.002)
    assert any_world.fleet["qr"].is_running()


def test_protocol_by_alpn(tls_world):
    """H13: over TLS the handshake says what is spoken, and the bytes have to agree"""
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
    with Raw(tls_world, alpn=()) as connection:
        connection.send(GET)
        assert connection.answer()[0] == 200
    for alpn in (("http/1.1",), ()):
        with Raw(tls_world, alpn=alpn) as connection:
            connection.send(preface)
            got = connection.rest()
            assert got == b"" or got.startswith(b"HTTP/1.1 400 "), got
    with Raw(tls_world, alpn=("h2",)) as connection:
        connection.send(GET)
        # SETTINGS, and GOAWAY at most: no answer of HTTP/1.1.
        assert b"HTTP/1.1" not in connection.rest()


# What may be asked for on one connection, one behind the other.
MIXED = {
    "page": GET,
    "call": b"POST %s HTTP/1.1\r\n" % CHECK.encode() + HOST
    + b"content-type: application/grpc-web\r\ncontent-length: 5\r\n\r\n" + wire.framed(b""),
    "refused call": b"POST /none/none HTTP/1.1\r\n" + HOST
    + b"content-type: application/grpc-web\r\ncontent-length: 5\r\n\r\n" + wire.framed(b""),
    "refused page": b"GET /healthz HTTP/1.1\r\n\r\n",
    "unfinished": b"POST /none HTTP/1.1\r\n" + HOST + b"content-length: 500\r\n\r\n",
}  # fmt: skip


def test_gone_within_answers(any_world):
    """H14: a peer that asks for several things at once and is gone before the answers ends its own connection alone"""
    for names in itertools.product(MIXED, repeat=3):
        for reset in (False, True):
            with Raw(any_world) as connection:
                connection.send(b"".join(MIXED[name] for name in names))
                if reset:
                    linger = struct.pack("ii", 1, 0)
                    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    with Raw(any_world) as connection:
        connection.send(GET)
        assert connection.answer()[0] == 200
    assert all(service.process.poll() is None for service in any_world.fleet.services.values())
