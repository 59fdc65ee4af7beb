"""Policies and guides of instances over one PostgreSQL: what is changed at one is in force at all."""

import json
import threading
import time

import grpc
import postgresql
import pytest
from latchkey.identity.v1 import (
    admin_service_pb2,
    admin_service_pb2_grpc,
    guide_service_pb2,
    guide_service_pb2_grpc,
    policy_service_pb2,
    policy_service_pb2_grpc,
)
from latchkey.migration.v1 import record_service_pb2
from latchkey.qr.v1 import qr_session_service_pb2
from waiting import eventually, expect_prompt
from world import CLIENT_ID, UNTHROTTLED, World, bearer, is_away, refused

# Within which a change has to be in force everywhere.
PROMISED = 2
# How long it is waited for: a busy machine may stand still now and then.
PATIENCE = 20

server = postgresql.serving("module")


@pytest.fixture(scope="module")
def pair(binaries, tmp_path_factory, server):
    """Two instances of each service; QR and migrator of the second ask its identity."""
    folder = tmp_path_factory.mktemp("documents")
    fleet = postgresql.fleet(binaries, folder / "fleet", server, UNTHROTTLED, instances=2)
    for name in ("qr-2", "migrator-2"):
        fleet.arguments[name] = [*fleet.arguments.get(name, []), "--identity-address", fleet["identity-2"].address]
    with fleet:
        yield World(fleet)


def set_document(world, document, contents, timeout=20):
    stub = admin_service_pb2_grpc.AdminServiceStub(world.channel("identity"))
    request = admin_service_pb2.SetDocumentRequest(document=document, json=json.dumps(contents))
    stub.SetDocument(request, metadata=bearer(world.service_token()), timeout=timeout)


def set_policies(world, version, minimum="1.0", **arguments):
    contents = {"version": version, "updates": [{"minimum": minimum, "url": "https://example.com"}]}
    set_document(world, admin_service_pb2.DOCUMENT_POLICIES, contents, **arguments)


def guide(name, version, steps=1):
    return {
        "guide_id": name, "version": version,
        "steps": [
            {"step_id": f"s{number}", "page": "home", "target": f"t{number}", "message_key": f"m{number}"}
            for number in range(steps)
        ],
    }  # fmt: skip


def set_guides(world, *guides):
    set_document(world, admin_service_pb2.DOCUMENT_GUIDES, {"guides": list(guides)})


def version(world):
    stub = policy_service_pb2_grpc.PolicyServiceStub(world.channel("identity"))
    return stub.GetGatePolicy(policy_service_pb2.GetGatePolicyRequest(client_id=CLIENT_ID), timeout=10).version


def is_too_old(call, app):
    """Whether a service takes no call of this version of an app."""
    try:
        call((("x-app-version", app),))
    except grpc.RpcError as error:
        return error.code() == grpc.StatusCode.FAILED_PRECONDITION and "UPGRADE_REQUIRED" in str(error.trailing_metadata())
    return False


def refusals(world, app):
    """By service, whether it takes no call of this version of an app."""
    issue = qr_session_service_pb2.IssueSessionRequest()
    return [
        is_too_old(lambda metadata: version_with(world, metadata), app),
        is_too_old(lambda metadata: world.qr.IssueSession(issue, metadata=metadata, timeout=10), app),
        is_too_old(
            lambda metadata: world.records.ListCollections(
                record_service_pb2.ListCollectionsRequest(), metadata=metadata, timeout=10
            ), app,
        ),
    ]  # fmt: skip


def version_with(world, metadata):
    stub = policy_service_pb2_grpc.PolicyServiceStub(world.channel("identity"))
    stub.GetGatePolicy(policy_service_pb2.GetGatePolicyRequest(client_id=CLIENT_ID), metadata=metadata, timeout=10)


def both(pair):
    return pair, pair.at(2)


def catalog(world, device):
    stub = guide_service_pb2_grpc.GuideServiceStub(world.channel("identity"))
    found = stub.ListGuides(guide_service_pb2.ListGuidesRequest(), metadata=device.metadata, timeout=10).guides
    return {guide.guide_id: guide.version for guide in found}


def next_version(pair):
    return max(version(world) for world in both(pair)) + 1


def test_policies(pair):
    """C15: a version of an app that is made too old at one instance is refused by all services of all instances within 2 s"""
    times = []
    for number, world in enumerate(both(pair) * 3):
        wanted = next_version(pair)
        set_policies(world, wanted, minimum=f"{number + 2}.0")
        # Where it was changed it holds in the next call.
        assert version(world) == wanted
        start = time.monotonic()
        for other in both(pair):
            eventually(lambda: all(refusals(other, f"{number + 1}.9")), f"{number + 1}.9 is not refused", PATIENCE)
            assert not any(refusals(other, f"{number + 2}.0"))
        times.append(time.monotonic() - start)
    expect_prompt(times, PROMISED)


