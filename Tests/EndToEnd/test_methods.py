"""Every way to sign in, by a stock gRPC client, with real mail, webhook and OpenID servers."""

import base64
import email
import email.header
import hashlib
import hmac
import http.server
import json
import secrets
import ssl
import threading
import time
import urllib.parse
import uuid

import grpc
import httpx
import jwt
import oidc_provider_mock
import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from latchkey.identity.v1 import (
    account_service_pb2,
    account_service_pb2_grpc,
    auth_service_pb2,
    guest_service_pb2,
    link_service_pb2,
    link_service_pb2_grpc,
    session_service_pb2,
    session_service_pb2_grpc,
)

import authority
import proofs
import services
from world import CLIENT_ID, PASSWORD, Device, World, base64url, bearer, refused, unique_identifier

pytestmark = pytest.mark.usefixtures("engine")

MAIL_PASSWORD = "the mail server's password"
WEBHOOK_SECRET = b"a secret that both sides know"


class Mailbox:
    """A submission server that wants TLS and a password, and keeps what it is given."""

    def __init__(self, files):
        self.mails = []
        self.locked = False
        self.unknown = set()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files.certificate, files.key)
        self.controller = Controller(
            self, hostname="127.0.0.1", port=services.free_port(), tls_context=context, require_starttls=True,
            authenticator=self.authenticate, auth_required=True,
        )  # fmt: skip

    def authenticate(self, server, session, envelope, mechanism, data):
        known = (data.login, data.password) == (b"latchkey", MAIL_PASSWORD.encode())
        holds = known and not self.locked
        # A refusal that is not handled here is answered by the server, with 535.
        return AuthResult(success=holds, handled=holds)

    async def handle_RCPT(self, server, session, envelope, address, options):
        if address in self.unknown:
            return "550 nobody of that name"
        envelope.rcpt_tos.append(address)
        return "250 known"

    async def handle_DATA(self, server, session, envelope):
        self.mails.append(envelope)
        return "250 taken"

    def code(self, recipient, seconds=30):
        """The code in the newest mail to somebody."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for envelope in reversed(self.mails):
                if envelope.rcpt_tos == [recipient]:
                    message = email.message_from_bytes(envelope.content)
                    code = message["Subject"].split()[-1]
                    assert code in message.get_payload()
                    return code
            time.sleep(0.01)
        raise AssertionError(f"no mail for {recipient}")


class Webhook:
    """A gateway for text messages: checks signatures, and keeps what it is given."""

    def __init__(self, files):
        self.messages = []
        self.failures = 0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                if outer.failures > 0:
                    outer.failures -= 1
                    self.send_response(503)
                    self.end_headers()
                    return
                signed = self.headers["latchkey-timestamp"].encode() + b"." + body
                expected = "v1=" + hmac.new(WEBHOOK_SECRET, signed, hashlib.sha256).hexdigest()
                holds = hmac.compare_digest(expected, self.headers["latchkey-signature"])
                if holds and abs(time.time() - int(self.headers["latchkey-timestamp"])) < 60:
                    outer.messages.append(json.loads(body))
                self.send_response(204 if holds else 401)
                self.end_headers()

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files.certificate, files.key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    @property
    def address(self):
        return f"https://localhost:{self.server.server_port}/codes"

    def code(self, recipient, seconds=30):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for message in reversed(self.messages):
                if message["to"] == recipient:
                    return message["code"]
            time.sleep(0.01)
        raise AssertionError(f"no text message for {recipient}")


class Scene:
    def __init__(self, world, mailbox, webhook, issuer):
        self.world, self.mailbox, self.webhook, self.issuer = world, mailbox, webhook, issuer
        channel = world.channel("identity")
        self.links = link_service_pb2_grpc.LinkServiceStub(channel)
        self.sessions = session_service_pb2_grpc.SessionServiceStub(channel)

    def log(self):
        return self.world.fleet["identity"].log_path.read_text()


@pytest.fixture(scope="module")
def scene(binaries, tmp_path_factory):
    folder = tmp_path_factory.mktemp("methods")
    files = authority.issue(folder / "certificates")
    mailbox = Mailbox(files)
    webhook = Webhook(files)
    (folder / "mail-password").write_text(MAIL_PASSWORD + "\n")
    (folder / "webhook-secret").write_bytes(WEBHOOK_SECRET)
    for name in ("mail-password", "webhook-secret"):
        (folder / name).chmod(0o600)
    with oidc_provider_mock.run_server_in_thread() as provider:
        issuer = f"http://localhost:{provider.server_port}"
        (folder / "oidc.json").write_text(
            json.dumps({"providers": [{"name": "mock", "issuer": issuer, "client_ids": ["app-there"]}]})
        )
        arguments = {
            "identity": [
                "--otp-email", "smtp", "--smtp-host", "localhost", "--smtp-port", str(mailbox.controller.port),
                "--smtp-from", "codes@example.com", "--smtp-user", "latchkey",
                "--smtp-password-file", str(folder / "mail-password"), "--smtp-ca-file", str(files.authority),
                "--otp-phone", "webhook", "--webhook-url", webhook.address,
                "--webhook-secret-file", str(folder / "webhook-secret"), "--webhook-ca-file", str(files.authority),
                "--oidc-file", str(folder / "oidc.json"),
            ]
        }  # fmt: skip
        mailbox.controller.start()
        webhook.thread.start()
        try:
            with services.Fleet(binaries, folder, arguments=arguments) as fleet:
                world = World(fleet)
                yield Scene(world, mailbox, webhook, issuer)
                world.close()
        finally:
            mailbox.controller.stop()
            webhook.server.shutdown()


def authenticate(scene, device=None, on_conflict=0, metadata=(), **method):
    return scene.world.auth.Authenticate(
        auth_service_pb2.AuthenticateRequest(
            client_id=CLIENT_ID,
            guest_token=device.tokens.access_token if device else "",
            on_conflict=on_conflict,
            **method,
        ),
        metadata=metadata,
        timeout=20,
    )


def send(scene, identifier, purpose=auth_service_pb2.OTP_PURPOSE_UNSPECIFIED):
    return scene.world.auth.SendOtp(
        auth_service_pb2.SendOtpRequest(client_id=CLIENT_ID, identifier=identifier, purpose=purpose), timeout=10
    )


def prove(scene, identifier, box):
    """Shows an address to be its account's, by a code. What was sent for it is forgotten."""
    send(scene, identifier, auth_service_pb2.OTP_PURPOSE_PROVE_ADDRESS)
    otp = auth_service_pb2.OtpCredential(identifier=identifier, code=box.code(identifier))
    credential = auth_service_pb2.PasswordCredential(identifier=identifier, password=PASSWORD)
    tokens = authenticate(scene, password=credential).tokens
    request = link_service_pb2.LinkIdentityRequest(otp=otp, password=PASSWORD)
    scene.links.LinkIdentity(request, metadata=bearer(tokens.access_token), timeout=20)
    for kept in (scene.mailbox.mails, scene.webhook.messages):
        kept.clear()


