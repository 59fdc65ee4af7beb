"""Two instances of each service over one PostgreSQL: what one leaves undone another does, once."""

import random
import threading
import time
import uuid

import grpc
import postgresql
import pytest
from latchkey.identity.v1 import audit_service_pb2, audit_service_pb2_grpc, auth_service_pb2
from latchkey.migration.v1 import migration_service_pb2 as migration
from latchkey.qr.v1 import qr_session_service_pb2
from test_merges import contents, ready
from waiting import eventually
from world import UNTHROTTLED, World, bearer, from_base64url, is_away, record, unique_identifier

UNDER_WAY = ("snapshot", "apply", "verify", "switch", "purge")

server = postgresql.serving("module")


@pytest.fixture(scope="module")
def pair(binaries, tmp_path_factory, server):
    """Two instances of each service; the first ask each other, and so do the second."""
    folder = tmp_path_factory.mktemp("pair")
    fleet = postgresql.fleet(binaries, folder / "fleet", server, UNTHROTTLED, instances=2)
    postgresql.ask_each_other(fleet, 2)
    with fleet:
        yield World(fleet)


def patiently(call, seconds=60):
    """The answer of a call that is repeated while services find each other again."""
    end = time.monotonic() + seconds
    while True:
        try:
            return call()
        except grpc.RpcError as error:
            assert is_away(error) and time.monotonic() < end, error
        time.sleep(0.05)


def phase(server):
    """Of the newest migration."""
    return server.query("SELECT phase FROM migration.migrations ORDER BY created_at DESC, id LIMIT 1")


def stopped_in_the_midst(pair, server, rows):
    """A merge whose migrator stands still before it is done."""
    service = pair.fleet["migrator"]
    for _ in range(10):
        device, merge = ready(pair, rows)()
        eventually(lambda: phase(server) in (*UNDER_WAY, "done"), seconds=60, longest=0.02)
        service.freeze()
        # The other one wakes now and then and may have been faster.
        if phase(server) in UNDER_WAY:
            return device, merge
        service.thaw()
    raise AssertionError("every merge was done before its migrator stood still")


def test_paused(pair, server):
    """C14: a migrator that stands still in the midst of a merge and comes back after its lease: another one has finished it, and nothing is doubled or lost"""
    seconds, service = pair.at(2), pair.fleet["migrator"]
    device, merge = stopped_in_the_midst(pair, server, 15_000)
    try:
        device.world = seconds
        states = device.watch_merge(merge, seconds=120)
    finally:
        service.thaw()
    done = states[-1]
    assert done.state == migration.MIGRATION_STATE_DONE and done.report[0].moved == 15_000
    eventually(pair.fleet["migrator"].is_ready, seconds=60)
    device.world = pair
    assert patiently(lambda: device.merge(merge)) == done
    # What the first one still believes is under way has come to nothing once it works on something else.
    other, later = ready(pair, 50)()
    assert other.watch_merge(later)[-1].state == migration.MIGRATION_STATE_DONE
    assert device.merge(merge) == done
    assert set(device.rows("cart")) == {f"k{number:06}" for number in range(15_000)}
    assert device.collections()["cart"] == 15_000
    # What became of each is on record once.
    name = uuid.UUID(bytes=from_base64url(merge))
    assert server.query(f"SELECT count(*) FROM migration.migration_records WHERE migration = '{name}'") == "15000"


def test_killed(pair):
    """C14: kill -9 of either migrator and either identity again and again while guests are merged and one is taken back: all arrive once"""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    lot = random.Random(seed)
    # The one that is taken back comes first; all begin at once, so that most is yet to do when the first is killed.
    rows = (3000, 6000, 6000)
    begins = [ready(pair, count) for count in rows]
    merges = [begin() for begin in begins]
    over, kills = threading.Event(), []

    def killer():
        # A fast machine is done before three of them, which then hit what is done.
        while not over.wait(lot.uniform(0.05, 0.4)) or len(kills) < 3:
            name = lot.choice(["migrator", "migrator-2", "identity", "identity-2"])
            kills.append(name)
            pair.fleet[name].restart()

    def by_either(call, end):
        """One of them may be away."""
        while True:
            for instance in (1, 2):
                try:
                    return call(pair.at(instance))
                except grpc.RpcError as error:
                    assert error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED), error
                    assert time.monotonic() < end
            time.sleep(0.05)

    def state(device, merge, end):
        def look(world):
            device.world = world
            return device.merge(merge).state

        return by_either(look, end)

    def finish(device, merge, wanted):
        end = time.monotonic() + 180
        calm = time.monotonic() + 20
        while state(device, merge, end) != wanted:
            assert time.monotonic() < end
            if time.monotonic() > calm:
                over.set()
            time.sleep(0.05)

    thread = threading.Thread(target=killer)
    thread.start()
    try:
        for device, merge in merges:
            finish(device, merge, migration.MIGRATION_STATE_DONE)
        device, merge = merges[0]
        request = migration.UndoMigrationRequest(migration_id=merge)
        by_either(
            lambda world: world.migrations.UndoMigration(request, metadata=device.metadata, timeout=10),
            time.monotonic() + 60,
        )
        finish(device, merge, migration.MIGRATION_STATE_UNDONE)
        assert kills, "nobody was killed while there was something to do"
    finally:
        over.set()
        thread.join()
    pair.open()
    for device, _ in merges:
        device.world = pair
    print(f"{len(kills)} kills")
    for (device, _), count in zip(merges, (0, *rows[1:])):
        assert len(patiently(lambda: contents(device, "cart"))) == count


