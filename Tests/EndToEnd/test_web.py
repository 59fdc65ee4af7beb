"""gRPC-Web and CORS on the ports of the services: what a browser's library sends, by hand."""

import base64
import concurrent.futures
import gzip
import hashlib
import http.server
import json
import pathlib
import shutil
import subprocess
import threading
import time
import urllib.parse

import pytest
import services
import web
import wire
from google.rpc import error_details_pb2, status_pb2
from grpc.health.v1 import health_pb2
from latchkey.identity.v1 import auth_service_pb2, guest_service_pb2
from latchkey.qr.v1 import qr_session_service_pb2
from web import BINARY, TEXT
from world import CLIENT_ID, World

CHALLENGE = "/latchkey.identity.v1.GuestService/GetChallenge"
ISSUE = "/latchkey.qr.v1.QrSessionService/IssueSession"
CHECK = "/grpc.health.v1.Health/Check"
WATCH = "/grpc.health.v1.Health/Watch"
REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
OK, INVALID_ARGUMENT, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL = 0, 3, 4, 8, 12, 13
ORIGIN = "https://app.example"

PROTOCOLS = {"http1": web.HTTP1, "http2": web.HTTP2}
FORMATS = [BINARY, TEXT, "application/grpc-web", "application/grpc-web-text", f"{BINARY};charset=utf-8"]


@pytest.fixture(scope="module")
def cors_world(binaries, tmp_path_factory):
    arguments = {"*": ["--cors-origins", f"{ORIGIN},http://localhost:3000"]}
    with services.Fleet(binaries, tmp_path_factory.mktemp("cors"), arguments=arguments) as fleet:
        yield World(fleet)


@pytest.fixture(params=["cleartext", "tls"])
def any_world(request):
    return request.getfixturevalue("world" if request.param == "cleartext" else "tls_world")


@pytest.fixture(params=PROTOCOLS)
def connect(request):
    return PROTOCOLS[request.param]


def challenge_request(world):
    request = guest_service_pb2.GetChallengeRequest(client_id=CLIENT_ID, device_key=world.device().jwk())
    return wire.framed(request.SerializeToString())


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("content_type", FORMATS)
def test_unary(any_world, connect, content_type):
    """W1: a unary call by gRPC-Web, in bytes and in text, by ALPN and by first bytes, many on one connection"""
    with connect(any_world, "identity") as connection:
        for _ in range(3):
            reply = connection.call(CHALLENGE, challenge_request(any_world), content_type)
            assert reply.http_status == 200
            assert reply.headers["content-type"].startswith(TEXT if "-text" in content_type else BINARY)
            assert reply.status == OK
            [message] = reply.messages
            assert guest_service_pb2.GetChallengeResponse.FromString(message).challenge


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("content_type", [BINARY, TEXT])
def test_server_streaming(any_world, connect, content_type):
    """W2: a stream of responses by gRPC-Web ends with its deadline, its messages sent as they came"""
    with connect(any_world, "qr") as connection:
        started = time.monotonic()
        reply = connection.call(WATCH, wire.framed(b""), content_type, {"grpc-timeout": "1500m"})
        assert 1.4 < time.monotonic() - started < 10
        assert reply.status == DEADLINE_EXCEEDED
        [message] = reply.messages
        assert health_pb2.HealthCheckResponse.FromString(message).status == health_pb2.HealthCheckResponse.SERVING


def test_streamed_at_once(world):
    """W3: a streamed message reaches the browser when it is written, not with the end of the stream"""
    with web.HTTP1(world, "qr") as connection:
        connection.connection.request(
            "POST", WATCH, wire.framed(b""), {"content-type": BINARY, "grpc-timeout": "20S"}
        )
        started = time.monotonic()
        answer = connection.connection.getresponse()
        assert answer.read(7) == b"\0\0\0\0\2\x08\1"
        assert time.monotonic() - started < 5


def test_client_gone(world):
    """W4: a browser that closes its connection ends its streams: the server keeps no handler for nobody"""
    def running():
        return len(list(pathlib.Path(f"/proc/{world.fleet['qr'].process.pid}/fd").iterdir()))

    before = running()
    connections = [web.HTTP1(world, "qr") for _ in range(20)]
    for connection in connections:
        connection.connection.request("POST", WATCH, wire.framed(b""), {"content-type": BINARY})
        connection.connection.getresponse().read(7)
        connection.connection.close()
    end = time.monotonic() + 5
    while running() > before:
        assert time.monotonic() < end, "connections are left"
        time.sleep(0.02)