def key_proof(scene, device, key, purpose):
    """A key's signature over a fresh challenge, for one purpose."""
    numbers = key.public_key().public_numbers()
    jwk = device.jwk()
    jwk.x, jwk.y = base64url(numbers.x.to_bytes(32, "big")), base64url(numbers.y.to_bytes(32, "big"))
    challenge = scene.world.guests.GetChallenge(
        guest_service_pb2.GetChallengeRequest(client_id=CLIENT_ID, device_key=jwk), timeout=10
    ).challenge
    message = b"\0".join([purpose.encode(), CLIENT_ID.encode(), challenge.encode()])
    return auth_service_pb2.KeyProof(public_key=jwk, challenge=challenge, signature=device.sign(message, key))


def link(scene, device, **identity):
    return scene.links.LinkIdentity(
        link_service_pb2.LinkIdentityRequest(**identity), metadata=device.metadata, timeout=20
    )


def assert_signed_in(scene, answer, device=None):
    if device is not None:
        assert answer.subject.sub == device.subject.sub
    sessions = scene.sessions.ListSessions(
        session_service_pb2.ListSessionsRequest(), metadata=bearer(answer.tokens.access_token), timeout=10
    ).sessions
    assert answer.tokens.sid in [session.sid for session in sessions]


def test_P1_password(scene):
    """P1: password"""
    device = scene.world.account()
    credential = auth_service_pb2.PasswordCredential(identifier=device.identifier, password=PASSWORD)
    assert_signed_in(scene, authenticate(scene, password=credential), device)


