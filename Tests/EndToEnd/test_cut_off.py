"""One of two instances cut off from the database, or from all others as well, while people wait there."""

import contextlib
import threading
import time
import urllib.request

import database_proxy
import grpc
import postgresql
import pytest
from grpc.health.v1 import health_pb2
from latchkey.qr.v1 import qr_session_service_pb2 as pb
from test_instances_feed import readiness
from test_instances_qr import Relay
from waiting import eventually
from world import UNTHROTTLED, Failure, World

server = postgresql.serving()


@pytest.fixture
def proxy(server):
    proxy = database_proxy.DatabaseProxy(server.port)
    yield proxy
    proxy.stop()


@pytest.fixture
def fleet(binaries, tmp_path, server, proxy):
    """Two instances of each service; the second QR service's way to the database is the proxy's."""
    fleet = postgresql.fleet(binaries, tmp_path / "fleet", server, UNTHROTTLED, instances=2)
    fleet.arguments["qr-2"] += ["--storage-url", server.url("qr").replace(f":{server.port}/", f":{proxy.port}/")]
    # Codes outlive every cut.
    fleet.arguments["qr"] += ["--code-lifetime", "10m"]
    return fleet


@pytest.fixture
def relay(fleet):
    """Where the second QR service hears what the first one changes."""
    relay = Relay(("127.0.0.1", fleet["qr"].grpc_port))
    fleet.arguments["qr"] += ["--instance-address", f"127.0.0.1:{relay.port}"]
    fleet.arguments["qr-2"] += ["--instance-address", fleet["qr-2"].address]
    yield relay
    relay.close()


@pytest.fixture
def pair(fleet, relay):
    with fleet:
        yield World(fleet)


# What a watch hears last of a code that was confirmed; the latter when the tokens were handed over meanwhile.
ENDS = {pb.SESSION_STATE_CONFIRMED, pb.SESSION_STATE_CONSUMED}


class Watcher(threading.Thread):
    """Waits for a code's end by a watch, again whenever that ends and when it says; remembers what it was told."""

    def __init__(self, world, code):
        super().__init__(daemon=True)
        self.qr, self.request = world.qr, pb.WatchSessionRequest(device_code=code.device_code)
        self.states, self.failures = [], []
        self.is_over = False

    def run(self):
        while not ENDS & set(self.states) and not self.is_over:
            try:
                for answer in self.qr.WatchSession(self.request, timeout=60):
                    self.states.append(answer.state)
            except grpc.RpcError as error:
                self.failures.append(Failure(error))
                time.sleep(0.2)

    def expect_end(self):
        """It hears that the code was confirmed, and was told when to come back whenever it was sent away before."""
        try:
            eventually(lambda: ENDS & set(self.states), "the watch does not hear of the confirmation")
        finally:
            self.is_over = True
        self.join(timeout=10)
        print([pb.SessionState.Name(state) for state in self.states], [(f.code.name, f.retry_after) for f in self.failures])
        assert not self.is_alive()
        assert self.states[0] == pb.SESSION_STATE_PENDING
        assert all(f.code == grpc.StatusCode.UNAVAILABLE and f.retry_after is not None for f in self.failures)


def tokens_at(screen):
    """What a poll hands over; nothing while the service asks for patience."""
    try:
        return screen.poll().tokens.access_token
    except grpc.RpcError as error:
        # Too much may wait for the database that is silent.
        assert error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED), error
        return None


def test_cut_off_from_the_database(pair, proxy):
    """C12: an instance whose database falls silent is not ready and says so, its waiters hear what others changed or when to come
    back, and it recovers by itself"""
    first, second = pair, pair.at(2)
    service = pair.fleet["qr-2"]
    process = service.process.pid
    phone, screen = first.account(), second.device()
    code = screen.issue_qr()
    watcher = Watcher(second, code)
    watcher.start()
    eventually(lambda: watcher.states, "the watch says nothing")
    with contextlib.ExitStack() as heal:
        heal.callback(proxy.open.set)
        proxy.open.clear()
        eventually(lambda: readiness(service)[0] == 503, "the instance is ready")
        assert "the database" in readiness(service)[1]
        assert screen.poll().state == pb.SESSION_STATE_PENDING
        # The other one serves the code meanwhile.
        phone.confirm(phone.scan(code.qr_payload), code.check_code)
        # What an instance may only do by the row it does not do.
        assert not tokens_at(screen)
        with pytest.raises(grpc.RpcError) as caught:
            # Longer than a COMMIT is waited for: the service says so itself.
            second.device().issue_qr(timeout=30)
        # At once where something waits for the database already.
        failure = Failure(caught.value)
        assert failure.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)
        assert failure.retry_after is not None
        screen.world = first
        tokens = screen.poll().tokens.access_token
        assert tokens
        screen.world = second
    eventually(lambda: readiness(service)[0] == 200, "the instance does not come back")
    eventually(lambda: tokens_at(screen) == tokens, "the waiting screen does not get the tokens")
    watcher.expect_end()
    assert service.process.pid == process
    assert phone.introspect(tokens).active


