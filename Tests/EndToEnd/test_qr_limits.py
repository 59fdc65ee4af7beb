"""The limits of the QR service against somebody who tries them: the clock stands still meanwhile, so that nothing is earned
back by how long the test takes."""

import secrets

import grpc
import pytest
import services
from latchkey.qr.v1 import qr_session_service_pb2 as pb
from moved_clock import MovedClock
from world import CLIENT_ID, TRUSTING, Failure, World, base64url, refused

pytestmark = pytest.mark.usefixtures("engine")

CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
# What a network may type wrongly in a code's life (QRSessionService's Limits).
TYPED_BY_NETWORK = 20


@pytest.fixture
def limited(binaries, tmp_path):
    """The services with their own limits, behind a proxy that says who calls."""
    clock = MovedClock(tmp_path)
    few = ["--limits-issues-per-minute", "60", "--limits-outstanding-codes", "70"]
    fleet = services.Fleet(binaries, tmp_path, arguments={"*": TRUSTING, "qr": few})
    fleet.environment = clock.environment
    with fleet:
        world = World(fleet)
        world.clock = clock
        yield world
        world.close()


def at(network):
    """As a proxy in front says it."""
    return (("x-forwarded-for", f"203.0.{network}.7"),)


def issue(world, network):
    request = pb.IssueSessionRequest(
        client_id=CLIENT_ID, purpose=pb.PURPOSE_LOGIN, code_challenge=CHALLENGE, code_challenge_method="S256"
    )
    return world.qr.IssueSession(request, metadata=at(network), timeout=10)


def scan(world, phone, network, **code):
    return world.qr.ScanSession(pb.ScanSessionRequest(**code), metadata=(*phone.metadata, *at(network)), timeout=10)


def tries(call, most):
    """How often the call goes through or is looked at before it is refused for being made too often; None if it never is."""
    for number in range(most):
        try:
            call()
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED:
                assert Failure(error).retry_after, "nobody is told when to come back"
                return number
    return None


def test_codes_asked_for(limited):
    """S13: a network has so many codes a minute and so many on screens, and what it spends keeps nobody else waiting"""
    assert tries(lambda: issue(limited, 1), 100) == 60
    assert scan(limited, limited.account(), 2, qr_payload=issue(limited, 2).qr_payload).confirm_ticket
    # A minute later it may ask again, until its screens are full: the lives of the first ones are half over.
    limited.clock.move(60)
    assert 40 <= tries(lambda: issue(limited, 1), 100) < 60
    issue(limited, 2)
    # And once their lives are over, as before.
    limited.clock.move(120)
    issue(limited, 1)


def test_codes_scanned(limited):
    """S13: an account scans so many wrong codes a minute, and so many in all; another account goes on"""
    thief, phone = limited.account(), limited.account()
    payload = issue(limited, 1).qr_payload
    wrong = payload.rsplit("/", 1)[0] + "/" + base64url(secrets.token_bytes(16))
    assert tries(lambda: scan(limited, thief, 1, qr_payload=wrong), 60) == 30
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED):
        scan(limited, thief, 1, qr_payload=payload)
    limited.clock.move(61)
    assert tries(lambda: scan(limited, phone, 1, qr_payload=issue(limited, 3).qr_payload), 100) == 60


def test_codes_typed(limited):
    """S27: however many accounts type from one network, it has twenty wrong codes in a code's life; others go on"""
    looked_at = 0
    for _ in range(6):
        thief = limited.account()
        looked_at += tries(lambda phone=thief: scan(limited, phone, 1, user_code="BCDF-GHJK"), 10)
    assert looked_at == TYPED_BY_NETWORK
    # A fresh account of the same network is refused at once, right code or not; the code's owner at home is not.
    code = issue(limited, 2)
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED):
        scan(limited, limited.account(), 1, user_code=code.user_code)
    assert scan(limited, limited.account(), 2, user_code=code.user_code).confirm_ticket


@pytest.mark.parametrize("hidden", ["\u200d", "\ufe0f", "\ufffc", "\u2060", "\u0378", "\U000e0100", "\u00ad"])
def test_nothing_hidden_on_a_phone(world, hidden):
    """S29: joiners, variation selectors, objects, unassigned and format characters are in no text that a phone shows"""
    request = pb.IssueSessionRequest(
        client_id=CLIENT_ID, purpose=pb.PURPOSE_CONFIRM_ACTION, code_challenge=CHALLENGE, code_challenge_method="S256",
        action=pb.Action(text=f"Pay{hidden}Shop", amount="1", currency="EUR"),
    )  # fmt: skip
    with refused(grpc.StatusCode.INVALID_ARGUMENT, field="action.text"):
        world.qr.IssueSession(request, timeout=10)


@pytest.mark.parametrize("amount, currency, holds", [
    ("1.5", "JPY", False), ("1.50", "JPY", False), ("15", "JPY", True), ("1.5", "EUR", False), ("1.50", "EUR", True),
    ("1.500", "EUR", False), ("1.500", "KWD", True), ("1.50", "KWD", False), ("7", "EUR", True),
])  # fmt: skip
def test_amounts_of_currencies(world, amount, currency, holds):
    """S29: an amount has its currency's digits, or none after the point"""
    request = pb.IssueSessionRequest(
        client_id=CLIENT_ID, purpose=pb.PURPOSE_CONFIRM_ACTION, code_challenge=CHALLENGE, code_challenge_method="S256",
        action=pb.Action(text="Pay the shop", amount=amount, currency=currency),
    )  # fmt: skip
    if holds:
        world.qr.IssueSession(request, timeout=10)
    else:
        with refused(grpc.StatusCode.INVALID_ARGUMENT, field="action.amount"):
            world.qr.IssueSession(request, timeout=10)


def test_polls_are_slowed(limited):
    """R37: who polls faster than the interval, or guesses at the verifier, is told to slow down; the screen itself is not"""
    phone, screen = limited.account(), limited.device()
    screen.issue_qr()
    screen.poll()
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, reason="slow_down"):
        screen.poll()
    phone.confirm(phone.scan(screen.code.qr_payload))

    def guess():
        request = pb.PollSessionRequest(
            device_code=screen.code.device_code, code_verifier=base64url(secrets.token_bytes(32))
        )
        limited.qr.PollSession(request, timeout=10)

    told = []
    for _ in range(20):
        with pytest.raises(grpc.RpcError) as error:
            guess()
        told.append(Failure(error.value).reason)
    assert told[0] == "invalid_grant" and set(told[5:]) == {"slow_down"}
    # The screen polled a moment ago too.
    assert screen.poll().tokens.access_token
