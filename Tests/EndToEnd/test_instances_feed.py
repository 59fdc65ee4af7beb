"""What instances over one PostgreSQL know of each other: sessions that ended, numbers, and whose clock is wrong."""

import contextlib
import copy
import json
import threading
import time
import urllib.error
import urllib.request

import database_proxy
import grpc
import moved_clock
import postgresql
import proofs
import pytest
import test_proofs
import test_revocation
from latchkey.identity.v1 import auth_service_pb2, session_service_pb2, session_service_pb2_grpc
from latchkey.migration.v1 import record_service_pb2_grpc
from waiting import eventually, expect_prompt
from world import CLIENT_ID, UNTHROTTLED, World, is_overloaded, refused


# Where the second migrator says that others reach it.
ELSEWHERE = "migrator-2.internal:7403"

server = postgresql.serving("module")


@pytest.fixture
def proxy(server):
    proxy = database_proxy.DatabaseProxy(server.port)
    yield proxy
    proxy.stop()


@pytest.fixture
def pair(binaries, tmp_path, server, proxy):
    """Two instances of each service; the second of QR and migrator listens to the second of identity, whose way to the
    database is the proxy's."""
    fleet = postgresql.fleet(binaries, tmp_path / "fleet", server, UNTHROTTLED, instances=2)
    url = server.url("identity").replace(f":{server.port}/", f":{proxy.port}/")
    fleet.arguments["identity-2"] = ["--storage-url", url]
    for name in ("qr-2", "migrator-2"):
        fleet.arguments[name] = [*fleet.arguments.get(name, []), "--identity-address", fleet["identity-2"].address]
    fleet.arguments["migrator-2"] += ["--instance-address", ELSEWHERE]
    with fleet:
        yield World(fleet)


def ask_identity(device):
    stub = session_service_pb2_grpc.SessionServiceStub(device.world.channel("identity"))
    stub.ListSessions(session_service_pb2.ListSessionsRequest(), metadata=device.metadata, timeout=10)


ASKS = {"identity": ask_identity, "qr": test_revocation.ask_qr, "migrator": test_revocation.ask_migrator}


def as_seen_at(world, device):
    """The same person with the same tokens, at another instance."""
    twin = world.device()
    twin.tokens = device.tokens
    return twin


def refusal(ask, device):
    """Nil where the session is let in, whatever else the call comes to."""
    try:
        ask(device)
    except grpc.RpcError as error:
        if error.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNAVAILABLE):
            return error.code()
    return None


def is_let_in(ask, device):
    """Whether it surely is: nobody is who was refused for there being too much to do, or had no answer."""
    try:
        ask(device)
    except grpc.RpcError as error:
        no = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
        return error.code() not in no and not is_overloaded(error)
    return True


def expect_let_in(device):
    """Everywhere, and refused nowhere: a service that was not heard of for a while may say that it does not know."""

    def is_in():
        found = {refusal(ask, device) for ask in ASKS.values()}
        assert found <= {None, grpc.StatusCode.UNAVAILABLE}, found
        return found == {None}

    eventually(is_in, "the session is not let in", seconds=10)


def seconds_until_refused(world, device):
    """At each service of an instance, from now on until it is asked by a call that it refuses."""
    start, left, took = time.monotonic(), dict(ASKS), {}
    while left:
        for name, ask in list(left.items()):
            asked = time.monotonic()
            if refusal(ask, device) == grpc.StatusCode.UNAUTHENTICATED:
                took[name] = asked - start
                del left[name]
        assert time.monotonic() < start + 30, f"still let in by {list(left)}"
    return took


def test_revoked_elsewhere(pair):
    """C6: a session that is revoked at one instance is refused by identity, QR and migrator of the other within a second"""
    other = pair.at(2)
    times = {name: [] for name in ASKS}
    for _ in range(12):
        device = pair.account()
        twin = as_seen_at(other, device)
        expect_let_in(twin)
        test_revocation.revoke(pair, device)
        for name, seconds in seconds_until_refused(other, twin).items():
            times[name].append(seconds)
    for name in ASKS:
        expect_prompt(times[name], 1)


@pytest.mark.parametrize("is_made", [True, False])
def test_unanswered_revocation(pair, proxy, is_made):
    """C6: a revocation whose commit is not answered holds at both instances, whether it was made at once or not"""
    other = pair.at(2)
    proxy.delivers_lost = is_made
    for _ in range(4):
        device = pair.account()
        twin = as_seen_at(other, device)
        expect_let_in(twin)
        proxy.commits_to_lose = 1
        other.auth.Revoke(auth_service_pb2.RevokeRequest(token=device.tokens.refresh_token), timeout=30)
        # Now and then another commit is lost than this.
        eventually(lambda: proxy.commits_to_lose == 0, "nothing was committed")
        took = seconds_until_refused(other, twin)
        print("refused where it was asked for after", {name: f"{seconds:.2f} s" for name, seconds in took.items()})
        seconds_until_refused(pair, device)
    assert proxy.lost == 4