def says(world):
    """Whether an instance of the QR service is ready by its page and by health, and what its page says."""
    service = world.fleet["qr" if world.instance == 1 else f"qr-{world.instance}"]
    status, text = readiness(service)
    return status == 200, world.health("qr") == health_pb2.HealthCheckResponse.SERVING, text.strip()


READY = (True, True, "ok")


def expect_pending(screens, until):
    """Polls all of them until that is true; returns how often, and each time they are told what was known of their codes."""
    polls, end = 0, time.monotonic() + 60
    while not until():
        assert time.monotonic() < end, "it does not come about"
        for screen in screens:
            assert screen.poll().state == pb.SESSION_STATE_PENDING
            polls += 1
        time.sleep(0.1)
    return polls


def known_codes(first, second, count):
    """Screens that wait at the second instance, half of them for codes that the first one issued."""
    screens = [first.device() for _ in range(count)]
    for number, screen in enumerate(screens):
        screen.world = (first, second)[number % 2]
        screen.issue_qr()
        # It is met by its first poll.
        screen.world = second
        assert screen.poll().state == pb.SESSION_STATE_PENDING
    return screens


def test_cut_off_from_all(pair, proxy, relay):
    """C12: an instance that hears neither from its database nor from the others stays up, says that it is not ready and why, goes
    on answering polls of the codes it knows, and hears of either again by itself"""
    first, second = pair, pair.at(2)
    service = pair.fleet["qr-2"]
    process, phone = service.process.pid, first.account()
    screens, spare = known_codes(first, second, 2), known_codes(first, second, 30)
    eventually(lambda: relay.carried > 0, "the instances do not hear each other")
    eventually(lambda: says(second) == READY, "the instance is not ready")
    watcher = Watcher(second, screens[0].code)
    watcher.start()
    eventually(lambda: watcher.states, "the watch says nothing")

    def is_told():
        """Of a scan at the other instance; each code is scanned once."""
        screen = spare.pop()
        phone.scan(screen.code.qr_payload)
        return screen.poll(wait_ms=1000, last_version=1).state == pb.SESSION_STATE_SCANNED

    with contextlib.ExitStack() as heal:
        heal.callback(proxy.open.set)
        proxy.open.clear()
        relay.is_frozen = True
        for screen in screens:
            phone.confirm(phone.scan(screen.code.qr_payload), screen.code.check_code)
        expect_pending(screens, lambda: not any(says(second)[:2]))
        print(says(second)[2])
        assert "the database" in says(second)[2]
        # A balancer leaves it, and nothing restarts it.
        with urllib.request.urlopen(service.page_url("/livez"), timeout=5) as answer:
            assert answer.status == 200
        assert says(first) == READY
        end = time.monotonic() + 3
        assert expect_pending(screens, lambda: time.monotonic() > end) > len(screens)
        assert not is_told() and set(watcher.states) == {pb.SESSION_STATE_PENDING}
        relay.is_frozen = False
        eventually(is_told, "the instances do not hear each other again")
        # What was missed only the database knows.
        assert all(screen.poll().state == pb.SESSION_STATE_PENDING for screen in screens) and not any(says(second)[:2])
    eventually(lambda: says(second) == READY, "the instance does not come back")
    for screen in screens:
        assert phone.introspect(eventually(lambda screen=screen: tokens_at(screen), "a screen gets no tokens")).active
    watcher.expect_end()
    assert service.process.pid == process and service.is_running()