@pytest.mark.usefixtures("engine")
def test_error_details(any_world, connect):
    """W5: an error comes in the trailers frame with its message and details"""
    request = qr_session_service_pb2.IssueSessionRequest(client_id="")
    with connect(any_world, "qr") as connection:
        reply = connection.call(ISSUE, wire.framed(request.SerializeToString()))
        assert reply.http_status == 200 and reply.messages == []
        assert reply.status == INVALID_ARGUMENT
        assert "client_id" in reply.trailers["grpc-message"]
        details = reply.trailers["grpc-status-details-bin"]
        status = status_pb2.Status.FromString(base64.b64decode(details + "=" * (-len(details) % 4)))
        bad = error_details_pb2.BadRequest()
        assert any(detail.Unpack(bad) for detail in status.details)
        # The connection goes on.
        assert connection.call(CHECK, wire.framed(b"")).status == OK


def test_text_in_pieces(world, connect):
    """W6: text that is encoded in several padded pieces, cut anywhere, is one body"""
    body = challenge_request(world)
    pieces = b"".join(base64.b64encode(body[start : start + 10]) for start in range(0, len(body), 10))
    with connect(world, "identity") as connection:
        fields = {"content-type": TEXT}
        reply = web.Reply(*connection.request("POST", CHALLENGE, pieces, fields))
        assert reply.status == OK


def test_compressed(world, connect):
    """W7: a compressed message is understood, and a bomb is refused by its true size"""
    message = gzip.compress(challenge_request(world)[5:])
    body = b"\1" + len(message).to_bytes(4, "big") + message
    bomb = gzip.compress(bytes(50_000_000))
    assert len(bomb) < 60_000
    with connect(world, "identity") as connection:
        assert connection.call(CHALLENGE, body, headers={"grpc-encoding": "gzip"}).status == OK
        assert connection.call(CHALLENGE, body).status == INTERNAL
    with connect(world, "identity") as connection:
        body = b"\1" + len(bomb).to_bytes(4, "big") + bomb
        assert connection.call(CHALLENGE, body, headers={"grpc-encoding": "gzip"}).status == RESOURCE_EXHAUSTED


BAD = {
    "an unknown method": ("/no.Service/Method", BINARY, wire.framed(b""), UNIMPLEMENTED),
    "a method that streams requests": (REFLECTION, BINARY, wire.framed(b""), UNIMPLEMENTED),
    "no message": (CHECK, BINARY, b"", UNIMPLEMENTED),
    "two messages": (CHECK, BINARY, wire.framed(b"") * 2, UNIMPLEMENTED),
    "a prefix cut short": (CHECK, BINARY, b"\0\0\0", INTERNAL),
    "a message cut short": (CHECK, BINARY, b"\0\0\0\0\5abc", INTERNAL),
    "a trailers frame": (CHECK, BINARY, b"\x80\0\0\0\0", INTERNAL),
    "an unknown flag": (CHECK, BINARY, b"\2\0\0\0\0", INTERNAL),
    "a length of 4 GiB": (CHECK, BINARY, b"\0\xff\xff\xff\xff12345", RESOURCE_EXHAUSTED),
    "letters that are not base64": (CHECK, TEXT, b"!!!!", INTERNAL),
    "base64 cut short": (CHECK, TEXT, base64.b64encode(wire.framed(b"12"))[:-1], INTERNAL),
    "padding in the middle of a group": (CHECK, TEXT, b"AA=AAAAA", INTERNAL),
    "bytes where text was announced": (CHECK, TEXT, wire.framed(b"123"), INTERNAL),
    "a message that does not decode": (CHECK, BINARY, wire.framed(b"\xff\xff\xff"), INVALID_ARGUMENT),
}  # fmt: skip


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("name", BAD)
def test_bad_input(any_world, connect, name):
    """W8: what no library sends gets its own status, and the service goes on"""
    path, content_type, body, status = BAD[name]
    with connect(any_world, "qr") as connection:
        reply = web.Reply(*connection.request("POST", path, body, {"content-type": content_type}))
        assert reply.status == status, reply.trailers
    with connect(any_world, "qr") as connection:
        assert connection.call(CHECK, wire.framed(b"")).status == OK


@pytest.mark.parametrize("content_type", ["application/grpc-webx", "application/grpc-web+json", "application/grpc-text"])
def test_other_content_types(world, connect, content_type):
    """W9: a content type that is only like gRPC-Web is 415, as is gRPC over HTTP/1.1"""
    with connect(world, "qr") as connection:
        status, _, _ = connection.request("POST", CHECK, wire.framed(b""), {"content-type": content_type})
        assert status == 415
    with web.HTTP1(world, "qr") as connection:
        status, _, _ = connection.request("POST", CHECK, wire.framed(b""), {"content-type": "application/grpc"})
        assert status == 415