def test_G20_a_code_by_mail_registers_and_signs_in(scene):
    """G20: a code by mail registers and signs in"""
    device = Device(scene.world)
    device.start_as_guest()
    identifier = unique_identifier()
    send(scene, identifier, auth_service_pb2.OTP_PURPOSE_PROVE_ADDRESS)
    code = scene.mailbox.code(identifier)
    request = auth_service_pb2.RegisterRequest(
        client_id=CLIENT_ID,
        otp=auth_service_pb2.OtpCredential(identifier=identifier, code=code),
        guest_token=device.tokens.access_token,
        nickname="Ada",
        avatar_url="https://example.com/ada.png",
        locale="en",
    )
    answer = scene.world.auth.Register(request, timeout=20)
    assert answer.account_change.promoted
    assert answer.subject.sub == device.subject.sub
    assert (answer.profile.name, answer.profile.avatar_url) == ("Ada", "https://example.com/ada.png")
    # From a network that it was signed in from, the account has codes of its own.
    send(scene, identifier)
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "RESEND_TOO_SOON") as failure:
        send(scene, identifier)
    assert 0 < failure[0].retry_after.total_seconds() <= 60
    assert code not in scene.log()


def test_G20_a_code_by_text_message_signs_in_after_the_gateway_failed_for_a_moment(scene):
    """G20: a code by text message signs in after the gateway failed for a moment"""
    device = scene.world.account(identifier=f"+1415{secrets.randbelow(9_000_000) + 1_000_000}")
    prove(scene, device.identifier, scene.webhook)
    scene.webhook.failures = 2
    send(scene, device.identifier)
    credential = auth_service_pb2.OtpCredential(identifier=device.identifier, code=scene.webhook.code(device.identifier))
    assert_signed_in(scene, authenticate(scene, otp=credential), device)
    with refused(grpc.StatusCode.UNAUTHENTICATED, "CODE_VOID"):
        authenticate(scene, otp=credential)


def test_R50_a_recipient_that_the_mail_server_refuses_stops_nobody_else(scene):
    """R50: what fails for one recipient fails for that one alone."""
    nobody = unique_identifier()
    scene.mailbox.unknown.add(nobody)
    send(scene, nobody, auth_service_pb2.OTP_PURPOSE_PROVE_ADDRESS)
    deadline = time.monotonic() + 10
    while "was not delivered" not in scene.log():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    for _ in range(3):
        somebody = unique_identifier()
        send(scene, somebody, auth_service_pb2.OTP_PURPOSE_PROVE_ADDRESS)
        scene.mailbox.code(somebody)


def test_G25_a_mail_server_that_lets_nobody_in_is_told_apart_and_burns_nothing(scene):
    """G25: a mail server that lets nobody in is told apart and burns nothing"""
    device = scene.world.account()
    prove(scene, device.identifier, scene.mailbox)
    scene.mailbox.locked = True
    try:
        send(scene, device.identifier)
        deadline = time.monotonic() + 10
        while True:
            try:
                send(scene, device.identifier)
            except grpc.RpcError as error:
                if error.code() == grpc.StatusCode.UNAVAILABLE:
                    with refused(grpc.StatusCode.UNAVAILABLE, "CODE_DELIVERY_FAILED") as failure:
                        raise
                    break
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert failure[0].retry_after.total_seconds() == 10
    finally:
        scene.mailbox.locked = False
    # After the rest another code may be asked for at once, although a minute is far from over.
    time.sleep(10.1)
    send(scene, device.identifier)
    credential = auth_service_pb2.OtpCredential(identifier=device.identifier, code=scene.mailbox.code(device.identifier))
    assert_signed_in(scene, authenticate(scene, otp=credential), device)


