"""What may be guessed, at two instances over one PostgreSQL: together they look at no more guesses than one does. The clock of the
database and of the services stands still meanwhile, so that no try is earned back by how long a test takes."""

import collections
import concurrent.futures
import json
import pathlib
import shutil
import tempfile
import threading
import time

import grpc
import postgresql
import pytest
from latchkey.identity.v1 import auth_service_pb2, link_service_pb2
from latchkey.qr.v1 import qr_session_service_pb2 as pb
from moved_clock import MovedClock
from test_instances_work import patiently
from test_methods import Scene, authenticate, key_proof, link, send
from test_qr_limits import at
from waiting import eventually
from world import CLIENT_ID, PASSWORD, TRUSTING, UNTHROTTLED, Failure, World, is_away, unique_identifier

# The tenth wrong pattern in a row is the last (Domain's PatternTries), with waits of at most five minutes in between.
PATTERNS, LONGEST_WAIT = 10, 300
# Before another code is sent (OneTimeCodePolicy).
RESEND_AFTER = 60

# Cheap hashes: what is tried here is not their strength.
CHEAP_PASSWORDS = ["--password-memory-kib", "8192", "--password-passes", "1"]

RIGHT = (grpc.StatusCode.OK, None)
WRONG = (grpc.StatusCode.UNAUTHENTICATED, "INVALID_CREDENTIALS")
WAIT = (grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_ATTEMPTS")
VOID = (grpc.StatusCode.UNAUTHENTICATED, "CODE_VOID")


@pytest.fixture(scope="module")
def clock():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="lkclock-"))
    # The database is another user's.
    folder.chmod(0o755)
    yield MovedClock(folder)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def server(clock):
    server = postgresql.PostgreSQL(environment=clock.environment)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def both(binaries, tmp_path_factory, server, clock):
    """Two instances of each service behind a proxy that says who calls, as two worlds; codes take the screen's digits."""
    folder = tmp_path_factory.mktemp("guesses")
    arguments = {"*": TRUSTING, "identity": CHEAP_PASSWORDS, "qr": [*UNTHROTTLED["qr"], "--confirm-check-code", "always"]}
    fleet = postgresql.fleet(binaries, folder / "fleet", server, arguments, instances=2)
    fleet.environment = clock.environment
    with fleet:
        world = World(fleet)
        yield world, world.at(2)


class Password:
    """Of an account whose owner signed in from the network that guesses."""

    # How many wrong ones in a row are looked at (AttemptPolicy), what is said of each of them, and what of those beyond.
    most = 10
    looked_at = WRONG
    refused = {WAIT}

    def __init__(self, world):
        self.account = patiently(world.account)
        self.right = PASSWORD

    def wrong(self, number):
        return f"guess number {number}"

    def metadata(self, number):
        return ()

    def present(self, world, secret, number):
        credential = auth_service_pb2.PasswordCredential(identifier=self.account.identifier, password=secret)
        request = auth_service_pb2.AuthenticateRequest(client_id=CLIENT_ID, password=credential)
        world.auth.Authenticate(request, metadata=self.metadata(number), timeout=60)