@pytest.mark.usefixtures("engine")
def test_pages(any_world, connect):
    """S23, S28: what the sign-in page and the device grant ask is answered by HTTP/2 as by HTTP/1.1"""
    challenge = base64.urlsafe_b64encode(hashlib.sha256(b"verifier").digest()).rstrip(b"=").decode()
    form = {"client_id": CLIENT_ID, "code_challenge": challenge, "code_challenge_method": "S256"}
    requests = [
        ("/signin/code", "application/json", json.dumps({"code_challenge": challenge, "supersedes": ""})),
        ("/oauth/device_authorization", "application/x-www-form-urlencoded", urllib.parse.urlencode(form)),
    ]
    with connect(any_world, "qr") as connection:
        for path, content_type, body in requests:
            status, fields, answer = connection.request("POST", path, body.encode(), {"content-type": content_type})
            assert status == 200 and fields["content-type"] == "application/json", answer
            assert len(json.loads(answer)["device_code"]) == 43
            # The type is read, and not guessed.
            status, _, answer = connection.request("POST", path, body.encode(), {"content-type": "text/plain"})
            assert status == 400, answer


@pytest.mark.usefixtures("engine")
def test_page_flows(any_world, connect):
    """S28, P14: the device grant from its discovery to its tokens, what a code points to, and a web session, by each protocol"""
    phone = any_world.account()
    verifier = "v" * 43
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()

    def post(path, **form):
        content_type = {"content-type": "application/x-www-form-urlencoded"}
        status, _, answer = connection.request("POST", path, urllib.parse.urlencode(form).encode(), content_type)
        return status, json.loads(answer)

    with connect(any_world, "qr") as connection:
        status, _, answer = connection.request("GET", "/.well-known/oauth-authorization-server")
        metadata = json.loads(answer)
        begin, redeem = (
            urllib.parse.urlparse(metadata[f"{name}_endpoint"]).path for name in ("device_authorization", "token")
        )
        status, offer = post(begin, client_id=CLIENT_ID, code_challenge=challenge, code_challenge_method="S256")
        assert status == 200
        grant = {
            "grant_type": metadata["grant_types_supported"][0], "client_id": CLIENT_ID,
            "device_code": offer["device_code"], "code_verifier": verifier,
        }  # fmt: skip
        status, answer = post(redeem, **grant)
        assert status == 400 and answer["error"] == "authorization_pending", answer
        scan = any_world.qr.ScanSession(
            qr_session_service_pb2.ScanSessionRequest(user_code=offer["user_code"]), metadata=phone.metadata, timeout=10
        )
        phone.confirm(scan, offer["check_code"])
        status, tokens = post(redeem, **grant)
        assert status == 200, tokens
        assert phone.introspect(tokens["access_token"]).sub == phone.subject.sub
        # What a camera without the app opens, and nothing of the code in it.
        for method in ("GET", "HEAD"):
            status, fields, answer = connection.request(method, "/q/1/AAAAAAAAAAAAAAAAAAAAAA?a=b")
            assert status == 200 and fields["content-type"].startswith("text/html") and int(fields["content-length"]) > 500
            assert (b"<html" in answer) == (method == "GET") and b"AAAAAAAAAAAAAAAAAAAAAA" not in answer
    cookie = any_world.auth.CreateWebSession(
        auth_service_pb2.CreateWebSessionRequest(), metadata=phone.metadata, timeout=10
    )
    assert cookie.secure == (any_world.authority is not None) == cookie.name.startswith("__Host-")
    with connect(any_world, "identity") as connection:
        for value, expected in [(f"a=b; {cookie.name}={cookie.value}", 200), (f"{cookie.name}=other", 401)]:
            status, _, answer = connection.request("GET", "/web-session", headers={"cookie": value})
            assert status == expected and json.loads(answer).get("sub", "") == (phone.subject.sub if expected == 200 else "")


def test_at_once(world):
    """W10: many browsers at once are all served"""
    def one(_):
        with web.HTTP1(world, "qr") as connection:
            return [connection.call(CHECK, wire.framed(b""), TEXT).status for _ in range(20)]

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert set(sum(pool.map(one, range(32)), [])) == {OK}


