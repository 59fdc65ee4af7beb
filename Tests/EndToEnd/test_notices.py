"""What owners are told of their accounts, by a gateway that answers or does not, and services that are killed."""

import http.server
import json
import threading
import time

import pytest
import services
import stored
from latchkey.identity.v1 import (
    account_service_pb2,
    account_service_pb2_grpc,
    auth_service_pb2,
    link_service_pb2,
    link_service_pb2_grpc,
)
from moved_clock import MovedClock
from world import CLIENT_ID, PASSWORD, UNTHROTTLED, World, bearer, unique_identifier

NEW_PASSWORD = "a better horse battery"
# The Swift side's `noticeDeliveries` and the first lease of its NoticePolicy, in seconds.
DELIVERIES = 2
FIRST_LEASE = 60


class Gateway:
    """Takes codes; of notices it notes each try, and takes or holds them."""

    def __init__(self):
        self.codes, self.tried, self.taken = {}, [], []
        self.open = threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                message = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if "code" in message:
                    outer.codes[message["to"]] = message["code"]
                else:
                    key = self.headers["idempotency-key"]
                    assert key == message["id"]
                    outer.tried.append((message["to"], key))
                    outer.open.wait()
                    outer.taken.append((message["to"], message["notice"], key))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server.server_port}/messages"

    def close(self):
        self.open.set()
        self.server.shutdown()
        self.server.server_close()


def eventually(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.01)


@pytest.fixture
def gateway():
    gateway = Gateway()
    yield gateway
    gateway.close()


@pytest.fixture
def told(binaries, tmp_path, gateway):
    secret = tmp_path / "webhook-secret"
    secret.write_bytes(b"a secret that both sides know")
    secret.chmod(0o600)
    webhook = ["--otp-email", "webhook", "--webhook-url", gateway.address, "--webhook-secret-file", str(secret)]
    clock = MovedClock(tmp_path)
    arguments = UNTHROTTLED | {"identity": [*UNTHROTTLED.get("identity", []), *webhook]}
    fleet = services.Fleet(binaries, tmp_path, arguments=arguments)
    fleet.environment = clock.environment
    with fleet:
        world = World(fleet)
        world.clock = clock
        yield world
        world.close()


def owner(world, gateway):
    """Somebody with a verified address."""
    address = unique_identifier()
    sent = world.auth.SendOtp(
        auth_service_pb2.SendOtpRequest(
            client_id=CLIENT_ID, identifier=address, purpose=auth_service_pb2.OTP_PURPOSE_PROVE_ADDRESS
        ),
        timeout=10,
    )
    eventually(lambda: address in gateway.codes)
    request = auth_service_pb2.RegisterRequest(
        client_id=CLIENT_ID,
        password=auth_service_pb2.PasswordCredential(identifier=address, password=PASSWORD),
        otp=auth_service_pb2.OtpCredential(identifier=address, code=gateway.codes[address], handle=sent.handle),
    )
    return address, world.auth.Register(request, timeout=20).tokens


def waiting_notices(world):
    """How many are written down and not known to be taken."""
    return stored.number(world.fleet, "identity", "SELECT count(*) FROM notices")


def change_password(world, tokens):
    accounts = account_service_pb2_grpc.AccountServiceStub(world.channel("identity"))
    request = account_service_pb2.ChangePasswordRequest(password=PASSWORD, new_password=NEW_PASSWORD)
    accounts.ChangePassword(request, metadata=bearer(tokens.access_token), timeout=20)


@pytest.mark.usefixtures("engine")
def test_R48_a_thief_who_changes_the_way_in_is_not_the_one_who_is_told(told, gateway):
    """R48: with a stolen session, fresh, a thief links an address of theirs and takes the owner's away: the owner is told."""
    gateway.open.set()
    address, tokens = owner(told, gateway)
    links = link_service_pb2_grpc.LinkServiceStub(told.channel("identity"))
    stolen = {"metadata": bearer(tokens.access_token), "timeout": 20}
    thiefs = unique_identifier()
    sent = told.auth.SendOtp(
        auth_service_pb2.SendOtpRequest(
            client_id=CLIENT_ID, identifier=thiefs, purpose=auth_service_pb2.OTP_PURPOSE_PROVE_ADDRESS
        ),
        timeout=10,
    )
    eventually(lambda: thiefs in gateway.codes)
    code = auth_service_pb2.OtpCredential(identifier=thiefs, code=gateway.codes[thiefs], handle=sent.handle)
    before = links.ListIdentities(link_service_pb2.ListIdentitiesRequest(), **stolen).identities
    assert links.LinkIdentity(link_service_pb2.LinkIdentityRequest(otp=code, password=PASSWORD), **stolen).linked
    eventually(lambda: gateway.taken)
    assert [taken[:2] for taken in gateway.taken] == [(address, "identity_linked")]
    unlink = link_service_pb2.UnlinkIdentityRequest(identity_id=before[0].identity_id, password=PASSWORD)
    links.UnlinkIdentity(unlink, **stolen)
    eventually(lambda: len(gateway.taken) == 3)
    assert {taken[:2] for taken in gateway.taken[1:]} == {(address, "identity_unlinked"), (thiefs, "identity_unlinked")}


@pytest.mark.usefixtures("engine")
def test_R48_a_kill_between_a_change_and_its_notice_loses_no_notice(told, gateway):
    """R48: identity is killed after a change and before its notice: whether it was on its way or not, the owner is told."""
    people = [owner(told, gateway) for _ in range(DELIVERIES + 1)]
    for number, (_, tokens) in enumerate(people, 1):
        change_password(told, tokens)
        eventually(lambda number=number: len(gateway.tried) == min(number, DELIVERIES))
    under_way, waiting = [address for address, _ in people[:DELIVERIES]], people[-1][0]
    assert [address for address, _ in gateway.tried] == under_way
    tried = dict(gateway.tried)
    told.fleet["identity"].kill()
    gateway.open.set()
    # What the gateway had taken and could not say; the ones of now come after.
    eventually(lambda: len(gateway.taken) == DELIVERIES)
    told.fleet["identity"].start()

    eventually(lambda: len(gateway.taken) == DELIVERIES + 1)
    assert gateway.taken[-1][:2] == (waiting, "password_changed")
    told.clock.move(FIRST_LEASE + 1)
    eventually(lambda: len(gateway.taken) == 2 * DELIVERIES + 1)
    # Those that were under way come again, and are recognised.
    assert {(address, key) for address, _, key in gateway.taken[-DELIVERIES:]} == set(tried.items())

    # What was taken is not sent again, by the next process either.
    eventually(lambda: waiting_notices(told) == 0)
    told.fleet["identity"].restart()
    told.clock.move(2 * FIRST_LEASE)
    address, tokens = owner(told, gateway)
    change_password(told, tokens)
    eventually(lambda: gateway.taken[-1][0] == address)
    assert len(gateway.taken) == 2 * DELIVERIES + 2
