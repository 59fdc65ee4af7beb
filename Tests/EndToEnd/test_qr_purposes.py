"""QR codes for more than signing in: actions, bound devices, guests that move; and from where they may be confirmed."""

import base64
import contextlib
import hashlib
import json
import time
import urllib.request

import grpc
import jwt
import pytest
from latchkey.identity.v1 import (
    admin_service_pb2,
    admin_service_pb2_grpc,
    auth_service_pb2,
    device_service_pb2,
    device_service_pb2_grpc,
    session_service_pb2,
    session_service_pb2_grpc,
    transfer_service_pb2,
    transfer_service_pb2_grpc,
)
from latchkey.qr.v1 import qr_session_service_pb2 as pb
from test_revocation import time_until_revoked
from world import PASSWORD, Failure, World, base64url, bearer, refused, unique_identifier

pytestmark = pytest.mark.every_engine

PAYMENT = {"text": "Pay Corner Shop", "amount": "129.90", "currency": "EUR", "reference": "order-7"}


def issue(screen, purpose, **fields):
    """As Device.issue_qr, for another purpose."""
    screen.verifier = base64url(hashlib.sha256(str(id(screen)).encode()).digest())
    screen.code = screen.world.qr.IssueSession(
        pb.IssueSessionRequest(
            client_id="latchkey-demo",
            purpose=purpose,
            code_challenge=base64url(hashlib.sha256(screen.verifier.encode()).digest()),
            code_challenge_method="S256",
            initiator=pb.Initiator(label=screen.label, platform="python", app="tests"),
            **fields,
        ),
        timeout=10,
    )
    return screen.code


def unlock(phone, scan, action=None):
    """What a phone signs once its lock was opened, as qr_session_service.proto has it."""
    ticket = base64url(hashlib.sha256(scan.confirm_ticket.encode()).digest())
    digest = ""
    if action:
        parts = ["latchkey-action-v1", scan.client_id, *(action[name] for name in PAYMENT)]
        digest = base64url(hashlib.sha256("\0".join(parts).encode()).digest())
    message = "\0".join(["latchkey-qr-confirm-v1", ticket, digest])
    return pb.ReauthProof(device_key=phone.jwk(), signature=phone.sign(message.encode()))


def confirm(phone, scan, **fields):
    request = pb.ConfirmSessionRequest(confirm_ticket=scan.confirm_ticket, **fields)
    return phone.world.qr.ConfirmSession(request, metadata=phone.metadata, timeout=10)


def collect(screen, proof=None):
    request = pb.PollSessionRequest(
        device_code=screen.code.device_code, code_verifier=screen.verifier, device_proof=proof or b""
    )
    return screen.world.qr.PollSession(request, timeout=10)


def redeem_proof(screen):
    return screen.sign(f"latchkey-qr-redeem-v1\0{screen.code.device_code}".encode())


def test_action_is_confirmed(world):
    """Q12: a payment is shown, signed by the phone, and handed over as a statement that PyJWT verifies; no tokens"""
    phone, shop = world.account(), world.device(label="till 3")
    code = issue(shop, pb.PURPOSE_CONFIRM_ACTION, action=pb.Action(**PAYMENT))
    scan = phone.scan(code.qr_payload)
    assert scan.action == pb.Action(**PAYMENT) and scan.needs_reauth
    with refused(grpc.StatusCode.FAILED_PRECONDITION, reason="REAUTHENTICATION_REQUIRED"):
        confirm(phone, scan)
    with refused(grpc.StatusCode.PERMISSION_DENIED, reason="REAUTH_PROOF_INVALID"):
        confirm(phone, scan, reauth_proof=unlock(phone, scan, PAYMENT | {"amount": "9.90"}))
    with refused(grpc.StatusCode.PERMISSION_DENIED, reason="REAUTH_PROOF_INVALID"):
        confirm(phone, scan, reauth_proof=unlock(world.device(), scan, PAYMENT))
    confirm(phone, scan, reauth_proof=unlock(phone, scan, PAYMENT))
    answer = collect(shop)
    assert not answer.HasField("tokens") and not answer.HasField("subject")
    jws = answer.confirmation.jws
    header = jwt.get_unverified_header(jws)
    assert header["typ"] == "latchkey-confirmation+jwt"
    key = next(key for key in world.jwks()["keys"] if key["kid"] == header["kid"])
    claims = jwt.decode(
        jws, jwt.PyJWK(key).key, algorithms=["ES256"], audience="latchkey-demo", issuer=world.fleet.issuer
    )
    assert claims["sub"] == phone.subject.sub and claims["action"] == PAYMENT
    assert claims["action_digest"] == answer.confirmation.action_digest
    assert claims["proof"]["jwk"]["x"] == phone.jwk().x
    # It opens nothing.
    with refused(grpc.StatusCode.UNAUTHENTICATED):
        world.qr.ScanSession(
            pb.ScanSessionRequest(user_code="BCDF-GHJK"), metadata=(("authorization", f"Bearer {jws}"),), timeout=10
        )


