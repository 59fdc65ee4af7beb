"""What happens at one instance over PostgreSQL reaches those who watch at another."""

import threading
import time

import grpc
import pytest
from latchkey.identity.v1 import auth_service_pb2, guide_service_pb2, guide_service_pb2_grpc, session_service_pb2
from latchkey.identity.v1 import session_service_pb2_grpc
from latchkey.migration.v1 import migration_service_pb2 as migration
from test_instances_documents import PATIENCE, PROMISED, guide, set_guides
from test_instances_feed import as_seen_at, pair, proxy, server  # noqa: F401
from test_merges import ready
from waiting import eventually, expect_prompt
from world import is_away

STARTED, ENDED = session_service_pb2.SESSION_EVENT_STARTED, session_service_pb2.SESSION_EVENT_ENDED


class Watch:
    """The events of a person's sessions at one instance, as they come."""

    def __init__(self, world, device):
        stub = session_service_pb2_grpc.SessionServiceStub(world.channel("identity"))
        self.call = stub.WatchSessionEvents(
            session_service_pb2.WatchSessionEventsRequest(), metadata=device.metadata, timeout=120
        )
        next(self.call)
        self.events, self.error = [], None
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        try:
            for event in self.call:
                self.events.append((event.event, event.sid, event.session.method))
        except grpc.RpcError as error:
            self.error = error

    def heard(self, event, sid):
        return [one for one in self.events if one[:2] == (event, sid)]

    def stop(self):
        self.call.cancel()
        self.thread.join()


def signed_in(world, owner):
    """Another device of the owner's."""
    device = world.device()
    device.authenticate(owner.identifier)
    return device


def revoke(world, device):
    world.auth.Revoke(auth_service_pb2.RevokeRequest(token=device.tokens.refresh_token), timeout=20)


def test_sessions(pair):  # noqa: F811
    """C15: a session that begins or ends at one instance is told to who watches at another within 2 s, and once"""
    second = pair.at(2)
    owner = pair.account()
    watches = [Watch(world, owner) for world in (pair, second)]
    times, sids = [], set()
    for world in (pair, second) * 4:
        device = signed_in(world, owner)
        start = time.monotonic()
        sid = device.tokens.sid
        sids.add(sid)
        for watch in watches:
            eventually(lambda: watch.heard(STARTED, sid), "nothing is told", PATIENCE)
        times.append(time.monotonic() - start)
        revoke(world, device)
        for watch in watches:
            eventually(lambda: watch.heard(ENDED, sid), "no end is told", PATIENCE)
    expect_prompt(times, PROMISED)
    time.sleep(1)
    # The owner's own beginning may be news as well.
    told = []
    for watch in watches:
        watch.stop()
        told.append([event for event in watch.events if event[1] in sids])
        assert len(told[-1]) == len(set(told[-1])) == 16
    assert told[0] == told[1]


@pytest.mark.parametrize("is_made", [True, False])
def test_unanswered(pair, proxy, is_made):  # noqa: F811
    """C15: a session whose beginning was not answered begins all the same, and is told at both instances; where the connection that
    was lost is the one that looks, who watches is told that something may be missing"""
    second = pair.at(2)
    owner = pair.account()
    proxy.delivers_lost = is_made
    # To sign in takes several commits, and the instance has others.
    for turn in range(8):
        watches = [Watch(world, owner) for world in (pair, second)]
        proxy.commits_to_pass, proxy.commits_to_lose = turn % 4, 1
        device = second.device()
        device.authenticate(owner.identifier)
        for watch in watches:
            eventually(lambda: watch.error or watch.heard(STARTED, device.tokens.sid), "nothing is told", 10)
            assert not watch.error or "may be missing" in watch.error.details(), watch.error
            watch.stop()
        eventually(lambda: proxy.commits_to_lose == 0, "nothing was committed")
        # A pool makes one connection a second anew.
        time.sleep(1.3)
    assert proxy.lost == 8


def test_guides(pair):  # noqa: F811
    """C15: a step of a guide that is reported at one instance is told to who watches at another within 2 s"""
    second = pair.at(2)
    set_guides(pair, guide("tour", 1, steps=4))
    stubs = [guide_service_pb2_grpc.GuideServiceStub(world.channel("identity")) for world in (pair, second)]
    device = pair.account()
    request = guide_service_pb2.GetGuideRequest(guide_id="tour")
    for stub in stubs:
        def is_there(stub=stub):
            try:
                return stub.GetGuide(request, metadata=device.metadata, timeout=10)
            except grpc.RpcError as error:
                assert error.code() == grpc.StatusCode.NOT_FOUND, error

        eventually(is_there, "not in force", PATIENCE)
    watches = [
        stub.WatchGuide(guide_service_pb2.WatchGuideRequest(guide_id="tour"), metadata=device.metadata, timeout=60)
        for stub in stubs
    ]
    revisions = [next(watch).progress.revision for watch in watches]
    assert revisions == [0, 0]
    times = []
    for number in range(8):
        outcome = guide_service_pb2.STEP_OUTCOME_SHOWN if number % 2 == 0 else guide_service_pb2.STEP_OUTCOME_DONE
        report = guide_service_pb2.ReportStepRequest(
            guide_id="tour", step_id=f"s{number // 2}", outcome=outcome, expected_revision=revisions[0]
        )
        answer = stubs[number % 2].ReportStep(report, metadata=device.metadata, timeout=10)
        start = time.monotonic()
        if not answer.changed:
            continue
        revisions = [next(watch).progress.revision for watch in watches]
        times.append(time.monotonic() - start)
        assert revisions == [answer.progress.revision] * 2
    expect_prompt(times, PROMISED)
    for watch in watches:
        watch.cancel()


def test_migrations(pair):  # noqa: F811
    """C15: whoever watches a merge at another instance than the one that does it is told to its end"""
    device, merge = ready(pair, 2000)()
    device.world = pair.at(2)
    assert device.watch_merge(merge)[-1].state == migration.MIGRATION_STATE_DONE


def test_paused(pair):  # noqa: F811
    """C15: who watches at an instance that stood still hears what happened meanwhile, or that something may have"""
    second = pair.at(2)
    owner = pair.account()
    watch = Watch(second, owner)
    service = pair.fleet["identity-2"]
    service.freeze()
    try:
        sid = signed_in(pair, owner).tokens.sid
        time.sleep(7)
    finally:
        service.thaw()
    eventually(lambda: watch.heard(STARTED, sid) or watch.error, "nothing is told", PATIENCE)
    print("told" if watch.heard(STARTED, sid) else watch.error.details())
    watch.stop()


def test_database_killed(pair, server):  # noqa: F811
    """C15: who watches while the database is started again is told that something may have happened, and watches again"""
    second = pair.at(2)
    owner = pair.account()
    watches = [Watch(world, owner) for world in (pair, second)]
    server.kill()
    server.start()
    for watch in watches:
        eventually(lambda: watch.error, "nothing is told", 15)
        assert watch.error.code() == grpc.StatusCode.UNAVAILABLE and "may be missing" in watch.error.details()
        watch.stop()
    for name in ("identity", "identity-2"):
        pair.fleet[name].wait_until_ready()
    again, sid = None, None

    def is_told():
        # While connections are made anew, one a second, those who watch may be sent away again.
        nonlocal again, sid
        try:
            if again is None or again.error:
                again, sid = Watch(second, as_seen_at(second, owner)), None
            sid = sid or signed_in(pair, owner).tokens.sid
        except grpc.RpcError as error:
            assert is_away(error), error
            return False
        return again.heard(STARTED, sid)

    eventually(is_told, "nothing is told", 30)
    again.stop()