def test_P1_a_key_that_a_finger_unlocks(scene):
    """P1: a key that a finger unlocks"""
    device = scene.world.account()
    key = ec.generate_private_key(ec.SECP256R1())
    proof = key_proof(scene, device, key, "latchkey-enrol-unlock-v1")
    assert link(scene, device, device_key=link_service_pb2.DeviceKeyEnrolment(proof=proof)).linked
    proof = key_proof(scene, device, key, "latchkey-unlock-v1")
    credential = auth_service_pb2.DeviceKeyCredential(proof=proof)
    assert_signed_in(scene, authenticate(scene, device_key=credential), device)
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "CHALLENGE_INVALID"):
        authenticate(scene, device_key=credential)
    stranger = ec.generate_private_key(ec.SECP256R1())
    credential = auth_service_pb2.DeviceKeyCredential(proof=key_proof(scene, device, stranger, "latchkey-unlock-v1"))
    with refused(grpc.StatusCode.UNAUTHENTICATED, "INVALID_CREDENTIALS"):
        authenticate(scene, device_key=credential)


def test_P1_a_pattern_on_its_device(scene):
    """P1: a pattern on its device"""
    device = scene.world.account()
    pattern = "0-4-8-5-2-1"
    proof = key_proof(scene, device, device.key, "latchkey-enrol-pattern-v1")
    assert link(scene, device, pattern=link_service_pb2.PatternEnrolment(proof=proof, pattern=pattern)).linked
    for tried, reason in (("0-4-8-5-2-3", "INVALID_CREDENTIALS"), (pattern, None)):
        proof = key_proof(scene, device, device.key, "latchkey-pattern-v1")
        credential = auth_service_pb2.PatternCredential(proof=proof, pattern=tried)
        if reason is None:
            assert_signed_in(scene, authenticate(scene, pattern=credential), device)
        else:
            with refused(grpc.StatusCode.UNAUTHENTICATED, reason):
                authenticate(scene, pattern=credential)
    assert pattern not in scene.log()


def test_D3_two_random_texts(scene):
    """D3: two random texts"""
    device = Device(scene.world)
    device.start_as_guest()
    credential = auth_service_pb2.CustomSecretCredential(id=str(uuid.uuid4()), secret=str(uuid.uuid4()))
    request = auth_service_pb2.RegisterRequest(
        client_id=CLIENT_ID, custom_secret=credential, guest_token=device.tokens.access_token
    )
    key = (("idempotency-key", secrets.token_hex(8)),)
    first = device.remember(scene.world.auth.Register(request, metadata=key, timeout=20))
    again = scene.world.auth.Register(request, metadata=key, timeout=20)
    assert again.tokens.sid == first.tokens.sid
    assert_signed_in(scene, authenticate(scene, custom_secret=credential), device)
    assert credential.secret not in scene.log()


def test_G20_a_qr_grant_settles_what_becomes_of_the_guest(scene):
    """G20: a qr grant settles what becomes of the guest"""
    phone = scene.world.account()
    desktop = Device(scene.world, label="desktop")
    desktop.start_as_guest()
    desktop.issue_qr()
    phone.confirm(phone.scan(desktop.code.qr_payload), check_code=desktop.code.check_code)
    granted = desktop.poll(wait_ms=5000).tokens
    credential = auth_service_pb2.QrGrantCredential(access_token=granted.access_token)
    conflict = authenticate(scene, desktop, qr_grant=credential).conflict
    assert auth_service_pb2.ON_CONFLICT_MERGE in conflict.choices
    answer = desktop.choose(conflict.link_ticket, auth_service_pb2.ON_CONFLICT_MERGE)
    assert answer.subject.sub == phone.subject.sub
    assert desktop.begun_merge(answer.account_change)
    assert answer.tokens.scope == granted.scope
    with refused(grpc.StatusCode.UNAUTHENTICATED, "INVALID_CREDENTIALS"):
        authenticate(scene, qr_grant=credential)


class Provider:
    """Signs people in at the mock provider, as a browser and the app's back end would."""

    def __init__(self, scene):
        self.scene = scene

    def nonce(self):
        return self.scene.world.guests.GetChallenge(
            guest_service_pb2.GetChallengeRequest(
                client_id=CLIENT_ID, purpose=guest_service_pb2.CHALLENGE_PURPOSE_ID_TOKEN_NONCE
            ),
            timeout=10,
        ).challenge

    def id_token(self, subject, nonce):
        home = "https://app.example/back"
        query = {
            "client_id": "app-there", "redirect_uri": home, "response_type": "code", "scope": "openid email",
            "nonce": nonce,
        }  # fmt: skip
        answer = httpx.post(
            f"{self.scene.issuer}/oauth2/authorize", params=query, data={"sub": subject}, timeout=5
        )
        code = urllib.parse.parse_qs(urllib.parse.urlsplit(answer.headers["location"]).query)["code"][0]
        tokens = httpx.post(
            f"{self.scene.issuer}/oauth2/token",
            data={"grant_type": "authorization_code", "code": code, "redirect_uri": home},
            auth=("app-there", "any"),
            timeout=5,
        )
        return tokens.json()["id_token"]