SHOWN = {
    "text": [
        "", "x" * 121, "漢" * 120, "a\0b", "a\x07b", "a\nb", "Pay \u202e00.1", "a\u2066b", "a\u200bb", "\u3164",
        "a\u2800b", "a\u034fb", "a\U000e0041b", "a" + "\u0301" * 6, "Pay 1 EUR" + " " * 80 + "or more",
        "a \u3000b", " a", "\u00a0",
    ],
    "amount": ["", "-1", "+1", "1e9", "1" * 13, "1.12345", ".", "1.", "01", "١", "1,5", " 1", "0x1", "NaN"],
    "currency": ["", "eur", "EURO", "XQZ", "XXX", "€", "EU", "ЕUR"],
    "reference": ["a b", "r" * 65, "é", "a\nb"],
}  # fmt: skip


@pytest.mark.parametrize("field, value", [(field, value) for field, values in SHOWN.items() for value in values])
def test_action_hides_nothing(world, field, value):
    """S8: what a phone cannot show as it is meant is no action: the field is named, and no code is made"""
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as failure:
        issue(world.device(), pb.PURPOSE_CONFIRM_ACTION, action=pb.Action(**(PAYMENT | {field: value})))
    assert list(failure[0].fields) == [f"action.{field}"]


def test_tickets_and_proofs_do_not_mix(world):
    """S7, Q12: the ticket or the signature of one purpose opens no other"""
    phone, screen, shop = world.account(), world.device(), world.device()
    login = phone.scan(issue(screen, pb.PURPOSE_LOGIN).qr_payload)
    action = phone.scan(issue(shop, pb.PURPOSE_CONFIRM_ACTION, action=pb.Action(**PAYMENT)).qr_payload)
    for scan, proof in [
        (login, unlock(phone, action, PAYMENT)),
        (action, unlock(phone, login, PAYMENT)),
        (action, unlock(phone, action)),
    ]:
        with refused(grpc.StatusCode.PERMISSION_DENIED, reason="REAUTH_PROOF_INVALID"):
            confirm(phone, scan, reauth_proof=proof)
    confirm(phone, login)
    # One code's collector cannot collect another's.
    for code, verifier in [(shop.code, screen.verifier), (screen.code, shop.verifier)]:
        request = pb.PollSessionRequest(device_code=code.device_code, code_verifier=verifier)
        with contextlib.suppress(grpc.RpcError):
            answer = world.qr.PollSession(request, timeout=10)
            assert not answer.HasField("tokens") and not answer.HasField("confirmation")
    assert collect(screen).HasField("tokens")


def test_screens_bring_in_no_devices(world):
    """S16: a screen that was signed in with a screen's scope gives nobody more: neither by a code nor by a transfer"""
    phone, screen, other = world.account(), world.device(), world.device()
    code = screen.issue_qr()
    phone.confirm(phone.scan(code.qr_payload), code.check_code)
    screen.remember(screen.poll())
    assert screen.tokens.scope == "basic profile"
    for purpose in (pb.PURPOSE_LOGIN, pb.PURPOSE_BIND_DEVICE, pb.PURPOSE_TRANSFER_GUEST):
        wider = issue(other, purpose, scope="basic profile account", device_key=other.jwk())
        with refused(grpc.StatusCode.PERMISSION_DENIED, reason="INSUFFICIENT_SCOPE"):
            screen.scan(wider.qr_payload)
    transfers = transfer_service_pb2_grpc.TransferServiceStub(world.channel("identity"))
    with refused(grpc.StatusCode.PERMISSION_DENIED, reason="INSUFFICIENT_SCOPE"):
        transfers.CreateTransfer(transfer_service_pb2.CreateTransferRequest(), metadata=screen.metadata, timeout=10)


