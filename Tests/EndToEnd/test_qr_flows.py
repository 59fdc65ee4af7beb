"""QR sign-in as stock clients drive it: a device grant by an OAuth library, kills in the middle, a drain."""

import hashlib
import json
import random
import secrets
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import grpc
import pytest
import services
from authlib.integrations.requests_client import OAuth2Session
from authlib.integrations.base_client import OAuthError
from latchkey.qr.v1 import qr_session_service_pb2 as pb
from test_network_faults import usage
from waiting import eventually
from world import CLIENT_ID, World, base64url, from_base64url

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


def payload_of(token):
    return json.loads(from_base64url(token.split(".")[1]))


def patiently(call, seconds=20):
    """What a client with retries does: the same call again while the service is away."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return call()
        except grpc.RpcError as error:
            away = error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
            if not away or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def test_screen_shows_who_scanned(world):
    """S23: the screen names the account that scanned, masked, before anything is redeemed"""
    phone, screen = world.account("mallory@example.org"), world.device()
    code = screen.issue_qr()
    assert screen.poll().scanner_mask == ""
    scan = phone.scan(code.qr_payload)
    shown = screen.poll().scanner_mask
    assert shown.startswith("m") and "@" in shown and "mallory" not in shown and "example" not in shown
    phone.confirm(scan, code.check_code)
    watch = world.qr.WatchSession(pb.WatchSessionRequest(device_code=code.device_code), timeout=10)
    watched = next(watch)
    watch.cancel()
    assert watched.scanner_mask == shown and not watched.HasField("tokens")


def test_tokens_are_the_screens_own(world):
    """S16: tokens are short-lived, no wider than what was confirmed, and bound to the screen's key"""
    phone, screen = world.account(), world.device()
    code = screen.issue_qr(scope="profile account", device_key=screen.jwk())
    scan = phone.scan(code.qr_payload)
    world.qr.ConfirmSession(
        pb.ConfirmSessionRequest(
            confirm_ticket=scan.confirm_ticket,
            check_code=code.check_code if scan.needs_check_code else "",
            scope_subset="profile",
        ),
        metadata=phone.metadata,
        timeout=10,
    )
    tokens = screen.poll().tokens
    key = screen.jwk()
    members = f'{{"crv":"P-256","kty":"EC","x":"{key.x}","y":"{key.y}"}}'
    thumbprint = base64url(hashlib.sha256(members.encode()).digest())
    claims = payload_of(tokens.access_token)
    assert tokens.cnf_jkt == thumbprint and claims["cnf"]["jkt"] == thumbprint
    assert tokens.expires_in <= 900 and tokens.scope == "profile"
    assert claims["sid"] == tokens.sid != phone.tokens.sid


def test_device_grant(world, monkeypatch):
    """RFC 8628, S28: Authlib's device grant, found by RFC 8414, signs in with PKCE, and gets no code without"""
    device_grant(world, monkeypatch, with_pkce=True)
    form = urllib.parse.urlencode({"client_id": CLIENT_ID, "scope": "profile"}).encode()
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://{world.target('qr')}/oauth/device_authorization", data=form, timeout=5)
    answer = json.load(refused.value)
    assert answer["error"] == "invalid_request" and "code_challenge" in answer["error_description"]


@pytest.mark.usefixtures("engine")
def test_device_grant_without_pkce(binaries, tmp_path, monkeypatch):
    """RFC 8628, S28: a client that the installation lists signs in by its device code alone"""
    arguments = {"qr": ["--oauth-clients-without-pkce", CLIENT_ID, "--poll-interval", "0s"]}
    with services.Fleet(binaries, tmp_path, arguments=arguments) as fleet:
        device_grant(World(fleet), monkeypatch, with_pkce=False)


