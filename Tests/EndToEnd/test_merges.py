"""Merges that are listed, decided about and taken back, by a stock gRPC client and by the command-line tool."""

import json
import random
import threading
import time

import grpc
import pytest
from latchkey.identity.v1 import auth_service_pb2
from latchkey.migration.v1 import migration_service_pb2 as migration
from world import is_away, record, refused, unique_identifier

PASSWORD = "a good long password\n"


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def merged(world, guest_rows, account_rows):
    """An account's first phone, a second one that was a guest, and the merge of that guest into the account."""
    first, second = world.device(), world.device()
    identifier = unique_identifier()
    first.start_as_guest()
    first.register(identifier)
    first.put(account_rows)
    guest = second.start_as_guest().subject.sub
    second.put(guest_rows)
    ticket = second.authenticate(identifier).conflict.link_ticket
    answer = second.choose(ticket, auth_service_pb2.ON_CONFLICT_MERGE)
    done = second.watch_merge(second.begun_merge(answer.account_change))[-1]
    assert done.state == migration.MIGRATION_STATE_DONE
    return second, guest, done


def undo(world, device, merge):
    request = migration.UndoMigrationRequest(migration_id=merge.migration_id)
    return world.migrations.UndoMigration(request, metadata=device.metadata, timeout=10)


def patiently(world, call):
    """The answer of a call that is repeated while services start and find each other again."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return call()
        except grpc.RpcError as error:
            if not is_away(error) or time.monotonic() > deadline:
                raise
        world.open()
        time.sleep(0.05)


def contents(device, collection):
    return {key: (row.value, row.number) for key, row in device.rows(collection).items()}


def test_undo(world):
    """R39: who merged by mistake takes it back: the account has what it had, and the device is that guest again"""
    guest_rows = [record("cart", f"k{number}", b"guest", number) for number in range(700)]
    account_rows = [record("cart", f"k{number}", b"account", 1) for number in range(300, 1000)]
    second, guest, done = merged(world, guest_rows, account_rows)
    assert done.undo_until.seconds > time.time() + 6 * 86_400
    assert len(second.rows("cart")) == 1000
    listed = world.migrations.ListMigrations(
        migration.ListMigrationsRequest(), metadata=second.metadata, timeout=10
    ).migrations
    assert [merge.migration_id for merge in listed] == [done.migration_id] and not listed[0].report
    assert undo(world, second, done).begun
    assert second.watch_merge(done.migration_id)[-1].state == migration.MIGRATION_STATE_UNDONE
    assert not undo(world, second, done).begun
    assert contents(second, "cart") == {row.key: (row.value, row.number) for row in account_rows}
    again = second.start_as_guest()
    assert again.subject.sub == guest and not again.created
    assert contents(second, "cart") == {row.key: (row.value, row.number) for row in guest_rows}


# One text to Unicode, four keys to a store; and one that begins with a mark that joins with what is before it.
FORMS = ["\u212b", "\u00c5", "A\u030a", "\u0301", "\u0301b"]


def test_keys_are_bytes(world):
    """M1: rows whose keys differ only by their Unicode form all arrive, and all come back"""
    guest_rows = [record("cart", key, b"guest " + key.encode(), 1) for key in FORMS]
    account_rows = [record("cart", key, b"account " + key.encode(), 2) for key in FORMS[1:4]]
    second, guest, done = merged(world, guest_rows, account_rows)
    assert (done.report[0].moved, done.report[0].summed) == (2, 3)
    assert {key: number for key, (_, number) in contents(second, "cart").items()} == dict(zip(FORMS, [1, 3, 3, 3, 1]))
    assert undo(world, second, done).begun
    assert second.watch_merge(done.migration_id)[-1].state == migration.MIGRATION_STATE_UNDONE
    assert contents(second, "cart") == {row.key: (row.value, row.number) for row in account_rows}
    assert second.start_as_guest().subject.sub == guest
    assert contents(second, "cart") == {row.key: (row.value, row.number) for row in guest_rows}


def test_undo_where_another_guest_lives(world):
    """G2: a device that is another guest's by now keeps it, and the merge stays"""
    second, guest, done = merged(world, [record("cart", "a", b"guest")], [record("cart", "b", b"account")])
    tokens = second.tokens
    other = second.start_as_guest().subject.sub
    assert other != guest
    second.tokens = tokens
    assert undo(world, second, done).begun
    end = second.watch_merge(done.migration_id)[-1]
    assert end.state == migration.MIGRATION_STATE_DONE and "another guest" in end.failure
    assert set(second.rows("cart")) == {"a", "b"}
    assert second.start_as_guest().subject.sub == other