def test_G20_an_id_token_of_a_provider(scene):
    """G20: an id token of a provider"""
    provider = Provider(scene)
    device = Device(scene.world)
    device.start_as_guest()
    nonce = provider.nonce()
    token = provider.id_token("ada@provider.example", nonce)
    assert jwt.get_unverified_header(token)["alg"] == "RS256"
    credential = auth_service_pb2.IdTokenCredential(id_token=token, nonce=nonce)
    answer = device.remember(authenticate(scene, device, id_token=credential))
    assert answer.account_change.promoted
    assert_signed_in(scene, answer)
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "CHALLENGE_INVALID"):
        authenticate(scene, id_token=credential)
    nonce = provider.nonce()
    again = authenticate(
        scene,
        id_token=auth_service_pb2.IdTokenCredential(
            id_token=provider.id_token("ada@provider.example", nonce), nonce=nonce
        ),
    )
    assert_signed_in(scene, again, device)
    assert token not in scene.log()


def forged_tokens(token, nonce, issuer):
    """What a forger would try, by name."""
    claims = jwt.decode(token, options={"verify_signature": False})
    header = jwt.get_unverified_header(token)
    kid = {"kid": header["kid"]} if "kid" in header else {}
    key = rsa.generate_private_key(65537, 2048)
    public = httpx.get(f"{issuer}/jwks", timeout=5).json()["keys"][0]
    none = base64url(json.dumps({"alg": "none"}).encode()) + "." + base64url(json.dumps(claims).encode()) + "."
    yield "another key", jwt.encode(claims, key, "RS256", headers=kid)
    yield "no signature", none
    secret = base64.urlsafe_b64decode(public["n"] + "==")
    yield "the public key as a secret", jwt.encode(claims, secret, "HS256", headers=kid)
    numbers = key.public_key().public_numbers()
    own = {"kty": "RSA", "e": "AQAB", "n": base64url(numbers.n.to_bytes(256, "big"))}
    yield "a key of its own", jwt.encode(claims, key, "RS256", headers={**kid, "jwk": own})
    yield "keys elsewhere", jwt.encode(claims, key, "RS256", headers={**kid, "jku": "http://127.0.0.1:1/"})
    yield "another algorithm", jwt.encode(claims, key, "PS256", headers=kid)
    yield "another issuer", jwt.encode({**claims, "iss": "https://evil.example"}, key, "RS256", headers=kid)
    head, body, signature = token.split(".")
    changed = {**claims, "sub": "eve@provider.example"}
    yield "another subject", f"{head}.{base64url(json.dumps(changed).encode())}.{signature}"
    yield "nothing", "x.y.z"


def test_R5_forged_id_tokens_sign_nobody_in(scene):
    """R5: forged id tokens sign nobody in"""
    provider = Provider(scene)
    nonce = provider.nonce()
    token = provider.id_token("bob@provider.example", nonce)
    for name, forged in forged_tokens(token, nonce, scene.issuer):
        try:
            authenticate(scene, id_token=auth_service_pb2.IdTokenCredential(id_token=forged, nonce=nonce))
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNAUTHENTICATED, f"{name}: {error.details()}"
        else:
            raise AssertionError(f"{name} signed in")
    other = provider.id_token("bob@provider.example", provider.nonce())
    with refused(grpc.StatusCode.UNAUTHENTICATED, "INVALID_CREDENTIALS"):
        authenticate(scene, id_token=auth_service_pb2.IdTokenCredential(id_token=other, nonce=nonce))
    # After all of it the genuine one still signs in.
    authenticate(scene, id_token=auth_service_pb2.IdTokenCredential(id_token=token, nonce=nonce))


