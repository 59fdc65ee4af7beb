"""Connections to the database cut right behind a COMMIT, which then happened or did not: what people are told is true."""

import itertools
import time

import bars
import database_proxy
import history
import people
import postgresql
import pytest
from world import UNTHROTTLED

# Commits of each service that are lost: as many happen as do not.
LOST = 12
# Between two of them: a pool makes one connection a second anew.
PAUSE = 1.3


@pytest.fixture
def server():
    """Connections are cut, and no machine loses its power: it need not wait for the disk, and what it was asked is soon done."""
    server = postgresql.PostgreSQL(fsync="off")
    yield server
    server.stop()


@pytest.fixture
def proxies(server):
    """By service, what stands between it and the database."""
    proxies = {name: database_proxy.DatabaseProxy(server.port) for name in postgresql.SERVICES}
    yield proxies
    for proxy in proxies.values():
        proxy.stop()


@pytest.fixture
def fleet(binaries, tmp_path, server, proxies):
    fleet = postgresql.fleet(binaries, tmp_path / "fleet", server, UNTHROTTLED)
    for name, proxy in proxies.items():
        url = server.url(name).replace(f":{server.port}/", f":{proxy.port}/")
        fleet.arguments[name] += ["--storage-url", url]
    with fleet:
        yield fleet


def lose_commits(proxies, crowd):
    for number in itertools.count():
        crowd.expect_no_failure()
        if all(proxy.lost >= LOST for proxy in proxies.values()):
            return
        for proxy in proxies.values():
            # Alternately, and only when the one before was lost.
            if proxy.commits_to_lose == 0:
                proxy.delivers_lost = number % 2 == 0
                proxy.commits_to_lose = 1
        time.sleep(PAUSE)


def test_lost_commits(fleet, proxies, seed, bar):
    """C5: a write whose connection broke behind its COMMIT is looked up before it is answered or done again: what people are
    told is true, nothing happens twice, and nobody is told that it is not known"""
    with people.Crowd(fleet, seed) as crowd:
        crowd.wait_for_writes(5)
        lose_commits(proxies, crowd)
    crowd.verify()
    found = crowd.history
    unknown = [operation.op for operation in found if "did not say" in operation.message]
    print(f"{ {name: proxy.lost for name, proxy in proxies.items()} } commits lost; said to be unknown: {sorted(unknown)}")
    bar("commits lost of the service with fewest", min(proxy.lost for proxy in proxies.values()), least=LOST)
    bar("answers that it is not known", len(unknown), most=0)
    bars.note_history(bar, found)
    assert history.violations(found) == []
    assert history.unexpected(found) == []
    assert unknown == []