def test_guest_that_moved_on(world):
    """S20: a guest that became an account, or went into one, since it agreed is not moved, and the code is over"""
    account = world.account()
    for go in (
        lambda guest: guest.register(unique_identifier()),
        lambda guest: guest.authenticate(account.identifier, on_conflict=auth_service_pb2.ON_CONFLICT_MERGE),
    ):
        guest, new = world.device(), world.device()
        guest.start_as_guest()
        code = issue(new, pb.PURPOSE_TRANSFER_GUEST, device_key=new.jwk())
        confirm(guest, guest.scan(code.qr_payload))
        go(guest)
        deadline, reason = time.monotonic() + 20, "MIGRATION_RUNNING"
        while reason == "MIGRATION_RUNNING":
            assert time.monotonic() < deadline
            with pytest.raises(grpc.RpcError) as error:
                collect(new, redeem_proof(new))
            reason = Failure(error.value).reason
        assert reason == "access_denied"
        with refused(grpc.StatusCode.FAILED_PRECONDITION, reason="expired_token"):
            collect(new, redeem_proof(new))
        assert guest.introspect().active


@pytest.mark.parametrize("when", ["scan", "confirm", "collect"])
def test_account_is_disabled_meanwhile(world, when):
    """S19: an account that is disabled at any point of the flow signs nobody in"""
    phone, screen = world.account(), world.device()
    admin = admin_service_pb2_grpc.AdminServiceStub(world.channel("identity"))

    def disable():
        request = admin_service_pb2.DisableSubjectRequest(sub=phone.subject.sub, reason="stolen")
        admin.DisableSubject(request, metadata=bearer(world.service_token()), timeout=10)

    code = screen.issue_qr()
    steps = {
        "scan": lambda scan: phone.scan(code.qr_payload),
        "confirm": lambda scan: phone.confirm(scan, code.check_code),
        "collect": lambda scan: screen.poll(),
    }
    scan = None
    with pytest.raises(grpc.RpcError) as error:
        for step, act in steps.items():
            if step == when:
                disable()
            # The end of its sessions travels from service to service: the phone may get one step further, never to the
            # end.
            scan = act(scan) or scan
    assert error.value.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
    request = pb.PollSessionRequest(device_code=code.device_code, code_verifier=screen.verifier)
    with contextlib.suppress(grpc.RpcError):
        assert not world.qr.PollSession(request, timeout=10).HasField("tokens")


def test_bound_device(world):
    """Q12: a device joins the account by its key, and only who holds the key collects"""
    phone, box = world.account(), world.device(label="kitchen box")
    code = issue(box, pb.PURPOSE_BIND_DEVICE, device_key=box.jwk())
    confirm(phone, phone.scan(code.qr_payload))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, field="device_proof"):
        collect(box)
    with refused(grpc.StatusCode.INVALID_ARGUMENT, reason="invalid_grant", field="device_proof"):
        collect(box, world.device().sign(f"latchkey-qr-redeem-v1\0{code.device_code}".encode()))
    answer = collect(box, redeem_proof(box))
    assert answer.tokens.token_type == "DPoP" and answer.tokens.cnf_jkt
    devices = device_service_pb2_grpc.DeviceServiceStub(world.channel("identity"))
    listed = devices.ListDevices(device_service_pb2.ListDevicesRequest(), metadata=phone.metadata, timeout=10).devices
    assert "kitchen box" in [device.label for device in listed]