def dpop_proof(device, method, token=None):
    return proofs.make(device.key, f"https://x{method}", token)


# Over PostgreSQL every proof needs a nonce.
@pytest.mark.sqlite
def test_R21_R22_bound_tokens_by_a_stock_client(scene):
    """R21: R22 bound tokens by a stock client"""
    device = scene.world.account()
    credential = auth_service_pb2.PasswordCredential(identifier=device.identifier, password=PASSWORD)
    service = "/latchkey.identity.v1.AuthService"
    tokens = authenticate(
        scene, metadata=(("dpop", dpop_proof(device, f"{service}/Authenticate")),), password=credential
    ).tokens
    assert tokens.token_type == "DPoP" and tokens.cnf_jkt
    request = auth_service_pb2.RefreshRequest(refresh_token=tokens.refresh_token)
    for metadata in ((), (("dpop", dpop_proof(Device(scene.world), f"{service}/Refresh")),)):
        with refused(grpc.StatusCode.UNAUTHENTICATED, "invalid_dpop_proof"):
            scene.world.auth.Refresh(request, metadata=metadata, timeout=10)
    proof = (("dpop", dpop_proof(device, f"{service}/Refresh")),)
    fresh = scene.world.auth.Refresh(request, metadata=proof, timeout=10).tokens
    with refused(grpc.StatusCode.UNAUTHENTICATED, "invalid_dpop_proof"):
        scene.world.auth.Refresh(request, metadata=proof, timeout=10)
    path = "/latchkey.identity.v1.SessionService/ListSessions"
    with refused(grpc.StatusCode.UNAUTHENTICATED, "invalid_dpop_proof"):
        scene.sessions.ListSessions(
            session_service_pb2.ListSessionsRequest(), metadata=bearer(fresh.access_token), timeout=10
        )
    scene.sessions.ListSessions(
        session_service_pb2.ListSessionsRequest(),
        metadata=(
            ("authorization", f"DPoP {fresh.access_token}"),
            ("dpop", dpop_proof(device, path, fresh.access_token)),
        ),
        timeout=10,
    )


def test_G20_the_command_line_signs_in_by_code_pattern_and_custom_secret(scene, cli):
    """G20: the command line signs in by code pattern and custom secret"""
    identifier = unique_identifier()
    cli(scene.world, "phone", "guest")
    account = cli(scene.world, "phone", "register", identifier, "--password-file", "-", stdin=PASSWORD)
    cli(scene.world, "phone", "pattern", "--password-file", "-", stdin="0-4-8-5")
    cli(scene.world, "phone", "logout")
    cli(scene.world, "phone", "login", "--pattern", "--password-file", "-", stdin="0-4-8-4", status=77)
    by_pattern = cli(scene.world, "phone", "login", "--pattern", "--password-file", "-", stdin="0-4-8-5")
    assert by_pattern["session"]["sub"] == account["session"]["sub"]
    prove(scene, identifier, scene.mailbox)
    assert cli(scene.world, "tablet", "login", identifier, "--send-code")["attempts_left"] == 5
    by_code = cli(scene.world, "tablet", "login", identifier, "--code", scene.mailbox.code(identifier))
    assert by_code["session"]["sub"] == account["session"]["sub"]
    made = auth_service_pb2.CustomSecretCredential(id=str(uuid.uuid4()), secret=str(uuid.uuid4()))
    subject = scene.world.auth.Register(
        auth_service_pb2.RegisterRequest(client_id=CLIENT_ID, custom_secret=made), timeout=20
    ).subject
    by_secret = cli(scene.world, "robot", "login", made.id, "--custom-id", "--password-file", "-", stdin=made.secret)
    assert by_secret["session"]["sub"] == subject.sub


