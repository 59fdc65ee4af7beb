"""Limits by address and by account at two instances over one PostgreSQL: together they let in what one does alone. Clocks stand
still meanwhile, so that nothing is earned back by how long a test takes."""

import itertools
import pathlib
import secrets
import shutil
import tempfile

import postgresql
import pytest
from latchkey.identity.v1 import guest_service_pb2
from moved_clock import MovedClock
from test_instances_work import patiently
from test_qr_limits import at, issue, scan, tries
from waiting import eventually
from world import CLIENT_ID, TRUSTING, World, base64url

# What one instance alone lets in, and what each of two does.
ISSUES, GUESTS, WRONG_SCANS = 60, 20, 30
LIMITS = {
    "*": TRUSTING,
    "identity": ["--guest-per-hour", str(GUESTS), "--register-per-hour", "1000000"],
    "qr": ["--limits-issues-per-minute", str(ISSUES)],
}


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


@pytest.fixture
def both(binaries, tmp_path, server, clock):
    fleet = postgresql.fleet(binaries, tmp_path / "fleet", server, LIMITS, instances=2)
    fleet.environment = clock.environment
    with fleet:
        world = World(fleet)
        yield world, world.at(2)


# Each is asked from once.
networks = itertools.count(10)


def spent(worlds):
    """How many codes a network gets at each that asked for none before."""
    network = next(networks)
    return [tries(lambda world=world: issue(world, network), ISSUES + 1) for world in worlds]


def wrong_scans(worlds):
    """How many codes that are none an account may scan at each that scanned none before."""
    thief = patiently(worlds[0].account)
    payload = issue(worlds[0], next(networks)).qr_payload
    wrong = payload.rsplit("/", 1)[0] + "/" + base64url(secrets.token_bytes(16))
    return [tries(lambda world=world: scan(world, thief, 1, qr_payload=wrong), WRONG_SCANS) for world in worlds]


def challenge(world, network):
    """How much work a new guest of this network costs."""
    request = guest_service_pb2.GetChallengeRequest(client_id=CLIENT_ID, device_key=world.device().jwk())
    return world.guests.GetChallenge(request, metadata=at(network), timeout=10).pow_bits


def free_guests(worlds):
    """How many challenges ask for no work of a network that asked for none before."""
    network = next(networks)
    return sum(next(number for number in range(GUESTS + 1) if challenge(world, network) > 0) for world in worlds)


def test_limits(both):
    """S13, G23: two instances together let in what one lets in, wherever it is spent; the last one alone lets in all of it"""
    one, _ = both
    # Who came first hears of the other with its next sign of life. On a busy machine an instance may also be not ready for a
    # moment, and the other grants everything meanwhile: each is asked anew until both are there.
    eventually(lambda: spent(both) == [ISSUES // 2, ISSUES // 2])
    eventually(lambda: free_guests(both) == GUESTS)
    eventually(lambda: wrong_scans(both) == [WRONG_SCANS // 2, WRONG_SCANS // 2])

    for service in ("qr-2", "identity-2", "migrator-2"):
        one.fleet[service].stop()
    eventually(lambda: spent([one]) == [ISSUES])
    eventually(lambda: free_guests([one]) == GUESTS)


def test_part_of_who_may_not_serve(both):
    """S13: an instance that may not serve leaves its part of the limits to the others, and has it again once it may"""
    one, _ = both
    fleet = one.fleet
    fleet["qr-2"].stop()
    # The second one hears of sessions that have ended from the second one alone.
    fleet.arguments["qr-2"] += ["--identity-address", fleet["identity-2"].address]
    fleet["qr-2"].start()
    eventually(lambda: spent(both) == [ISSUES // 2, ISSUES // 2])
    fleet["identity-2"].freeze()
    try:
        eventually(lambda: not fleet["qr-2"].is_ready())
        eventually(lambda: spent([one]) == [ISSUES])
        assert fleet["qr-2"].is_running() and not fleet["qr-2"].is_ready()
    finally:
        fleet["identity-2"].thaw()
    eventually(fleet["qr-2"].is_ready)
    eventually(lambda: spent(both) == [ISSUES // 2, ISSUES // 2])