def test_guides(pair):
    """C15: guides that are changed at one instance are in force at the others within 2 s, and who watches there is told"""
    first, second = both(pair)
    device = first.account()
    set_guides(first, guide("tour", 1))
    eventually(lambda: catalog(second, device) == {"tour": 1}, "not in force", PATIENCE)
    stub = guide_service_pb2_grpc.GuideServiceStub(second.channel("identity"))
    watch = stub.WatchGuide(guide_service_pb2.WatchGuideRequest(guide_id="tour"), metadata=device.metadata, timeout=60)
    assert next(watch).version == 1
    times = []
    for number in range(2, 6):
        start = time.monotonic()
        set_guides(first, guide("tour", number, steps=number), guide("more", 1))
        assert next(watch).version == number
        times.append(time.monotonic() - start)
        assert catalog(second, device) == {"tour": number, "more": 1}
    expect_prompt(times, PROMISED)
    watch.cancel()
    # A changed guide needs a higher version, wherever it is changed.
    with refused(grpc.StatusCode.INVALID_ARGUMENT):
        set_guides(second, guide("tour", 5, steps=6))


def test_at_once(pair):
    """C15: of two documents of one version that are set at two instances at once one is in force everywhere, and whoever set
    the other one is told"""
    times = []
    for _ in range(8):
        wanted = next_version(pair)
        outcomes, start = {}, threading.Barrier(2)

        def run(world):
            start.wait()
            try:
                set_policies(world, wanted, minimum=f"{world.instance}.0")
                outcomes[world.instance] = None
            except grpc.RpcError as error:
                outcomes[world.instance] = error.code()

        threads = [threading.Thread(target=run, args=(world,)) for world in both(pair)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(outcomes.values()) == {grpc.StatusCode.INVALID_ARGUMENT, None}, outcomes
        (winner,) = [instance for instance, outcome in outcomes.items() if outcome is None]
        begun = time.monotonic()
        for world in both(pair):
            # The first one's is for everybody, the second one's not for those of version 1.
            eventually(lambda: refusals(world, "1.5") == [winner == 2] * 3, "not in force", PATIENCE)
        times.append(time.monotonic() - begun)
    expect_prompt(times, PROMISED)


def test_paused(pair):
    """C15: instances that stood still while policies and guides were changed have them soon after they wake"""
    first, second = both(pair)
    device = first.account()
    sleepers = [pair.fleet[name] for name in ("identity-2", "qr-2", "migrator-2")]
    wanted = next_version(pair)
    for service in sleepers:
        service.freeze()
    try:
        set_policies(first, wanted, minimum="50.0")
        set_guides(first, guide("woken", wanted))
        time.sleep(7)
    finally:
        for service in sleepers:
            service.thaw()
    woken = time.monotonic()
    eventually(lambda: all(refusals(second, "49.9")), "not in force", PATIENCE)
    print(f"in force {time.monotonic() - woken:.2f} s after it woke")
    eventually(second_knows(second, device, {"woken": wanted}), "not in force")


def second_knows(world, device, wanted):
    def holds():
        try:
            return catalog(world, device) == wanted
        except grpc.RpcError as error:
            # It has to hear first which sessions ended meanwhile.
            assert is_away(error), error
            return False

    return holds


def test_files(pair):
    """C15: a file that is deployed with one instance is in force at all, one that another instance still has from before
    changes nothing, not even when it starts again"""
    first, second = both(pair)
    device = first.account()
    wanted = next_version(pair)
    files = [pair.fleet[name].data_directory / "guides.json" for name in ("identity", "identity-2")]
    old, new = ({"guides": [guide("old", wanted)]}, {"guides": [guide("new", wanted)]})
    for path, contents in zip(files, (old, new)):
        path.write_text(json.dumps(contents))
        (name,) = [one["guide_id"] for one in contents["guides"]]
        for world in (first, second):
            eventually(lambda: catalog(world, device) == {name: wanted}, f"{name} is not in force")
    for name in ("identity", "identity-2"):
        pair.fleet[name].restart()
    pair.open()
    for world in both(pair):
        eventually(second_knows(world, device, {"new": wanted}), "the old one is in force again")
    # What an administrator sets afterwards holds on, whatever lies there.
    set_guides(first, guide("set", 1))
    pair.fleet["identity-2"].restart()
    pair.open()
    for world in both(pair):
        eventually(second_knows(world, device, {"set": 1}), "the file is in force again")


def test_killed(pair):
    """C15: kill -9 of the instance where policies are set, whenever it comes: they are in force at all or at none"""
    first, second = both(pair)
    times = []
    for number in range(8):
        wanted = next_version(pair)
        answered = []

        def run():
            try:
                set_policies(first, wanted)
                answered.append(wanted)
            except grpc.RpcError as error:
                assert is_away(error), error

        thread = threading.Thread(target=run)
        thread.start()
        time.sleep(0.004 * number)
        pair.fleet["identity"].restart()
        thread.join()
        pair.open()
        begun = time.monotonic()
        eventually(lambda: version(first) == version(second), "they differ", PATIENCE)
        times.append(time.monotonic() - begun)
        assert version(second) in ((wanted,) if answered else (wanted - 1, wanted))
    expect_prompt(times, PROMISED)


def test_database_away(pair, server):
    """C15: without the database nothing is changed, what is in force stays so, and changes are made again once it is back"""
    wanted = next_version(pair)
    server.kill()
    try:
        with refused(grpc.StatusCode.UNAVAILABLE):
            set_policies(pair, wanted)
        assert [version(world) for world in both(pair)] == [wanted - 1] * 2
    finally:
        server.start()
    for service in pair.fleet.services.values():
        service.wait_until_ready()
    set_policies(pair, wanted, minimum="60.0")
    for world in both(pair):
        eventually(lambda: all(refusals(world, "59.9")), "not in force", PATIENCE)