def test_bound_device_stays(own_world, cli):
    """Q12: a bound television stays the account's through restarts and without a session, until it is removed"""
    world = own_world

    def devices(profile):
        return {device["label"]: device for device in cli(world, profile, "device", "list")["devices"]}

    def bind(profile):
        offer = cli(world, "television", "qr", "issue", "--purpose", "bind-device", "--label", "Television")
        cli(world, profile, "qr", "scan", offer["qr_payload"])
        cli(world, profile, "qr", "confirm")
        assert cli(world, "television", "qr", "wait")["state"] == "signed-in"

    for person in ("ada", "grace"):
        cli(world, person, "guest", "--label", f"{person}'s phone")
        cli(world, person, "register", unique_identifier(), "--password-file", "-", stdin=PASSWORD + "\n")
    bind("ada")
    binding = devices("ada")["Television"]["binding"]
    assert binding["confirmed_by_label"] == "ada's phone" and binding["scope"] == "basic profile"
    # Signed out it is still there, and comes back by its key alone, also after a restart.
    cli(world, "television", "logout")
    assert devices("ada")["Television"]["sessions"] == 0
    for service in world.fleet.services.values():
        service.restart()
    world.open()
    back = cli(world, "television", "login", "--device-key")
    assert back["session"]["sub"] == cli(world, "ada", "session", "show")["session"]["sub"]
    assert devices("ada")["Television"]["sessions"] == 1
    # Another account takes it over.
    bind("grace")
    assert "Television" not in devices("ada") and "binding" in devices("grace")["Television"]
    # Removed, nothing opens: neither the session that it had nor its key.
    assert cli(world, "grace", "device", "remove", devices("grace")["Television"]["key_thumbprint"])["sessions_ended"] == 1
    assert "Television" not in devices("grace")
    assert cli(world, "television", "device", "list", status=77)["error"]["reason"] == "SESSION_REVOKED"
    assert cli(world, "television", "login", "--device-key", status=77)["error"]["reason"] == "INVALID_CREDENTIALS"


def test_guest_moves(world):
    """S20: a guest moves to a new phone by a purpose of its own, which its old phone confirms and LOGIN never does"""
    old, new = world.device(label="old phone"), world.device(label="new phone")
    old.start_as_guest()
    guest = old.subject.sub
    with refused(grpc.StatusCode.PERMISSION_DENIED, reason="LOGIN_REQUIRED"):
        old.scan(new.issue_qr().qr_payload)
    code = issue(new, pb.PURPOSE_TRANSFER_GUEST, device_key=new.jwk())
    scan = old.scan(code.qr_payload)
    assert scan.purpose == pb.PURPOSE_TRANSFER_GUEST
    confirm(old, scan)
    answer = collect(new, redeem_proof(new))
    assert answer.subject.sub == guest and answer.subject.is_guest
    with refused(grpc.StatusCode.UNAUTHENTICATED, "SESSION_REVOKED"):
        old.introspect()
    # Latchkey QR hears of it by identity's feed.
    time_until_revoked(lambda device: device.scan(code.qr_payload), old)
    assert new.start_as_guest().subject.sub == guest
    assert old.start_as_guest().subject.sub != guest


def test_transfer_code_is_no_sign_in_code(world):
    """S20: what a phone shows to move to another is nobody's sign-in code, and a sign-in code moves nobody"""
    phone, screen = world.account(), world.device()
    transfers = transfer_service_pb2_grpc.TransferServiceStub(world.channel("identity"))
    offer = transfers.CreateTransfer(
        transfer_service_pb2.CreateTransferRequest(), metadata=phone.metadata, timeout=10
    )
    with refused(grpc.StatusCode.NOT_FOUND):
        world.account().scan(offer.qr_payload)
    code = screen.issue_qr()
    for secret in ({"qr_payload": code.qr_payload}, {"code": code.user_code}):
        with pytest.raises(grpc.RpcError) as error:
            transfers.InspectTransfer(transfer_service_pb2.InspectTransferRequest(**secret), timeout=10)
        assert error.value.code() in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT)


