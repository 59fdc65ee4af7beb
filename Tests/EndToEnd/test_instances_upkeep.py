"""Upkeep of two identities over one PostgreSQL: what one of them is at when it stands still, or dies, the other does, once."""

import concurrent.futures
import contextlib
import pathlib
import shutil
import subprocess
import tempfile
import time
import uuid

import grpc
import moved_clock
import postgresql
import pytest
import test_instances_feed
from latchkey.identity.v1 import auth_service_pb2, guest_service_pb2
from latchkey.migration.v1 import migration_service_pb2 as migration
from test_instances_work import patiently, verify_audit
from waiting import eventually
from world import UNTHROTTLED, World, from_base64url, record, unique_identifier

# The Swift side's `mergeHandover`, `purgeLease` and `mergeLease`, `retentionLease`, `retentionInterval` and `auditTrimInterval`,
# in seconds; and a day in milliseconds.
HANDOVER, LEASE, CHORE, ROUND, HOUR = 5, 20, 300, 6 * 3600, 3600
DAY = 86_400_000


@pytest.fixture(scope="module")
def clock():
    """The database's and the services', ahead by as much as a test says; who waits for a while can be hurried."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="lkclock-"))
    # The database is another user's.
    folder.chmod(0o755)
    moved = moved_clock.MovedClock(folder, may_hurry=True)
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
    """Two identities and two migrators, each identity with a migrator of its own."""
    folder = tmp_path_factory.mktemp("upkeep")
    arguments = UNTHROTTLED | {"identity": ["--audit-retention", "1h"]}
    fleet = postgresql.fleet(binaries, folder / "fleet", server, arguments, instances=2)
    fleet.environment = clock.clock.environment
    postgresql.ask_each_other(fleet, 2)
    fleet.arguments["identity-2"] += ["--storage-url", server.url("identity-2")]
    # No code is asked for.
    fleet.services = {name: service for name, service in fleet.services.items() if service.kind != "qr"}
    with fleet:
        yield World(fleet)


@contextlib.contextmanager
def standing_still(*services):
    """Others than the one that is struck, so that this one has all to do."""
    for service in services:
        service.freeze()
    try:
        yield
    finally:
        for service in services:
            service.thaw()


def strike(service, how):
    if how == "killed":
        service.kill()
    else:
        service.freeze()


def come_back(service, how):
    if how == "killed":
        service.start()
    else:
        service.thaw()
        service.wait_until_ready()


class Held:
    """Keeps rows locked for as long as the block: who wants one of them waits in the midst of a transaction."""

    def __init__(self, server, *rows):
        self.url = f"postgresql://{postgresql.USER}@127.0.0.1:{server.port}/latchkey"
        self.tool, self.rows = server.tools / "psql", rows

    def __enter__(self):
        secret = {"PGPASSWORD": postgresql.PASSWORD}
        self.psql = subprocess.Popen(
            [self.tool, "-XAtq", self.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=secret
        )
        locks = "".join(f"SELECT 'held' FROM {rows} FOR UPDATE;\n" for rows in self.rows)
        self.psql.stdin.write(f"BEGIN;\n{locks}")
        self.psql.stdin.flush()
        for _ in self.rows:
            assert self.psql.stdout.readline() == "held\n"

    def __exit__(self, *_):
        self.psql.stdin.close()
        self.psql.wait()
        self.psql.stdout.close()


def transactions(server, which):
    """How many of the second identity's connections are like that."""
    of_them = f"SELECT count(*) FROM pg_stat_activity WHERE application_name = 'latchkey-identity-2' AND {which}"
    return int(server.query(of_them))


def waiting(server):
    """How many transactions of the second identity wait for a row."""
    return transactions(server, "wait_event_type = 'Lock'")


def row_name(text):
    return str(uuid.UUID(bytes=from_base64url(text)))


def names(devices):
    """Of their subjects, for a statement."""
    return ", ".join(f"'{row_name(device.subject.sub)}'" for device in devices)


