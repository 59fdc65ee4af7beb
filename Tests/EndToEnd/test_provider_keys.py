"""The keys of OpenID providers over HTTPS: whom identity believes, and how long it listens."""

import contextlib
import http.server
import json
import pathlib
import ssl
import threading
import time

import grpc
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from latchkey.identity.v1 import auth_service_pb2, guest_service_pb2

import authority
import services
from world import CLIENT_ID, World, base64url, refused

pytestmark = pytest.mark.usefixtures("engine")

KEY = ec.generate_private_key(ec.SECP256R1())
KEY_SET = json.dumps({
    "keys": [{
        "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "k1",
        "x": base64url(KEY.public_key().public_numbers().x.to_bytes(32, "big")),
        "y": base64url(KEY.public_key().public_numbers().y.to_bytes(32, "big")),
    }]
}).encode()  # fmt: skip
# What identity says of the transfer as a whole, and some room.
MOST_SECONDS = 10 + 4


class Provider:
    """An HTTPS server that has the keys, and what it is asked for."""

    def __init__(self, files):
        self.asked = []
        self.over = threading.Event()
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                provider.asked.append(self.path)
                with contextlib.suppress(OSError):
                    provider.answer(self)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files.certificate, files.key)
        # A handshake that fails is the client's to report.
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.server.handle_error = lambda *_: None
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def issuer(self):
        return f"https://localhost:{self.server.server_port}"

    def answer(self, request):
        self.send(request, KEY_SET)

    @staticmethod
    def send(request, body, status=200, **headers):
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def stop(self):
        self.over.set()
        self.server.shutdown()
        self.server.server_close()


class Redirecting(Provider):
    """Says that the keys are somewhere else, where they are."""

    target = ""

    def answer(self, request):
        self.send(request, b"", status=302, Location=self.target)


class Large(Provider):
    """Has the keys, and more than anybody should read behind them."""

    def answer(self, request):
        self.send(request, KEY_SET + b" " * (300 << 10))


class Slow(Provider):
    """Begins an answer and sends a byte now and then."""

    def answer(self, request):
        request.send_response(200)
        request.end_headers()
        while not self.over.wait(0.2):
            request.wfile.write(b" ")
            request.wfile.flush()


@pytest.fixture(scope="module")
def scene(binaries, tmp_path_factory):
    folder = tmp_path_factory.mktemp("provider-keys")
    trusted, other = authority.Authority(), authority.Authority("Another authority")
    good = trusted.issue(folder / "good", "localhost")
    made = {
        "good": Provider(good),
        "stranger": Provider(other.issue(folder / "stranger", "localhost")),
        "expired": Provider(trusted.issue(folder / "expired", "localhost", days=0)),
        "misnamed": Provider(trusted.issue(folder / "misnamed", "other.example")),
        "redirecting": Redirecting(good),
        "large": Large(good),
        "slow": Slow(good),
        # As the good one, but nobody says that its authority is to be believed.
        "unknown": Provider(good),
    }
    made["redirecting"].target = made["good"].issuer + "/keys"
    entries = [
        {"name": name, "issuer": provider.issuer, "client_ids": ["app-there"], "jwks_uri": provider.issuer + "/keys"}
        | ({} if name == "unknown" else {"ca_file": str(good.authority)})
        for name, provider in made.items()
    ]
    (folder / "oidc.json").write_text(json.dumps({"providers": entries}))
    arguments = {"identity": ["--oidc-file", str(folder / "oidc.json")]}
    try:
        with services.Fleet(binaries, folder, arguments=arguments) as fleet:
            world = World(fleet)
            yield world, made
            world.close()
    finally:
        for provider in made.values():
            provider.stop()


def sign_in(world, provider):
    nonce = world.guests.GetChallenge(
        guest_service_pb2.GetChallengeRequest(
            client_id=CLIENT_ID, purpose=guest_service_pb2.CHALLENGE_PURPOSE_ID_TOKEN_NONCE
        ),
        timeout=10,
    ).challenge
    now = int(time.time())
    claims = {
        "iss": provider.issuer, "sub": "ada", "aud": "app-there", "iat": now, "exp": now + 300, "nonce": nonce
    }  # fmt: skip
    token = jwt.encode(claims, KEY, algorithm="ES256", headers={"kid": "k1"})
    return world.auth.Authenticate(
        auth_service_pb2.AuthenticateRequest(
            client_id=CLIENT_ID, id_token=auth_service_pb2.IdTokenCredential(id_token=token, nonce=nonce)
        ),
        timeout=MOST_SECONDS,
    )


def log_lines(world, provider_name):
    """What identity's log says of a provider's keys."""
    text = pathlib.Path(world.fleet.directory, "identity.log").read_text()
    return [line for line in text.splitlines() if "cannot be fetched" in line and f'"{provider_name}"' in line]


def test_R41_keys_come_over_tls_by_the_authority_that_is_named(scene):
    """R41: a provider by a private authority is believed with its ca_file, and asked once"""
    world, made = scene
    for _ in range(2):
        assert sign_in(world, made["good"]).tokens.access_token
    assert made["good"].asked == ["/keys"]


@pytest.mark.parametrize("name", ["stranger", "expired", "misnamed", "unknown"])
def test_R41_a_server_that_is_not_the_provider(scene, name):
    """R41: keys of a server by another authority, out of date or of another name sign nobody in"""
    world, made = scene
    with refused(grpc.StatusCode.UNAVAILABLE, "PROVIDER_UNAVAILABLE"):
        sign_in(world, made[name])
    # Not a word of HTTP was said to it.
    assert made[name].asked == []
    assert log_lines(world, name)


def test_R41_keys_are_not_fetched_elsewhere(scene):
    """R41: a redirect is not followed, not even to a server that would be believed"""
    world, made = scene
    before = list(made["good"].asked)
    with refused(grpc.StatusCode.UNAVAILABLE, "PROVIDER_UNAVAILABLE"):
        sign_in(world, made["redirecting"])
    assert made["redirecting"].asked == ["/keys"] and made["good"].asked == before
    assert "302" in log_lines(world, "redirecting")[0]


def test_R26_an_answer_without_end_is_given_up(scene):
    """R26: an answer that is too large, or takes too long, is given up, and others sign in meanwhile"""
    world, made = scene
    with refused(grpc.StatusCode.UNAVAILABLE, "PROVIDER_UNAVAILABLE"):
        sign_in(world, made["large"])
    caught = []

    def wait():
        try:
            sign_in(world, made["slow"])
        except grpc.RpcError as error:
            caught.append((error.code(), time.monotonic()))

    began = time.monotonic()
    waiting = threading.Thread(target=wait)
    waiting.start()
    while not made["slow"].asked:
        assert time.monotonic() - began < 5
        time.sleep(0.02)
    assert sign_in(world, made["good"]).tokens.access_token
    assert waiting.is_alive()
    waiting.join(MOST_SECONDS + 1)
    assert caught and caught[0][1] - began < MOST_SECONDS
    # Identity's own limit for the transfer and for the call are the same: either may come first.
    assert caught[0][0] in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
    while not log_lines(world, "slow"):
        assert time.monotonic() - began < MOST_SECONDS
        time.sleep(0.05)