def test_other_sessions_are_told(world):
    """S18: a sign-in by a code is told to the account's other sessions at once, and cannot end them for a day"""
    phone, screen = world.account(), world.device()
    sessions = session_service_pb2_grpc.SessionServiceStub(world.channel("identity"))
    events = sessions.WatchSessionEvents(
        session_service_pb2.WatchSessionEventsRequest(), metadata=phone.metadata, timeout=20
    )
    assert next(events).event == session_service_pb2.SESSION_EVENT_WATCHING
    code = screen.issue_qr(scope="basic profile account")
    phone.confirm(phone.scan(code.qr_payload), code.check_code)
    answer = screen.remember(screen.poll())
    told = next(event for event in events if event.event == session_service_pb2.SESSION_EVENT_STARTED)
    assert answer.tokens.sid in str(told)
    events.cancel()
    listed = sessions.ListSessions(
        session_service_pb2.ListSessionsRequest(), metadata=phone.metadata, timeout=10
    ).sessions
    assert [session.confirmed for session in listed if session.sid == answer.tokens.sid] == [False]
    for call, request in [
        (sessions.RevokeOtherSessions, session_service_pb2.RevokeOtherSessionsRequest()),
        (sessions.RevokeSession, session_service_pb2.RevokeSessionRequest(sid=phone.tokens.sid)),
        (sessions.ConfirmSession, session_service_pb2.ConfirmSessionRequest(sid=answer.tokens.sid)),
    ]:
        with refused(grpc.StatusCode.PERMISSION_DENIED):
            call(request, metadata=screen.metadata, timeout=10)
    assert phone.introspect().active


def test_beacon_policy(engine, binaries, tmp_path):
    """S10: an installation lets only phones sign in that hear the screen, by configuration alone"""
    arguments = {"qr": ["--risk-rules", "login:no_beacon=deny,login:wrong_beacon=deny"]}
    with engine(binaries, tmp_path, arguments=arguments) as fleet:
        world = World(fleet)
        phone, screen = world.account(), world.device()
        code = screen.issue_qr()

        def scan(*beacons):
            request = pb.ScanSessionRequest(qr_payload=code.qr_payload, heard_beacons=beacons)
            return world.qr.ScanSession(request, metadata=phone.metadata, timeout=10)

        for beacons in ([], ["AAAAAAAAAAA"]):
            with refused(grpc.StatusCode.PERMISSION_DENIED, reason="RISK_DENIED"):
                scan(*beacons)
        heard = scan(code.beacon)
        assert heard.risk.distance == pb.DISTANCE_NEARBY and heard.risk.verdict == pb.RISK_VERDICT_ALLOW
        phone.confirm(heard)
        assert screen.poll().HasField("tokens")
        audit = fleet["qr"].log_tail(200)
        assert any("qr.riskDenied" in line for line in audit.splitlines())
        world.close()


def test_command_line(world, cli):
    """Q12: an action is asked for, shown, agreed to and collected by the command-line tool"""
    cli(world, "phone", "guest")
    cli(world, "phone", "register", unique_identifier(), "--password-file", "-", stdin=PASSWORD + "\n")
    words = ["--purpose", "confirm-action", "--action-text", "Pay Corner Shop", "--amount", "129.90", "--currency", "EUR"]
    offer = cli(world, "till", "qr", "issue", *words)
    scan = cli(world, "phone", "qr", "scan", offer["qr_payload"])
    assert scan["action"]["text"] == "Pay Corner Shop" and scan["needs_reauth"]
    assert cli(world, "phone", "qr", "confirm", status=1)["error"]["reason"] == "REAUTHENTICATION_REQUIRED"
    cli(world, "phone", "qr", "confirm", "--unlock")
    end = cli(world, "till", "qr", "wait")
    assert end["state"] == "confirmed"
    claims = json.loads(base64.urlsafe_b64decode(end["confirmation"]["jws"].split(".")[1] + "=="))
    assert claims["action"]["amount"] == "129.90"
    # A box binds itself by the key of its profile.
    offer = cli(world, "box", "qr", "issue", "--purpose", "bind-device")
    cli(world, "phone", "qr", "scan", offer["qr_payload"])
    cli(world, "phone", "qr", "confirm")
    assert cli(world, "box", "qr", "wait")["state"] == "signed-in"


def test_screen_that_stays_open(engine, binaries, tmp_path, cli):
    """Q2: a screen that stays open replaces its code when it expires, and the one that is scanned signs it in"""
    with engine(binaries, tmp_path, arguments={"qr": ["--code-lifetime", "2s"]}) as fleet:
        world = World(fleet)
        phone = world.account()
        screen = cli.start(world, "screen", "qr", "issue", "--again")
        try:
            decoder, text, offers, is_confirmed = json.JSONDecoder(), "", [], False
            while not is_confirmed:
                line = screen.stdout.readline()
                assert line, screen.stderr.read()
                text += line
                with contextlib.suppress(json.JSONDecodeError):
                    offer, end = decoder.raw_decode(text.lstrip())
                    offers.append(offer)
                    text = text.lstrip()[end:]
                    # Before it expires as well, which may take some tries on a slow machine.
                    is_confirmed = len(offers) >= 3 and confirms(phone, offer)
                assert is_confirmed or len(offers) < 20, "no code can be scanned"
            assert len({offer["qr_payload"] for offer in offers}) == len(offers)
            with refused(grpc.StatusCode.NOT_FOUND):
                phone.scan(offers[0]["qr_payload"])
            out, err = screen.communicate(timeout=20)
            assert screen.returncode == 0, err
            assert json.loads(text + out)["state"] == "signed-in"
        finally:
            screen.kill()
            screen.wait()
            world.close()


