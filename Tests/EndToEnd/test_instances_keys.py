"""Signing keys of instances over one PostgreSQL: what one makes all publish, and none signs with what another does not know."""

import json
import pathlib
import random
import shutil
import tempfile
import threading
import time
import urllib.error
import urllib.request

import grpc
import jwt
import moved_clock
import postgresql
import pytest
import test_instances_feed
from latchkey.identity.v1 import admin_service_pb2, admin_service_pb2_grpc, auth_service_pb2
from test_instances_feed import ASKS, as_seen_at, refusal
from waiting import eventually, expect_prompt
from world import UNTHROTTLED, World, bearer, is_away

# What a key waits before it signs, and what its last tokens hold, with the error that clocks may have.
LEAD, TOKENS = 600, 900 + 60


@pytest.fixture(scope="module")
def clock():
    """The database's and the services', ahead by as much as a test says."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="lkclock-"))
    # The database is another user's.
    folder.chmod(0o755)
    moved = moved_clock.MovedClock(folder)
    with test_instances_feed.RunningClock(moved) as running:
        yield running
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def server(clock):
    server = postgresql.PostgreSQL(environment=clock.clock.environment)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def pair(binaries, tmp_path_factory, server, clock):
    """Two instances of each service; QR and migrator of the second listen to its identity."""
    folder = tmp_path_factory.mktemp("keys")
    fleet = postgresql.fleet(binaries, folder / "fleet", server, UNTHROTTLED, instances=2)
    fleet.environment = clock.clock.environment
    for name in ("qr-2", "migrator-2"):
        fleet.arguments[name] = [*fleet.arguments.get(name, []), "--identity-address", fleet["identity-2"].address]
    assert not (fleet.data_directory / "signing-keys").exists()
    with fleet:
        yield World(fleet)


def published(world):
    """The names of the keys that an instance publishes; none for a moment when its clock was moved: it may have stood still."""
    try:
        return kids(world.auth.GetJwks(auth_service_pb2.GetJwksRequest(), timeout=10).jwks_json)
    except grpc.RpcError as error:
        assert is_away(error), error
        return []


def kids(text):
    return [key["kid"] for key in json.loads(text)["keys"]]


def kid(device):
    return jwt.get_unverified_header(device.tokens.access_token)["kid"]


def signed(device):
    """The key of a fresh token; nothing while the instance has to look which ones there are."""
    try:
        device.refresh()
    except grpc.RpcError as error:
        assert is_away(error), error
        return None
    return kid(device)


def rotate(world, timeout=20):
    stub = admin_service_pb2_grpc.AdminServiceStub(world.channel("identity"))
    request = admin_service_pb2.RotateSigningKeyRequest(reason="drill")
    return stub.RotateSigningKey(request, metadata=bearer(world.service_token()), timeout=timeout)


def both(pair):
    return pair, pair.at(2)


def agreed(pair, seconds=10):
    """What both instances publish, once they publish the same."""

    def same():
        found = [published(world) for world in both(pair)]
        return found[0] if found[0] == found[1] else None

    return eventually(same, "they do not publish the same", seconds)


def expect_taken(world, device):
    """A token is taken by identity at once, and by the others as soon as they have asked identity for its keys."""
    twin = as_seen_at(world, device)
    assert refusal(ASKS["identity"], twin) is None
    for name in ("qr", "migrator"):
        def taken(ask=ASKS[name]):
            code = refusal(ask, twin)
            assert code in (None, grpc.StatusCode.UNAVAILABLE), (name, code)
            return code is None

        eventually(taken, f"{name} does not take it", longest=0.01)


def test_first_start(pair, server):
    """C15: identity services that start together make one key, and each takes what the other signs"""
    fleet = pair.fleet
    for _ in range(4):
        assert server.query("SELECT count(*) FROM identity.signing_keys") == "1"
        assert len(agreed(pair)) == 1
        pair.open()
        first, second = both(pair)
        expect_taken(second, first.account())
        expect_taken(first, second.account())
        for name in ("identity", "identity-2"):
            fleet[name].stop()
        server.query("DELETE FROM identity.signing_keys")
        for name in ("identity", "identity-2"):
            fleet[name].start(wait=False)
        for name in ("identity", "identity-2"):
            fleet[name].wait_until_ready()
        pair.open()
    # In no file.
    assert not (fleet.data_directory / "signing-keys").exists()


def test_takeover(pair, clock):
    """C15: a key that one instance makes all publish, all begin to sign with it at the same time, and what any of
    them signs before, at and after that the others take at once; the last one is forgotten together as well"""
    first, second = both(pair)
    devices = [world.account() for world in (first, second)]
    old = kid(devices[0])
    answer = rotate(first)
    new, begins = answer.kid, answer.signs_from.ToDatetime().timestamp()
    eventually(lambda: new in published(second), "it is not published", 10)
    assert agreed(pair) == [old, new]
    # To eight seconds before. An instance whose clock was moved looks first which keys there are.
    clock.ahead += begins - (time.time() + clock.ahead) - 8
    for device in devices:
        eventually(lambda: signed(device) == old, "the old one does not sign")
    seen = []

    def are_known():
        """What was signed surely before, and surely after."""
        early = {name for _, answered, name in seen if answered < -0.5}
        return early, {name for asked, _, name in seen if asked > 3}

    end = time.monotonic() + 12
    while time.monotonic() < end or not all(are_known()):
        assert time.monotonic() < end + 20, seen
        for device, world, other in zip(devices, (first, second), (second, first)):
            asked = time.time() + clock.ahead - begins
            device.refresh()
            seen.append((asked, time.time() + clock.ahead - begins, kid(device)))
            expect_taken(other, device)
    assert are_known() == ({old}, {new}), seen
    assert agreed(pair) == [old, new]
    clock.ahead += TOKENS
    eventually(lambda: [published(world) for world in (first, second)] == [[new], [new]], "the old one stays")


def test_at_once(pair, server):
    """C15: of keys that two instances make at the same time one is kept, by all, and published by all within 2 s"""
    first, second = both(pair)
    before, times = agreed(pair), []
    for _ in range(10):
        made, start = {}, threading.Barrier(2)

        def run(world):
            start.wait()
            made[world.instance] = rotate(world).kid

        threads = [threading.Thread(target=run, args=(world,)) for world in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        begun = time.monotonic()
        eventually(lambda: all({*published(world)[-1:]} & {*made.values()} for world in both(pair)), "no new one", 20)
        assert agreed(pair)[:-1] == before[:1]
        times.append(time.monotonic() - begun)
    expect_prompt(times, 2)
    assert server.query("SELECT count(*) FROM identity.signing_keys") == "2"


def test_killed(pair):
    """C15: kill -9 of the instance that makes a key, whenever it comes: all have the key or none has it"""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    lot = random.Random(seed)
    first, second = both(pair)
    device = second.account()
    for _ in range(12):
        answers = []

        def ask():
            try:
                answers.append(rotate(first).kid)
            except grpc.RpcError as error:
                assert is_away(error), error

        thread = threading.Thread(target=ask)
        thread.start()
        time.sleep(lot.uniform(0, 0.04))
        pair.fleet["identity"].restart()
        thread.join()
        pair.open()
        found = agreed(pair)
        # What was answered is so.
        assert len(found) <= 2 and set(answers) <= set(found)
        device.refresh()
        expect_taken(pair, device)


def test_paused(pair, clock):
    """C15: an instance that stood still while a key was made, took over and its predecessor was forgotten signs nothing by the
    old one when it wakes, and refuses nobody who comes with the new one"""
    first, second = both(pair)
    service = pair.fleet["identity-2"]
    newcomer, sleeper = first.account(), second.account()
    stop, answers, tokens, sets = threading.Event(), [], [], []
    service.freeze()
    try:
        new = rotate(first).kid
        clock.ahead += LEAD + 5
        eventually(lambda: signed(newcomer) == new, "the new one does not sign")
        clock.ahead += TOKENS
        eventually(lambda: published(first) == [new], "the old one stays")
        assert signed(newcomer) == new

        def ask():
            """What waits at the door is answered first."""
            twin = as_seen_at(second.at(2), newcomer)
            while not stop.is_set():
                answers.append(refusal(ASKS["identity"], twin))

        def refresh():
            sleeper.world = second.at(2)
            while not stop.is_set():
                try:
                    sleeper.refresh()
                    tokens.append(sleeper.tokens.access_token)
                except grpc.RpcError as error:
                    assert error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED), error

        def fetch():
            url = f"http://{pair.fleet['identity-2'].address}/.well-known/jwks.json"
            while not stop.is_set():
                try:
                    with urllib.request.urlopen(url, timeout=30) as answer:
                        sets.append(kids(answer.read()))
                except urllib.error.HTTPError as error:
                    assert error.code == 503, error
                time.sleep(0.002)

        threads = [threading.Thread(target=work) for work in (ask, refresh, fetch)]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
    finally:
        service.thaw()
    try:
        woken = time.monotonic()
        eventually(lambda: tokens and sets and None in answers, "it does not wake")
        time.sleep(max(0, woken + 4 - time.monotonic()))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert set(answers) <= {None, grpc.StatusCode.UNAVAILABLE} and None in answers, set(answers)
    assert tokens and {jwt.get_unverified_header(token)["kid"] for token in tokens} == {new}
    assert sets and all(names == [new] for names in sets), sets[0]
    expect_taken(first, sleeper)


def test_database_away(pair, server):
    """C15: without the database no key is made, those that are known are published on, and it goes on once it is back"""
    before = agreed(pair)
    server.kill()
    try:
        for world in both(pair):
            with pytest.raises(grpc.RpcError) as refused:
                rotate(world)
            assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
        time.sleep(6)
        for world in both(pair):
            assert published(world) == before
    finally:
        server.start()
    for name in ("identity", "identity-2"):
        pair.fleet[name].wait_until_ready()
    new = rotate(pair).kid
    eventually(lambda: new in published(pair.at(2)), "it is not published", 10)
    assert agreed(pair)[-1] == new and before[0] in agreed(pair)