class StrangersPassword(Password):
    """Guessed from networks that nobody knows: each of them has ten tries, and all together have fifty."""

    most = 50

    def metadata(self, number):
        return at(number // 10)


class Pattern:
    """Guessed with the key of the device that it was made on."""

    most = 3
    looked_at = WRONG
    refused = {WAIT}

    def __init__(self, world):
        self.device = patiently(world.account)
        self.right = "0-4-8-5-2-1"

        def enrol():
            scene = Scene(world, None, None, None)
            proof = key_proof(scene, self.device, self.device.key, "latchkey-enrol-pattern-v1")
            return link(scene, self.device, pattern=link_service_pb2.PatternEnrolment(proof=proof, pattern=self.right))

        assert patiently(enrol).linked

    def wrong(self, number):
        return f"{self.right}-{number}"

    def present(self, world, secret, number):
        scene = Scene(world, None, None, None)
        proof = key_proof(scene, self.device, self.device.key, "latchkey-pattern-v1")
        authenticate(scene, pattern=auth_service_pb2.PatternCredential(proof=proof, pattern=secret))


class OneTimeCode:
    """Sent to an address that its owner has shown to be theirs, to the network that they signed in from."""

    most = 5
    looked_at = (grpc.StatusCode.UNAUTHENTICATED, "CODE_INVALID")
    # A guess at a code without tries counts for the account, which is told to wait after ten.
    refused = {VOID, WAIT}

    def __init__(self, world):
        self.identifier = unique_identifier()
        self.send(world, auth_service_pb2.OTP_PURPOSE_PROVE_ADDRESS)
        credential = auth_service_pb2.OtpCredential(identifier=self.identifier, code=self.right)
        request = auth_service_pb2.RegisterRequest(client_id=CLIENT_ID, otp=credential)
        patiently(lambda: world.auth.Register(request, timeout=20))
        self.send(world)

    def send(self, world, purpose=auth_service_pb2.OTP_PURPOSE_UNSPECIFIED):
        before = len(self.sent(world))
        patiently(lambda: send(Scene(world, None, None, None), self.identifier, purpose))
        self.right = eventually(lambda: self.sent(world)[before:], "no code is sent")[0]

    def sent(self, world):
        """The codes that an instance has sent here."""
        name = "identity" if world.instance == 1 else f"identity-{world.instance}"
        outbox = world.fleet[name].data_directory / "otp-outbox.jsonl"
        messages = [json.loads(line) for line in outbox.read_text().splitlines()] if outbox.exists() else []
        return [message["code"] for message in messages if message["to"] == self.identifier and "code" in message]

    def wrong(self, number):
        return f"{(int(self.right) + 1 + number) % 1_000_000:06}"

    def present(self, world, secret, number):
        credential = auth_service_pb2.OtpCredential(identifier=self.identifier, code=secret)
        authenticate(Scene(world, None, None, None), otp=credential)


class CheckCode:
    """Of a code that a phone has scanned."""

    most = 1
    looked_at = (grpc.StatusCode.PERMISSION_DENIED, "CHECK_CODE_WRONG")
    # The code is over.
    refused = {(grpc.StatusCode.NOT_FOUND, None)}

    def __init__(self, world):
        self.phone = patiently(world.account)
        code = patiently(world.device().issue_qr)
        self.scan = patiently(lambda: self.phone.scan(code.qr_payload))
        assert self.scan.needs_check_code
        self.right = code.check_code

    def wrong(self, number):
        return f"{(int(self.right) + 1 + number) % 100:02}"

    def present(self, world, secret, number):
        request = pb.ConfirmSessionRequest(confirm_ticket=self.scan.confirm_ticket, check_code=secret)
        world.qr.ConfirmSession(request, metadata=self.phone.metadata, timeout=30)


def came_of(target, world, secret, number=0):
    """What an instance says of a guess. One that it has no time to look at, or is away for, is made again and counts once."""
    end = time.monotonic() + 60
    while True:
        try:
            target.present(world, secret, number)
            return RIGHT
        except grpc.RpcError as error:
            if not is_away(error) or time.monotonic() > end:
                return error.code(), Failure(error).reason
        time.sleep(0.05)


def guess_in_turn(both, target, count):
    for number in range(count):
        assert came_of(target, both[number % 2], target.wrong(number), number) == target.looked_at, f"guess {number}"


def later(both, clock, seconds):
    """Moves the clock, until both instances sign tokens again: a session that began while they did not has no answer."""
    clock.move(seconds)
    for world in both:
        patiently(world.device().start_as_guest)


KINDS = pytest.mark.parametrize("kind", [OneTimeCode, Pattern, Password, StrangersPassword, CheckCode])


@KINDS
def test_in_turn(both, kind):
    """C8: guesses at two instances in turn are looked at as often as at one, and then what is right is refused at both"""
    target = kind(both[0])
    last = kind.most - 1
    guess_in_turn(both, target, last)
    assert came_of(target, both[last % 2], target.right, last) == RIGHT
    target = kind(both[0])
    guess_in_turn(both, target, kind.most)
    for world in both:
        assert came_of(target, world, target.right, kind.most) in kind.refused


@KINDS
def test_at_once(both, kind):
    """C8: of guesses that come to two instances at once as many are looked at as at one, and what is right is refused at both"""
    count = kind.most + 10
    # Where a single one is looked at, two that meet are rare.
    for _ in range(8 if kind.most == 1 else 1):
        target, start = kind(both[0]), threading.Barrier(count)

        def guess(number):
            start.wait()
            return came_of(target, both[number % 2], target.wrong(number), number)

        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            outcomes = collections.Counter(pool.map(guess, range(count)))
        assert outcomes[kind.looked_at] == kind.most, outcomes
        assert set(outcomes) <= {kind.looked_at, *kind.refused}, outcomes
        for world in both:
            assert came_of(target, world, target.right, kind.most) in kind.refused


def test_new_codes(both, clock):
    """C8: an account for which new codes are sent has no more tries at two instances than at one"""
    target = OneTimeCode(both[0])
    guess_in_turn(both, target, 5)
    later(both, clock, RESEND_AFTER)
    target.send(both[1])
    guess_in_turn(both, target, 5)
    for world in both:
        assert came_of(target, world, target.right) == WAIT


def test_last_pattern(both, clock):
    """C8: the tenth wrong pattern in a row is the last, whichever instances look at them, and then the right one is worth nothing"""

    def guessed(count):
        target = Pattern(both[0])
        for number in range(count):
            assert came_of(target, both[number % 2], target.wrong(number)) == WRONG, f"guess {number}"
            clock.move(LONGEST_WAIT)
        later(both, clock, LONGEST_WAIT)
        return target

    target = guessed(PATTERNS - 1)
    # It has all its tries again.
    for world in (both[1], both[0], both[1]):
        assert came_of(target, world, target.right) == RIGHT
    target = guessed(PATTERNS)
    for world in both:
        assert came_of(target, world, target.right) == WRONG
        clock.move(LONGEST_WAIT)