def confirms(phone, offer):
    """Scans an offer's code and agrees; whether it was in time."""
    try:
        phone.confirm(phone.scan(offer["qr_payload"]), offer["check_code"])
        return True
    except grpc.RpcError as error:
        if error.code() != grpc.StatusCode.NOT_FOUND:
            raise
        return False


def test_refusal_on_the_command_line(world, cli):
    """R33: a refusal is how a code ends, to who waits for it as to who asks once, and typed letters scan it"""
    phone = world.account()
    for words in (["qr", "wait"], ["qr", "status"]):
        offer = cli(world, "refused", "qr", "issue")
        cli(world, "ada", "guest")
        phone.deny(phone.scan(offer["qr_payload"]))
        ended = cli(world, "refused", *words, status=2 if "wait" in words else 0)
        assert ended["state"] == "denied"
    cli(world, "ada", "register", unique_identifier(), "--password-file", "-", stdin=PASSWORD + "\n")
    offer = cli(world, "refused", "qr", "issue")
    assert cli(world, "ada", "qr", "scan", offer["user_code"])["confirm_ticket"]
    assert cli(world, "ada", "qr", "scan", "not-a-code", status=65)["error"]["hint"]


def test_watch_from_the_command_line(world, cli):
    """Q7: qr watch prints each state as it comes and collects nothing"""
    phone = world.account()
    offer = cli(world, "watched", "qr", "issue")
    watch = cli.start(world, "watched", "qr", "watch")
    # It has read which code to watch, which the sign-in makes the profile forget.
    begun = watch.stdout.readline()
    scan = phone.scan(offer["qr_payload"])
    phone.confirm(scan, offer["check_code"])
    assert cli(world, "watched", "qr", "wait")["state"] == "signed-in"
    out, err = watch.communicate(timeout=20)
    assert watch.returncode == 0, err
    out = begun + out
    decoder, states = json.JSONDecoder(), []
    while out.strip():
        state, end = decoder.raw_decode(out.lstrip())
        states.append(state["state"])
        out = out.lstrip()[end:]
    assert states[-1] == "consumed" and set(states) <= {"pending", "scanned", "agreed", "consumed"}


def test_sign_in_page(world):
    """S4, S23: the sign-in page shows a code, and a browser gets script and style from the same origin only"""
    base = f"http://{world.target('qr')}"

    def fetch(path, body=None):
        request = urllib.request.Request(base + path, data=body and json.dumps(body).encode())
        request.add_header("content-type", "application/json")
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.headers, answer.read()

    headers, page = fetch("/signin")
    assert "script-src 'self'" in headers["content-security-policy"] and b"/signin/screen.js" in page
    assert fetch("/signin/screen.js")[0]["content-type"].startswith("text/javascript")
    assert fetch("/signin/screen.css")[0]["content-type"].startswith("text/css")
    verifier = base64url(hashlib.sha256(b"page").digest())
    challenge = base64url(hashlib.sha256(verifier.encode()).digest())
    code = json.loads(fetch("/signin/code", {"code_challenge": challenge})[1])
    phone = world.account("grace@example.net")
    phone.confirm(phone.scan(code["qr_payload"]))
    state = json.loads(fetch("/signin/poll", {"device_code": code["device_code"], "wait_ms": 1000, "last_version": 2})[1])
    assert state["state"] == "confirmed" and state["scanner_mask"].startswith("g") and "tokens" not in state
    done = json.loads(fetch("/signin/poll", {"device_code": code["device_code"], "code_verifier": verifier})[1])
    assert phone.introspect(done["tokens"]["access_token"]).active