def test_R48_the_command_line_changes_recovers_and_ends_an_account(scene, cli, tmp_path):
    """R48: a password is changed and recovered, an address verified, an account deleted; a stolen session does none of it."""
    identifier = unique_identifier()
    for name, text in (("old", PASSWORD), ("new", "a better " + PASSWORD), ("newest", "the best " + PASSWORD)):
        (tmp_path / name).write_text(text + "\n")
    old, new, newest = (str(tmp_path / name) for name in ("old", "new", "newest"))
    cli(scene.world, "phone", "guest")
    account = cli(scene.world, "phone", "register", identifier, "--password-file", old)
    # Nobody recovers by an address that was not verified.
    cli(scene.world, "thief", "account", "recover", identifier)
    cli(scene.world, "phone", "account", "verify", identifier)
    assert cli(scene.world, "phone", "account", "verify", identifier, "--code", scene.mailbox.code(identifier))["verified"]
    assert len([mail for mail in scene.mailbox.mails if mail.rcpt_tos == [identifier]]) == 1
    assert cli(scene.world, "phone", "link", "list")["identities"][0]["verified"]
    assert cli(scene.world, "phone", "account", "update", "--name", "Ada", "--locale", "de")["name"] == "Ada"

    credential = auth_service_pb2.PasswordCredential(identifier=identifier, password=PASSWORD)
    stolen = bearer(authenticate(scene, password=credential).tokens.access_token)
    accounts = account_service_pb2_grpc.AccountServiceStub(scene.world.channel("identity"))
    for wrong in ("", "a guess at it"):
        request = account_service_pb2.ChangePasswordRequest(password=wrong, new_password="the thief's own")
        with pytest.raises(grpc.RpcError):
            accounts.ChangePassword(request, metadata=stolen, timeout=20)
    changed = cli(
        scene.world, "phone", "account", "password", "--password-file", old, "--new-password-file", new
    )
    assert changed["sessions_ended"] == 1
    with refused(grpc.StatusCode.UNAUTHENTICATED, "SESSION_REVOKED"):
        accounts.GetProfile(account_service_pb2.GetProfileRequest(), metadata=stolen, timeout=20)
    notice = wait_for_mail(scene, identifier, 2)
    subject = str(email.header.make_header(email.header.decode_header(notice["Subject"])))
    assert subject == "Ihr Passwort wurde geändert"

    scene.mailbox.mails.clear()
    cli(scene.world, "tablet", "account", "recover", identifier)
    code = scene.mailbox.code(identifier)
    ended = cli(scene.world, "tablet", "account", "recover", identifier, "--code", code, "--new-password-file", newest)
    assert ended["sessions_ended"] == 1
    cli(scene.world, "phone", "account", status=77)
    back = cli(scene.world, "phone", "login", identifier, "--password-file", newest)
    assert back["session"]["sub"] == account["session"]["sub"]
    cli(scene.world, "phone", "account", "delete", "--yes", "--password-file", newest)
    cli(scene.world, "phone", "login", identifier, "--password-file", newest, status=77)


def wait_for_mail(scene, recipient, count, seconds=30):
    """The newest of so many mails to somebody."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        mails = [mail for mail in scene.mailbox.mails if mail.rcpt_tos == [recipient]]
        if len(mails) >= count:
            return email.message_from_bytes(mails[-1].content)
        time.sleep(0.01)
    raise AssertionError(f"no mail for {recipient}")


def test_R22_nonces_in_every_service(binaries, tmp_path, cli):
    """Our own client is given a nonce once, and then proves itself to all three services."""
    with services.Fleet(binaries, tmp_path, arguments={"*": ["--dpop-nonces"]}) as fleet:
        world = World(fleet)
        cli(world, "phone", "guest")
        row = json.dumps({"collection": "cart", "key": "a", "value": "1"}) + "\n"
        assert cli(world, "phone", "record", "put", stdin=row)["written"] == 1
        cli(world, "phone", "register", unique_identifier(), "--password-file", "-", stdin=PASSWORD)
        cli(world, "phone", "session", "refresh")
        assert cli(world, "phone", "session", "introspect")["active"]
        proof = dpop_proof(Device(world), "/latchkey.identity.v1.AuthService/Authenticate")
        credential = auth_service_pb2.PasswordCredential(identifier="eve@example.com", password=PASSWORD)
        with refused(grpc.StatusCode.UNAUTHENTICATED, "use_dpop_nonce") as failure:
            world.auth.Authenticate(
                auth_service_pb2.AuthenticateRequest(client_id=CLIENT_ID, password=credential),
                metadata=(("dpop", proof),),
                timeout=10,
            )
        assert failure[0].info["dpop_nonce"]
        world.close()