def picture(server, devices):
    """What there is of these people, and what was recorded of them."""
    theirs = f"sub IN ({names(devices)})"
    guests = f"guest_{theirs}"
    return [
        server.query(f"{rows} ORDER BY 1, 2")
        for rows in (
            f"SELECT sub, attempts FROM identity.purges WHERE {theirs}",
            f"SELECT merge_id, state, attempts, migration_id FROM identity.merges WHERE {guests}",
            f"SELECT sub, kind, deleted_at FROM identity.subjects WHERE {theirs}",
            f"SELECT sid, ended_at FROM identity.sessions WHERE {theirs}",
            f"SELECT sub, kind, count(*) FROM identity.audit_events WHERE {theirs} GROUP BY 1, 2",
            f"SELECT id, phase, done FROM migration.migrations WHERE {guests.replace('guest_sub', 'guest')}",
            f"SELECT sub, records, is_deleted FROM migration.subjects WHERE {theirs}",
            f"SELECT sub, count(*) FROM migration.records WHERE {theirs} GROUP BY 1",
        )
    ]


def expect_unchanged(server, devices, service, how):
    """By who was struck and comes back."""
    before = picture(server, devices)
    come_back(service, how)
    # For calls that were under way, and for its next rounds.
    time.sleep(1.5)
    assert picture(server, devices) == before


def deletions(server, devices):
    """How many of these guests were deleted, and how often that is on record."""
    events = f"SELECT count(*) FROM identity.audit_events WHERE kind = 'guest_deleted' AND sub IN ({names(devices)})"
    rows = f"SELECT count(*) FROM identity.subjects WHERE deleted_at IS NOT NULL AND sub IN ({names(devices)})"
    return int(server.query(rows)), int(server.query(events))


def guests(world, count):
    def start(_):
        device = world.device()
        patiently(device.start_as_guest)
        return device

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return list(pool.map(start, range(count)))


def leave(device):
    """Deletes a guest, and does not wait for its records to be gone."""
    request = guest_service_pb2.DeleteGuestRequest(sub=device.subject.sub)
    with contextlib.suppress(grpc.RpcError):
        device.world.guests.DeleteGuest(request, metadata=device.metadata, timeout=1)


def taken(server, clock):
    """A purge and a merge that an identity took just now, and asks its migrator for."""
    now = round((time.time() + clock.ahead) * 1000)
    # Those that are only put off wait for less.
    purge = f"SELECT sub FROM identity.purges WHERE next_attempt_at > {now + 12_500}"
    merge = f"SELECT merge_id FROM identity.merges WHERE state = 0 AND next_attempt_at > {now + 18_800}"
    found = [server.query(purge), server.query(merge)]
    return found if all(found) else None


