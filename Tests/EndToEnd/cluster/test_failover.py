"""The leader of the database cluster killed under load, once in `make test` and ten times in `make cluster-test`."""

import math
import statistics
import time

import bars
import history
import people
import pytest
from latchkey.qr.v1 import qr_session_service_pb2 as qr_pb

KILLS = 10
AWAY_SECONDS = 150
# Until all is served again after the database's return.
BACK_SECONDS = 5
# Two instances of each service, eight connections each.
CONNECTIONS = 16


def strike(place, crowd):
    """Kills the leader, waits until everybody writes again, and returns the gap in seconds."""
    crowd.wait_for_writes(10)
    node, moment = place.database.kill_leader()
    moment = int(moment * history.SECOND)
    crowd.wait_for_writes(10, seconds=120)
    gap = crowd.history.gap(moment)
    print(f"{node.name} killed, {place.database.leader().name} leads, nobody wrote for {gap:.1f} s: {crowd.history.gaps(moment)}")
    return gap


def expect_lawful(found):
    print(f"{len(found)} calls; errors {dict(found.errors())}")
    assert all(found.acknowledged().values()), found.acknowledged()
    assert history.violations(found) == []
    odd = history.unexpected(found)
    assert not odd, odd[:3]
    assert found.errors(), "nobody noticed"


def test_leader_killed(place, seed, bar):
    """C4: the leader killed under load: nothing acknowledged is lost or happens twice, writes go on by themselves, and
    errors meanwhile say when to come back"""
    processes = {name: service.process.pid for name, service in place.fleet.services.items()}
    with people.Crowd(place.front, seed) as crowd:
        gap = strike(place, crowd)
    crowd.verify()
    bar("writers' gap", gap, unit="s")
    bars.note_history(bar, crowd.history)
    expect_lawful(crowd.history)
    assert processes == {name: service.process.pid for name, service in place.fleet.services.items()}


@pytest.mark.cluster
def test_leader_killed_ten_times(place, seed, bar):
    """C4: ten leaders killed one after the other under load: nothing acknowledged is lost or happens twice, and the median of
    the writers' gaps is at most six seconds"""
    gaps, found = [], []
    try:
        for number in range(KILLS):
            place.database.wait_until_whole()
            with people.Crowd(place.front, seed + 1000 * number) as crowd:
                gaps.append(strike(place, crowd))
            crowd.verify()
            found.append(crowd.history)
            expect_lawful(crowd.history)
    finally:
        median = statistics.median(gaps or [math.inf])
        bar("leaders killed", len(gaps), least=KILLS)
        bar("median of the writers' gaps", median, unit="s", most=history.GAP_BAR)
        bar("longest of them", max(gaps, default=math.inf), unit="s")
        bars.note_history(bar, *found)
    print("gaps", sorted(round(gap, 1) for gap in gaps), "median", round(median, 1))
    assert len(gaps) == KILLS
    assert median <= history.GAP_BAR


def poll_for(screen, seconds):
    """Polls a code that nobody scans twice a second; returns how often."""
    polls, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        assert screen.poll().state == qr_pb.SESSION_STATE_PENDING
        polls += 1
        time.sleep(0.5)
    return polls


@pytest.mark.cluster
def test_database_away(place, seed, bar):
    """C12, C17: without any database for 150 seconds the services stay up, codes go on being polled, no pool has more than its
    connections, and all is served again within five seconds of the database's return"""
    place.database.wait_until_whole()
    processes = {name: service.process.pid for name, service in place.fleet.services.items()}
    with people.Crowd(place.front, seed) as crowd:
        crowd.wait_for_writes(10)
        screen = crowd.people[2].world.device()
        screen.issue_qr()
        assert screen.poll().state == qr_pb.SESSION_STATE_PENDING
        place.database.take_away()
        gone = time.monotonic_ns()
        polls = poll_for(screen, AWAY_SECONDS)
        assert not any(service.is_ready() for service in place.fleet.services.values())
        place.database.bring_back()
        back = time.monotonic_ns()
        crowd.wait_for_writes(1)
        most = place.database.most_connections(seconds=10)
    crowd.verify()
    first = {service: crowd.history.first_write(service, back) for service in set(history.WRITES.values())}
    print(f"served again after {first}, connections {most}")
    bar("without a database", (back - gone) / history.SECOND, unit="s", least=AWAY_SECONDS)
    bar("polls answered meanwhile", polls, least=AWAY_SECONDS)
    bar("served again after", max(first.values()), unit="s", most=BACK_SECONDS)
    bar("connections of the service that has most", max(most.values(), default=math.inf), most=CONNECTIONS)
    bars.note_history(bar, crowd.history)
    expect_lawful(crowd.history)
    assert polls >= AWAY_SECONDS
    assert max(first.values()) <= BACK_SECONDS
    assert set(most) == {"latchkey-identity", "latchkey-qr", "latchkey-migrator"} and max(most.values()) <= CONNECTIONS
    assert processes == {name: service.process.pid for name, service in place.fleet.services.items()}