def readiness(service):
    try:
        with urllib.request.urlopen(service.page_url("/readyz"), timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_deaf_instance(pair, proxy):
    """C6: an instance whose database says nothing is not ready and lets nobody in, nor do those who listen to it; once it
    hears again it knows what ended meanwhile"""
    other = pair.at(2)
    living, ended = pair.account(), pair.account()
    twin, ended_twin = as_seen_at(other, living), as_seen_at(other, ended)
    expect_let_in(twin)
    proxy.open.clear()
    with contextlib.ExitStack() as heal:
        heal.callback(proxy.open.set)
        test_revocation.revoke(pair, ended)
        silent = time.monotonic()
        for name, ask in (("qr", ASKS["qr"]), ("migrator", ASKS["migrator"])):
            eventually(lambda ask=ask: refusal(ask, twin) == grpc.StatusCode.UNAVAILABLE, f"{name} goes on letting in")
            print(f"{name} lets nobody in after {time.monotonic() - silent:.1f} s")
        eventually(lambda: readiness(pair.fleet["identity-2"])[0] == 503, "the deaf instance is ready")
        text = readiness(pair.fleet["identity-2"])[1]
        assert "not known" in text or "database" in text, text
        expect_let_in(living)
    eventually(lambda: readiness(pair.fleet["identity-2"])[0] == 200, "the instance does not come back")
    for name, ask in ASKS.items():
        def comes_back(ask=ask):
            # Never once let in in between.
            assert not is_let_in(ask, ended_twin)
            return is_let_in(ask, twin)

        def knows_the_end(ask=ask):
            assert not is_let_in(ask, ended_twin)
            return refusal(ask, ended_twin) == grpc.StatusCode.UNAUTHENTICATED

        eventually(comes_back, f"{name} does not come back", longest=0.01)
        eventually(knows_the_end, f"{name} does not know what ended")


def test_proofs_taken_elsewhere(pair):
    """C9: a proof of possession that one instance took is refused by the other, and each takes only those made for it"""
    other = pair.at(2)
    request = auth_service_pb2.AuthenticateRequest(client_id=CLIENT_ID)
    stranger = pair.device()
    nonce = test_proofs.nonce_of(
        lambda proof: pair.auth.Authenticate(request, metadata=(("dpop", proof),), timeout=20),
        proofs.make(stranger.key, f"https://x{test_proofs.AUTHENTICATE}"),
    )
    bound = test_proofs.Bound(pair, nonce)
    twin = copy.copy(bound)
    twin.sessions = session_service_pb2_grpc.SessionServiceStub(other.channel("identity"))
    twin.records = record_service_pb2_grpc.RecordServiceStub(other.channel("migrator"))
    for method, here, there in (
        (test_proofs.SESSIONS, bound.list_sessions, twin.list_sessions),
        (test_proofs.RECORDS, bound.list_records, twin.list_records),
    ):
        for call, elsewhere in ((here, there), (there, here)):
            proof = bound.proof(method, test_proofs.nonce_of(call, bound.proof(method)))
            call(proof)
            for again in (elsewhere, call):
                with refused(grpc.StatusCode.UNAUTHENTICATED):
                    again(proof)


def numbers(service):
    """One for each start, as the log says."""
    lines = [line for line in service.log_path.read_text().splitlines() if "this instance has a number" in line]
    return [int(json.loads(line)["instance"]) for line in lines]


def test_numbers(pair, server):
    """Every instance of a service has a number of its own, and one that is killed and started again has another"""
    for name in postgresql.SERVICES:
        first, second = pair.fleet[name], pair.fleet[f"{name}-2"]
        (one,), (other,) = numbers(first), numbers(second)
        second.restart()
        assert len({one, other, numbers(second)[1]}) == 3
        schema = "migration" if name == "migrator" else name
        rows = server.query(f"SELECT instance, address FROM {schema}.members").splitlines()
        place = ELSEWHERE if name == "migrator" else second.address
        assert {f"{one}|{first.address}", f"{numbers(second)[1]}|{place}"} <= set(rows)


class RunningClock:
    """A moved clock that runs, by so many seconds ahead: from when they are set."""

    def __init__(self, clock):
        self.clock = clock
        self.lock = threading.Lock()
        self.ahead = 0
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.stopped.wait(0.01):
            with self.lock:
                self.clock.set(time.time() + self._ahead)

    @property
    def ahead(self):
        return self._ahead

    @ahead.setter
    def ahead(self, seconds):
        with self.lock:
            self._ahead = seconds
            self.clock.set(time.time() + seconds)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.thread.join()


def test_clock(binaries, tmp_path, server):
    """C13: an instance whose clock is off by more than a second is not ready and says by how much, until it is right"""
    fleet = postgresql.fleet(binaries, tmp_path / "fleet", server, {})
    clock = moved_clock.MovedClock(tmp_path)
    fleet.environment = clock.environment
    service = fleet["identity"]

    def says(status, text):
        def holds():
            with contextlib.suppress(urllib.error.URLError):
                found = readiness(service)
                return found[0] == status and text in found[1]
            return False

        eventually(holds, f"/readyz does not say {status} {text}: {service.log_tail()}")

    # It stands still, and is ever later.
    service.start(wait=False)
    try:
        says(503, "s behind the database's")
        with RunningClock(clock) as running:
            says(200, "")
            running.ahead = 3
            says(503, "s ahead of the database's")
            print(readiness(service)[1].strip())
            running.ahead = 0
            says(200, "")
    finally:
        service.stop()
