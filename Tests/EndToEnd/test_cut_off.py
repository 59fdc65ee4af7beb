"""One of two instances cut off from the database while people wait there."""

import contextlib
import threading
import time

import database_proxy
import grpc
import postgresql
import pytest
from latchkey.qr.v1 import qr_session_service_pb2 as pb
from test_instances_feed import readiness
from waiting import eventually
from world import UNTHROTTLED, Failure, World

server = postgresql.serving()


@pytest.fixture
def proxy(server):
    proxy = database_proxy.DatabaseProxy(server.port)
    yield proxy
    proxy.stop()


@pytest.fixture
def pair(binaries, tmp_path, server, proxy):
    """Two instances of each service; the second QR service's way to the database is the proxy's."""
    fleet = postgresql.fleet(binaries, tmp_path / "fleet", server, UNTHROTTLED, instances=2)
    fleet.arguments["qr-2"] += ["--storage-url", server.url("qr").replace(f":{server.port}/", f":{proxy.port}/")]
    with fleet:
        yield World(fleet)


class Watcher(threading.Thread):
    """Waits for a code's end by a watch, again whenever that ends and when it says; remembers what it was told."""

    def __init__(self, world, code):
        super().__init__(daemon=True)
        self.qr, self.request = world.qr, pb.WatchSessionRequest(device_code=code.device_code)
        self.states, self.failures = [], []
        self.is_over = False

    def run(self):
        while pb.SESSION_STATE_CONFIRMED not in self.states and not self.is_over:
            try:
                for answer in self.qr.WatchSession(self.request, timeout=60):
                    self.states.append(answer.state)
            except grpc.RpcError as error:
                self.failures.append(Failure(error))
                time.sleep(0.2)


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
        print(readiness(service)[1].strip())
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
    watcher.is_over = True
    watcher.join(timeout=60)
    print([pb.SessionState.Name(state) for state in watcher.states], [(f.code.name, f.retry_after) for f in watcher.failures])
    assert all(f.code == grpc.StatusCode.UNAVAILABLE and f.retry_after is not None for f in watcher.failures)
    assert service.process.pid == process
    assert phone.introspect(tokens).active