def test_handed_over(pair):
    """C14: a merge that an identity instance wrote down before it was killed is handed over by the other one"""
    owner, device = pair.device(), pair.device()
    identifier = unique_identifier()
    owner.start_as_guest()
    owner.register(identifier)
    device.start_as_guest()
    device.put([record("cart", f"k{number}") for number in range(20)])
    migrators = [pair.fleet[name] for name in ("migrator", "migrator-2")]
    ticket = device.authenticate(identifier).conflict.link_ticket
    for migrator in migrators:
        migrator.kill()
    answer = device.choose(ticket, auth_service_pb2.ON_CONFLICT_MERGE)
    assert not answer.account_change.migration_id
    pair.fleet["identity"].kill()
    try:
        migrators[1].start()
        owner.world = pair.at(2)
        eventually(lambda: patiently(owner.collections).get("cart") == 20, seconds=120)
    finally:
        pair.fleet["identity"].start()
        migrators[0].start()
        pair.open()


def test_guesses(pair):
    """C8: an account that types wrong codes at two instances in turn has as many tries as at one"""
    phone, screen = pair.account(), pair.device()
    worlds = (pair, pair.at(2))

    def type_code(world, code):
        request = qr_session_service_pb2.ScanSessionRequest(user_code=code)
        deadline = time.monotonic() + 30
        while True:
            try:
                world.qr.ScanSession(request, metadata=phone.metadata, timeout=10)
            except grpc.RpcError as error:
                # An instance that was not heard of for a while lets nobody in, and counts no try.
                if not is_away(error) or time.monotonic() > deadline:
                    return error.code()
                time.sleep(0.2)
            else:
                return grpc.StatusCode.OK

    for number in range(5):
        assert type_code(worlds[number % 2], "BCDF-GHJK") == grpc.StatusCode.NOT_FOUND
    code = screen.issue_qr().user_code
    for world in worlds:
        assert type_code(world, code) == grpc.StatusCode.RESOURCE_EXHAUSTED


def verify_audit(world):
    stub = audit_service_pb2_grpc.AuditServiceStub(world.channel("identity"))
    metadata = bearer(world.service_token())
    return stub.VerifyAuditLog(audit_service_pb2.VerifyAuditLogRequest(), metadata=metadata, timeout=30)


def test_audit_log(pair, server):
    """C18: the chains of two instances verify together; what is cut off the end of one whose instance was killed is found"""
    second = pair.at(2)
    for world in (pair, second) * 4:
        world.device().start_as_guest()
    device = second.device()
    device.start_as_guest()
    last = f"""
        SELECT chain, seq FROM identity.audit_events
        WHERE sub = '{uuid.UUID(bytes=from_base64url(device.subject.sub))}' ORDER BY place DESC LIMIT 1
    """
    chain, number = server.query(last).split("|")
    pair.fleet["identity-2"].kill()
    assert patiently(lambda: verify_audit(pair)).intact
    sealed = f"SELECT count(*) FROM identity.audit_events WHERE kind = 'log_sealed' AND detail ~ '{chain}:{number}:' AND chain <> {chain}"
    eventually(lambda: server.query(sealed) != "0", seconds=60)
    assert verify_audit(pair).intact
    server.query(f"DELETE FROM identity.audit_events WHERE chain = {chain} AND seq >= {number}")
    assert not verify_audit(pair).intact
    pair.fleet["identity-2"].start()