def device_grant(world, monkeypatch, with_pkce):
    monkeypatch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")
    base = f"http://{world.target('qr')}"
    with urllib.request.urlopen(f"{base}/.well-known/oauth-authorization-server", timeout=5) as answer:
        metadata = json.load(answer)
    assert metadata["issuer"] == base
    form = {"client_id": CLIENT_ID, "scope": "profile account"}
    proof = {}
    if with_pkce:
        verifier = secrets.token_urlsafe(32)
        form |= {
            "code_challenge": base64url(hashlib.sha256(verifier.encode()).digest()),
            "code_challenge_method": "S256",
        }
        proof = {"code_verifier": verifier}
    with OAuth2Session(CLIENT_ID, token_endpoint_auth_method="none") as client:
        offer = client.post(metadata["device_authorization_endpoint"], data=form, withhold_token=True).json()

        def fetch(**proof):
            return client.fetch_token(
                metadata["token_endpoint"], grant_type=DEVICE_GRANT, device_code=offer["device_code"], **proof
            )

        with pytest.raises(OAuthError) as error:
            fetch(**proof)
        assert error.value.error == "authorization_pending"
        phone = world.account()
        scan = world.qr.ScanSession(
            pb.ScanSessionRequest(user_code=offer["user_code"]), metadata=phone.metadata, timeout=10
        )
        assert scan.initiator.label == CLIENT_ID and scan.scope == "profile"
        phone.confirm(scan, offer["check_code"])
        if with_pkce:
            with pytest.raises(OAuthError) as error:
                fetch()
            assert error.value.error == "invalid_grant"
        token = fetch(**proof)
    assert token["token_type"] == "Bearer" and token["refresh_token"] and token["scope"] == "profile"
    assert phone.introspect(token["access_token"]).sub == phone.subject.sub


def test_hundred_connections(world):
    """S5: a hundred pollers, each on a connection of its own, get one session between them"""
    phone, screen = world.account(), world.device()
    code = screen.issue_qr()
    phone.confirm(phone.scan(code.qr_payload), code.check_code)
    channels = [world.new_channel("qr") for _ in range(100)]
    request = pb.PollSessionRequest(device_code=code.device_code, code_verifier=screen.verifier)
    path = "/latchkey.qr.v1.QrSessionService/PollSession"
    calls = [
        channel.unary_unary(path, pb.PollSessionRequest.SerializeToString, pb.PollSessionResponse.FromString).future(
            request, timeout=20
        )
        for channel in channels
    ]
    answers = [call.result() for call in calls]
    for channel in channels:
        channel.close()
    assert len({answer.tokens.access_token for answer in answers}) == 1
    assert answers[0].tokens.access_token


def test_kills(own_world):
    """S5: whichever service is killed at whichever step, a confirmed code ends in exactly one live sign-in"""
    world = own_world
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    phone = world.account()
    for round in range(8):
        step, victim = round % 5, chance.choice(["qr", "identity"])
        screen = world.device()

        def strike(at):
            if at == step:
                world.fleet[victim].restart()

        code = patiently(screen.issue_qr)
        strike(0)
        patiently(screen.poll)
        scan = patiently(lambda: phone.scan(code.qr_payload))
        strike(1)
        patiently(lambda: phone.confirm(scan, code.check_code))
        strike(2)
        killer = threading.Timer(chance.random() * 0.01, strike, [3])
        killer.start()
        first = patiently(screen.poll)
        killer.join()
        strike(4)
        again = patiently(screen.poll)
        label = f"seed {seed}, round {round}: {victim} killed at step {step}"
        assert first.tokens.access_token and again.tokens.access_token, label
        assert patiently(lambda: phone.introspect(again.tokens.access_token)).active, label
        if first.tokens != again.tokens:
            assert not patiently(lambda: phone.introspect(first.tokens.access_token)).active, label


def test_drain(own_world):
    """A service that stops answers who waits, at once, and keeps the code for who asks the next one"""
    world = own_world
    phone, screen = world.account(), world.device()
    code = screen.issue_qr()
    ended = {}

    def long_poll():
        try:
            ended["poll"] = screen.poll(wait_ms=20_000, last_version=1).state
        except grpc.RpcError as error:
            ended["poll"] = error.code()

    def watch():
        try:
            ended["watch"] = [m.state for m in world.qr.WatchSession(pb.WatchSessionRequest(device_code=code.device_code))]
        except grpc.RpcError as error:
            ended["watch"] = error.code()

    waiting = [threading.Thread(target=long_poll), threading.Thread(target=watch)]
    for thread in waiting:
        thread.start()
    eventually(lambda: usage(world)["waiting_calls"] >= 2, "nobody waits")
    began = time.monotonic()
    assert world.fleet["qr"].stop(seconds=20) == 0
    for thread in waiting:
        thread.join(5)
    assert time.monotonic() - began < 10
    assert ended == {"poll": pb.SESSION_STATE_PENDING, "watch": grpc.StatusCode.UNAVAILABLE}
    world.fleet["qr"].start()
    patiently(lambda: phone.confirm(phone.scan(code.qr_payload), code.check_code))
    assert patiently(screen.poll).HasField("tokens")