def test_killed_while_taking_back(own_world):
    """R39: kill -9 of the migrator and of identity again and again while a merge is taken back: nothing is lost"""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    lot = random.Random(seed)
    guest_rows = [record("cart", f"k{number}", b"guest", number) for number in range(3000)]
    account_rows = [record("cart", f"k{number}", b"account", 1) for number in range(1500, 4500)]
    second, guest, done = merged(own_world, guest_rows, account_rows)
    undo(own_world, second, done)
    over = threading.Event()

    def killer():
        while not over.wait(lot.uniform(0.02, 0.2)):
            own_world.fleet[lot.choice(["migrator", "migrator", "identity"])].restart()

    thread = threading.Thread(target=killer)
    thread.start()
    try:
        deadline = time.monotonic() + 60
        state = None
        while state != migration.MIGRATION_STATE_UNDONE and time.monotonic() < deadline:
            state = patiently(own_world, lambda: second.merge(done.migration_id).state)
            time.sleep(0.02)
            if time.monotonic() > deadline - 40:
                over.set()
    finally:
        over.set()
        thread.join()
    own_world.open()
    assert state == migration.MIGRATION_STATE_UNDONE
    kept = patiently(own_world, lambda: contents(second, "cart"))
    assert kept == {row.key: (row.value, row.number) for row in account_rows}
    assert second.start_as_guest().subject.sub == guest
    assert contents(second, "cart") == {row.key: (row.value, row.number) for row in guest_rows}


@pytest.fixture
def phone(world, cli):
    """The profile "phone": an account whose guest of before was left behind on the device, to be merged by a plan."""
    identifier = unique_identifier()
    cli(world, "first", "register", identifier, "--password-file", "-", stdin=PASSWORD)
    cli(world, "first", "record", "put", stdin=lines({"collection": "cart", "key": "a", "value": "1", "number": 1}))
    cli(world, "phone", "guest")
    cli(world, "phone", "record", "put", stdin=lines(
        {"collection": "cart", "key": "a", "value": "2", "number": 2},
        {"collection": "cart", "key": "b", "value": "3", "number": 3},
    ))  # fmt: skip
    conflict = cli(world, "phone", "login", identifier, "--password-file", "-", status=2, stdin=PASSWORD)["conflict"]
    cli(world, "phone", "login", "--ticket", conflict["link_ticket"], "--on-conflict", "switch")

    def run(*arguments, **options):
        return cli(world, "phone", *arguments, **options)

    return run


def test_ask(phone):
    """G17: what a plan leaves to a person is listed with both rows, decided once, and taken back with the rest"""
    phone("migrate", "plan", "--policy", "cart=ask")
    phone("migrate", "start")
    merge = phone("migrate", "watch")
    assert (merge["report"][0]["moved"], merge["report"][0]["asked"]) == (1, 1)
    assert phone("record", "get", "cart", "a")["number"] == 1
    (conflict,) = phone("migrate", "conflicts")["conflicts"]
    assert (conflict["key"], conflict["reason"]) == ("a", "ask")
    assert (conflict["guest"]["number"], conflict["account"]["number"]) == (2, 1)
    revision = conflict["account"]["revision"]
    stale = phone("migrate", "resolve", "cart", "a", "sum", "--expected-revision", str(revision + 1), status=69)
    assert stale["error"]["reason"] == "REVISION_MISMATCH"
    assert phone("migrate", "resolve", "cart", "a", "sum", "--expected-revision", str(revision))["resolved"]
    assert not phone("migrate", "resolve", "cart", "a", "sum")["resolved"]
    assert phone("record", "get", "cart", "a")["number"] == 3
    assert phone("migrate", "conflicts")["conflicts"] == []
    assert phone("migrate", "undo")["state"] == "undone"
    assert phone("record", "get", "cart", "a")["number"] == 1
    assert [merge["state"] for merge in phone("migrate", "list")["merges"]] == ["undone"]