@pytest.mark.parametrize("how", ["paused", "killed"])
def test_purges_and_merges(pair, server, clock, how):
    """C14: a purge and a merge that an identity has taken when it stands still, or is killed, another one takes after it and does
    once; and the first, come back, changes nothing"""
    second = pair.at(2)
    victim, other, migrator = pair.fleet["identity-2"], pair.fleet["identity"], pair.fleet["migrator-2"]
    left, identifier = guests(second, 5), unique_identifier()
    owner, (merging,) = second.account(identifier=identifier), guests(second, 1)
    for device in (*left, merging):
        device.put([record("cart", f"k{number}") for number in range(20)])
    ticket = merging.authenticate(identifier).conflict.link_ticket
    guest = merging.subject
    with standing_still(other, migrator):
        assert not merging.choose(ticket, auth_service_pb2.ON_CONFLICT_MERGE).account_change.migration_id
        merging.subject = guest
        clock.ahead += HANDOVER
        with concurrent.futures.ThreadPoolExecutor(len(left)) as pool:
            list(pool.map(leave, left))
        purge, merge = eventually(lambda: taken(server, clock), "they are not taken", longest=0.01)
        strike(victim, how)
        print("taken:", purge, merge)
    everybody = [*left, merging]
    try:
        # What it had not taken it keeps nobody from.
        eventually(lambda: server.query("SELECT sub FROM identity.purges") == purge, "the others are not purged")
        time.sleep(0.5)
        assert server.query("SELECT sub FROM identity.purges") == purge
        assert server.query(f"SELECT state FROM identity.merges WHERE merge_id = '{merge}'") == "0"
        clock.ahead += LEASE + 1
        eventually(lambda: not server.query("SELECT sub FROM identity.purges"), "it is not purged")
        done = f"SELECT phase FROM migration.migrations WHERE guest = '{row_name(guest.sub)}'"
        eventually(lambda: server.query(done) == "done", "it is not merged")
        assert server.query(f"SELECT state FROM identity.merges WHERE merge_id = '{merge}'") == "2"
    except BaseException:
        come_back(victim, how)
        raise
    expect_unchanged(server, everybody, victim, how)
    assert deletions(server, left) == (5, 5)
    assert server.query(f"SELECT count(*) FROM migration.records WHERE sub IN ({names(everybody)})") == "0"
    assert server.query(f"SELECT count(*) FROM migration.subjects WHERE is_deleted AND sub IN ({names(left)})") == "5"
    owner.world = pair
    assert patiently(owner.collections) == {"cart": 20}
    (state,) = pair.migrations.ListMigrations(migration.ListMigrationsRequest(), metadata=owner.metadata, timeout=10).migrations
    assert state.state == migration.MIGRATION_STATE_DONE


def unused(server, clock, devices):
    """Has it that these guests were last used for long ago, in this order."""
    old = round((time.time() + clock.ahead) * 1000) - 200 * DAY
    rows = ", ".join(f"('{row_name(device.subject.sub)}'::uuid, {old + 60_000 * place})" for place, device in enumerate(devices))
    uses = f"(VALUES {rows}) AS uses (sub, at)"
    server.query(f"UPDATE identity.subjects SET last_seen_at = uses.at FROM {uses} WHERE subjects.sub = uses.sub")
    server.query(f"UPDATE identity.sessions SET rotated_at = {old} WHERE sub IN ({names(devices)})")


def hurried(clock, seconds, condition):
    """Has it be time for the next round until the condition comes about: one is in vain where so much time seems to have gone by
    that nobody knows who has signed out."""
    for _ in range(10):
        clock.clock.hurry(seconds)
        end = time.monotonic() + 3
        while time.monotonic() < end:
            if condition():
                return
            time.sleep(0.01)
    raise AssertionError("it has not come about")


def in_a_change(server, clock, victim, devices, how):
    """Strikes who deletes these guests in the midst of a deletion."""
    with Held(server, f"identity.subjects WHERE sub IN ({names([devices[30]])})"):
        hurried(clock, ROUND, lambda: waiting(server))
        strike(victim, how)


def between_two(server, clock, victim, devices, how):
    """Strikes who deletes these guests while a deletion is just being committed. That takes long here, so that it is seldom
    anything else that is under way."""

    def commits_take(microseconds):
        for setting in (f"commit_delay = {microseconds}", "commit_siblings = 0"):
            server.query(f"ALTER SYSTEM SET {setting}")
        server.query("SELECT pg_reload_conf()")

    commits_take(100_000)
    hurried(clock, ROUND, lambda: deletions(server, devices)[0] > 10)
    strike(victim, how)
    time.sleep(0.4)
    while transactions(server, "state = 'idle in transaction'"):
        victim.thaw()
        time.sleep(0.03)
        strike(victim, how)
        time.sleep(0.4)
    commits_take(0)