PREFLIGHT = {
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,content-type,dpop,x-grpc-web",
}


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("origin", [ORIGIN, "http://localhost:3000"])
def test_preflight(cors_world, connect, origin):
    """W11: a listed origin may call with the headers it asks for, and read the status; never with cookies"""
    with connect(cors_world, "qr") as connection:
        status, headers, body = connection.request("OPTIONS", CHECK, headers={"origin": origin, **PREFLIGHT})
        assert status == 204 and body == b""
        assert headers["access-control-allow-origin"] == origin
        assert "POST" in headers["access-control-allow-methods"]
        assert headers["access-control-allow-headers"] == PREFLIGHT["access-control-request-headers"]
        assert "origin" in headers["vary"].lower()
        assert "access-control-allow-credentials" not in headers
        reply = connection.call(CHECK, wire.framed(b""), headers={"origin": origin})
        assert reply.status == OK
        assert reply.headers["access-control-allow-origin"] == origin
        exposed = reply.headers["access-control-expose-headers"]
        assert all(name in exposed for name in ("grpc-status", "grpc-message", "grpc-status-details-bin"))
        assert "Origin" in reply.headers["vary"]
        # A call that is refused tells the script why.
        refused = connection.call("/no.Service/Method", wire.framed(b""), headers={"origin": origin})
        assert refused.status == UNIMPLEMENTED
        assert refused.headers["access-control-allow-origin"] == origin


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "http://app.example", "https://app.example.evil", "https://app.example:444", "null", "*"],
)
def test_other_origins(cors_world, connect, origin):
    """W12: any other origin is told nothing that would let its scripts read"""
    with connect(cors_world, "qr") as connection:
        status, headers, _ = connection.request("OPTIONS", CHECK, headers={"origin": origin, **PREFLIGHT})
        assert status == 403
        assert not any(name.startswith("access-control-") for name in headers)
        reply = connection.call(CHECK, wire.framed(b""), headers={"origin": origin})
        assert not any(name.startswith("access-control-") for name in reply.headers)
        assert "Origin" in reply.headers["vary"]
        status, headers, _ = connection.request("GET", "/healthz", headers={"origin": origin})
        assert status == 200 and "access-control-allow-origin" not in headers


def test_no_origins(world, connect):
    """W13: without a list nobody is let in across origins"""
    with connect(world, "qr") as connection:
        status, headers, _ = connection.request("OPTIONS", CHECK, headers={"origin": ORIGIN, **PREFLIGHT})
        assert status in (404, 405)
        assert not any(name.startswith("access-control-") for name in headers)


@pytest.mark.parametrize("origins", ["*", "https://app.example/", "app.example", "https://App.example", "null"])
def test_configuration(binaries, tmp_path, origins):
    """W14: what is not an origin is refused at start, by the name of its key"""
    ended = subprocess.run(
        [binaries / "latchkey-qr", "--check-config", "--data-dir", tmp_path, "--cors-origins", origins],
        capture_output=True, text=True, timeout=20, env=services.clean_environment(),
    )  # fmt: skip
    assert ended.returncode != 0
    assert "cors.origins" in ended.stderr + ended.stdout


PAGE = """<!doctype html><pre id=out>waiting</pre><script>
(async () => {
  const out = document.getElementById("out"), seen = [];
  for (const type of ["application/grpc-web+proto", "application/grpc-web-text+proto"]) {
    const frame = new Uint8Array(5), text = type.includes("-text");
    try {
      const answer = await fetch("%(target)s/grpc.health.v1.Health/Check", {
        method: "POST", body: text ? btoa(String.fromCharCode(...frame)) : frame,
        headers: {"content-type": type, "x-grpc-web": "1", "authorization": "Bearer none"},
      });
      let bytes = new Uint8Array(await answer.arrayBuffer());
      if (text) {
        const parts = new TextDecoder().decode(bytes).match(/.{4}/g).map(atob).join("");
        bytes = Uint8Array.from(parts, letter => letter.charCodeAt(0));
      }
      seen.push(bytes.join(" "));
    } catch (error) { seen.push(error.name); }
  }
  out.textContent = seen.join(" | ");
})();
</script>"""


@pytest.mark.usefixtures("engine")
@pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed")
@pytest.mark.parametrize("listed", [True, False])
def test_browser(binaries, tmp_path, listed):
    """W15: a script in Chromium calls across origins where its origin is listed, and nowhere else"""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write((PAGE % {"target": target}).encode())

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as pages:
        port = pages.server_address[1]
        origin = f"http://localhost:{port if listed else port + 1}"
        with services.Fleet(binaries, tmp_path / "fleet", arguments={"*": ["--cors-origins", origin]}) as fleet:
            target = f"http://localhost:{fleet.ports['qr'][0]}"
            threading.Thread(target=pages.serve_forever, daemon=True).start()
            dump = subprocess.run(
                [
                    "chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
                    "--virtual-time-budget=5000", "--dump-dom", f"http://localhost:{port}/",
                ],
                capture_output=True, text=True, timeout=60,
            ).stdout  # fmt: skip
            pages.shutdown()
    seen = dump.partition("<pre id=\"out\">")[2].partition("</pre>")[0].split(" | ")
    if listed:
        # SERVING, then the trailers frame.
        assert len(seen) == 2 and all(answer.startswith("0 0 0 0 2 8 1 128 ") for answer in seen), dump
    else:
        assert seen == ["TypeError", "TypeError"], dump