def test_append(phone):
    """G17: APPEND keeps both records of one name, the guest's under a key of its own"""
    phone("migrate", "plan", "--policy", "cart=append")
    phone("migrate", "start")
    merge = phone("migrate", "watch")
    assert merge["report"][0]["moved"] == 2
    rows = {row["key"]: row["value"] for row in phone("record", "list", "cart")["records"]}
    assert rows == {"a": "1", "b": "3", f"a~{merge['migration_id'][:8]}": "2"}


def ready(world, rows):
    """A device whose guest has so many rows, and begins to merge them when it is called."""
    owner, device = world.device(), world.device()
    identifier = unique_identifier()
    owner.start_as_guest()
    owner.register(identifier)
    device.start_as_guest()
    for first in range(0, rows, 5000):
        device.put([record("cart", f"k{number:06}") for number in range(first, min(first + 5000, rows))])
    ticket = device.authenticate(identifier).conflict.link_ticket

    def begin():
        return device, device.begun_merge(device.choose(ticket, auth_service_pb2.ON_CONFLICT_MERGE).account_change)

    return begin


def test_small_beside_large(own_world):
    """M6: merges take turns: a small one that comes last is done while every large one is still under way"""
    world = own_world
    world.fleet.arguments = world.fleet.arguments | {
        "migrator": ["--records-guest-count", "30000", "--records-account-count", "30000"]
    }
    world.fleet["migrator"].restart()
    world.open()
    begin_large, begin_small = [ready(world, 30_000) for _ in range(3)], ready(world, 50)
    large = [begin() for begin in begin_large]
    small, merge = begin_small()
    first = small.watch_merge(merge)[-1]
    assert first.state == migration.MIGRATION_STATE_DONE
    for device, other in large:
        done = device.watch_merge(other)[-1]
        assert done.state == migration.MIGRATION_STATE_DONE and done.report[0].moved == 30_000
        # By the service's own clock: whoever looks may be late.
        assert first.finished_at.ToNanoseconds() < done.finished_at.ToNanoseconds()


def test_guests_full(own_world):
    """R54: what all guests store is bounded in bytes: the next is told by which key, accounts go on, and a merge makes room"""
    own_world.fleet.arguments = own_world.fleet.arguments | {"migrator": ["--records-guest-total-mib", "1"]}
    own_world.fleet["migrator"].restart()
    own_world.open()
    large = [record("cart", f"k{number}", bytes(60_000)) for number in range(17)]
    second, _, done = merged(own_world, [record("cart", "mine")], [])
    device = own_world.device()
    device.start_as_guest()
    assert device.put(large) == 17
    other = own_world.device()
    other.start_as_guest()
    # Small ones count for what they take on the disk.
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "RECORDS_FULL") as caught:
        other.put([record("cart", f"k{number}") for number in range(200)])
    assert caught[0].info == {"bound": "guestTotal"} and "records.guestTotalMib" in caught[0].message
    assert second.put(large) == 17
    assert device.put([record("cart", "k0", b"less")]) == 1
    # Who becomes an account leaves the guests' room to the others.
    device.register(unique_identifier())
    assert device.collections()
    assert other.put([record("cart", f"k{number}") for number in range(200)]) == 200
    # What a merge takes away from its guest is no guest's any more.
    merged(own_world, large[1:], [])
    third = own_world.device()
    third.start_as_guest()
    assert third.put(large[1:]) == 16


def test_full(own_world):
    """R40: a subject that stores as much as it may is told so by name, and keeps what it has"""
    own_world.fleet.arguments = own_world.fleet.arguments | {
        "migrator": ["--records-guest-count", "5", "--records-account-count", "5"]
    }
    own_world.fleet["migrator"].restart()
    own_world.open()
    device = own_world.device()
    device.start_as_guest()
    assert device.put([record("cart", f"k{number}") for number in range(5)]) == 5
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "RECORDS_FULL") as caught:
        device.put([record("cart", "more")])
    assert caught[0].info == {"bound": "records"} and caught[0].retry_after is None
    assert device.put([record("cart", "k0", b"again")]) == 1
    # A migration takes the account further rather than lose a record.
    second, _, done = merged(own_world, [record("cart", f"g{number}") for number in range(5)],
                             [record("cart", f"a{number}") for number in range(5)])  # fmt: skip
    assert done.report[0].moved == 5 and len(second.rows("cart")) == 10