@pytest.mark.parametrize(("how", "moment"), [("paused", in_a_change), ("paused", between_two), ("killed", in_a_change)])
def test_retention(pair, server, clock, how, moment):
    """C14: while an identity that deletes unused guests stands still, or is killed, nobody else does before its turn is over;
    then another one deletes the rest, each once, and the first, come back, deletes nobody"""
    second = pair.at(2)
    victim, other = pair.fleet["identity-2"], pair.fleet["identity"]
    devices = guests(second, 64)
    owners = [devices[5], devices[20], devices[62]]
    for device in owners:
        device.put([record("cart", "mine")])
    unused(server, clock, devices)
    used = devices[50]
    logged = len(victim.log_path.read_text())
    with standing_still(other):
        moment(server, clock, victim, devices, how)
    try:
        deleted = deletions(server, devices)
        time.sleep(1.5)
        # The other one has been at it, too.
        assert deletions(server, devices) == deleted and 10 < deleted[0] == deleted[1] < 40
        used.world = pair
        patiently(used.refresh)
        clock.ahead += CHORE + 1
        # A transaction that stands still has to be given up first.
        hurried(clock, ROUND, lambda: deletions(server, devices)[0] == 60)
        # Whoever goes on with what they knew before would delete this one.
        unused(server, clock, [used])
        eventually(lambda: not server.query("SELECT sub FROM identity.purges"), "nobody is purged")
    except BaseException:
        come_back(victim, how)
        raise
    expect_unchanged(server, devices, victim, how)
    assert deletions(server, devices) == (60, 60)
    if how == "paused":
        said = [line for line in victim.log_path.read_text()[logged:].splitlines() if "the retention was broken off" in line]
        print(f"after {deleted[0]}:", said[-1])
    kept = f"SELECT sub FROM identity.subjects WHERE deleted_at IS NULL AND sub IN ({names(devices)})"
    assert set(server.query(kept).splitlines()) == {row_name(device.subject.sub) for device in (*owners, used)}
    assert all(patiently(device.collections) == {"cart": 1} for device in owners)


@pytest.mark.parametrize("how", ["paused", "killed"])
def test_expiry(pair, server, clock, how):
    """C14: an identity that stands still, or is killed, while it forgets old sessions and trims the audit log keeps the other one
    from it for seconds; the log goes on where it was, and the first, come back, changes nothing"""
    second = pair.at(2)
    victim, other = pair.fleet["identity-2"], pair.fleet["identity"]
    devices = guests(second, 20)
    clock.ahead += HOUR + 60
    young = guests(pair, 3)
    now = round((time.time() + clock.ahead) * 1000)
    ended = f"identity.sessions WHERE sub IN ({names(devices)})"
    over = f"ended_at = {now - 31 * DAY}, end_reason = 1, ended_in = 1"
    server.query(f"UPDATE identity.sessions SET {over} WHERE sub IN ({names(devices)})")
    old = f"SELECT count(*) FROM identity.audit_events WHERE at < {now - 1000 * HOUR}"
    assert int(server.query(old)) > 20
    event = "identity.audit_events WHERE place = (SELECT min(place) FROM identity.audit_events)"
    # It was granted by a code.
    granted = f"SELECT 'code {how}', min(sid::text)::uuid, {now} FROM {ended}"
    server.query(f"INSERT INTO identity.qr_grants (qr_session_id, sid, created_at) {granted}")
    with standing_still(other), Held(server, event, f"identity.qr_grants WHERE qr_session_id = 'code {how}'"):
        hurried(clock, HOUR, lambda: waiting(server) > 1)
        strike(victim, how)
    try:
        hurried(clock, HOUR, lambda: not int(server.query(old)) + int(server.query(f"SELECT count(*) FROM {ended}")))
    except BaseException:
        come_back(victim, how)
        raise
    expect_unchanged(server, [*devices, *young], victim, how)
    assert deletions(server, [*devices, *young]) == (0, 0)
    started = f"SELECT count(*) FROM identity.audit_events WHERE kind = 'session_began' AND sub IN ({names(young)})"
    assert server.query(started) == "3"
    for world in (pair, second):
        assert patiently(lambda world=world: verify_audit(world)).intact
