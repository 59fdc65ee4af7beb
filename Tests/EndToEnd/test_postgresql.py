"""The services over PostgreSQL, real and killable: the flows of the story, and what an outage does to them."""

import math
import threading
import time
import urllib.error
import urllib.request

import grpc
import postgresql
import pytest
import services
import test_merges
import test_qr_flows
from latchkey.qr.v1 import qr_session_service_pb2 as pb
from waiting import eventually
from world import UNTHROTTLED, World, record

# What one service may have of the database.
POOL = 8

server = postgresql.serving()


@pytest.fixture
def pg_world(binaries, tmp_path, server):
    with postgresql.fleet(binaries, tmp_path / "fleet", server, UNTHROTTLED) as fleet:
        yield World(fleet)


def readiness(service):
    try:
        with urllib.request.urlopen(service.page_url("/readyz"), timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def sign_in(phone, screen):
    """A code from its picture to its tokens."""
    code = screen.issue_qr()
    scan = phone.scan(code.qr_payload)
    phone.confirm(scan, code.check_code)
    return screen.poll().tokens


def test_flows(pg_world, server):
    """A guest, an account, a sign-in by QR code and a merge work over PostgreSQL, and no file holds their rows"""
    world = pg_world
    guest = world.device()
    assert guest.start_as_guest().created and not guest.start_as_guest().created
    phone, screen = world.account(), world.device()
    tokens = sign_in(phone, screen)
    assert phone.introspect(tokens.access_token).active
    phone.refresh()
    guest_rows = [record("cart", f"k{number}", b"guest", number) for number in range(300)]
    account_rows = [record("cart", f"k{number}", b"account", 1) for number in range(200, 400)]
    second, _, merge = test_merges.merged(world, guest_rows, account_rows)
    assert len(second.rows("cart")) == 400
    assert test_merges.undo(world, second, merge).begun
    for name in postgresql.SERVICES:
        file = {"identity": "identity.db", "qr": "qr.db", "migrator": "migrator.db"}[name]
        assert not (world.fleet.data_directory / file).exists()
    # A connection that is made anew is missing for a moment.
    eventually(lambda: server.connections() == {f"latchkey-{name}": POOL for name in postgresql.SERVICES})


def test_kills(pg_world):
    """S5: over PostgreSQL as well, whichever service is killed at whichever step, a code ends in one live sign-in"""
    test_qr_flows.test_kills(pg_world)


class Visitors:
    """People who start as guests and sign in by codes, one after the other, until they are told to stop, with a `pause` of
    so many seconds between them."""

    def __init__(self, world, pause=0):
        self.world, self.pause = world, pause
        self.answered = []
        self.refused = []
        self.other = []
        self.stopped = threading.Event()
        self.threads = [threading.Thread(target=self.visit) for _ in range(4)]

    def visit(self):
        while not self.stopped.is_set():
            device = self.world.device()
            try:
                code = device.issue_qr()
                device.start_as_guest()
                self.answered.append((time.monotonic(), device, code))
                self.stopped.wait(self.pause)
            except grpc.RpcError as error:
                away = error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)
                (self.refused if away else self.other).append((time.monotonic(), error))
                time.sleep(0.05)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        for thread in self.threads:
            thread.join()


def outage(world, server, screen):
    """Ten seconds without the database and twelve with it, or as many as all connections take to come back: when it went, when
    it was back, and the most connections of each service since."""
    server.kill()
    gone = time.monotonic()
    while time.monotonic() < gone + 10:
        assert screen.poll().state == pb.SESSION_STATE_PENDING
        time.sleep(0.2)
    for service in map(world.fleet.__getitem__, postgresql.SERVICES):
        status, text = readiness(service)
        assert status == 503 and "database" in text, (service.name, text)
    server.start()
    back = time.monotonic()
    most = {}
    while time.monotonic() < back + 12 or (sum(most.values()) < 3 * POOL and time.monotonic() < back + 30):
        for name, count in server.connections().items():
            most[name] = max(count, most.get(name, 0))
        time.sleep(0.05)
    assert max(most.values()) <= POOL, most
    return gone, back, most


def test_database_killed(pg_world, server):
    """C17: PostgreSQL killed under load and back after ten seconds: the services stay up, polls go on, nothing acknowledged is
    lost, they are served again within five seconds, and no pool has more than its eight connections"""
    world = pg_world
    phone, screen = world.account(), world.device()
    screen.issue_qr()
    processes = {name: service.process.pid for name, service in world.fleet.services.items()}
    with Visitors(world) as visitors:
        time.sleep(1)
        eventually(lambda: visitors.answered, "nobody is served")
        # Once more where the machine may have stood still.
        for _ in range(2):
            gone, back, most = outage(world, server, screen)
            after = min((visit[0] for visit in visitors.answered if visit[0] > back), default=math.inf) - back
            print(f"served again after {after:.1f} s, connections {most}")
            if after < 5:
                break
    assert not visitors.other, visitors.other[:3]
    before = [visit for visit in visitors.answered if visit[0] < gone]
    assert before and visitors.refused
    assert after < 5
    assert most == {f"latchkey-{name}": POOL for name in postgresql.SERVICES}
    assert processes == {name: service.process.pid for name, service in world.fleet.services.items()}
    for service in world.fleet.services.values():
        assert readiness(service)[0] == 200
    # Whoever was told that they are a guest is that guest, and their code can be scanned.
    for _, device, code in before:
        subject = device.subject.sub
        answer = device.start_as_guest()
        assert answer.subject.sub == subject and not answer.created
        phone.scan(code.qr_payload)
    assert sign_in(phone, world.device()).access_token


@pytest.mark.parametrize("secret", ["service-token", "identity-secret"])
def test_missing_secrets(binaries, tmp_path, server, secret):
    """C19: on PostgreSQL a service without its mounted secrets does not start, says which one is missing, and makes none"""
    fleet = postgresql.fleet(binaries, tmp_path / "fleet", server, {})
    path = fleet.data_directory / secret
    path.rename(tmp_path / "elsewhere")
    concerned = postgresql.SERVICES if secret == "service-token" else ["identity"]
    for name in concerned:
        with pytest.raises(services.StartError) as failure:
            fleet[name].start()
        assert "ended with 78" in str(failure.value) or "ended with 1" in str(failure.value)
        assert f"{path}: is missing" in str(failure.value)
        assert not path.exists()


def test_password(binaries, tmp_path, server):
    """A password in storage.url is refused, a wrong one stops the start, and neither is printed"""
    fleet = postgresql.fleet(binaries, tmp_path / "fleet", server, {})
    flags = fleet.arguments["qr"]
    fleet.arguments["qr"] = ["--storage-url", server.url("qr").replace("@", ":s3cret@")]
    with pytest.raises(services.StartError) as failure:
        fleet["qr"].start()
    assert "storage.passwordFile" in str(failure.value) and "s3cret" not in str(failure.value)
    fleet.arguments["qr"] = flags
    (tmp_path / "fleet" / "database-password").write_text("s3cret")
    with pytest.raises(services.StartError) as failure:
        fleet["qr"].start()
    assert "password authentication failed" in str(failure.value) and "s3cret" not in str(failure.value)
