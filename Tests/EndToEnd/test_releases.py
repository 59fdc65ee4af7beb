"""This release and the next one over one PostgreSQL. The next one is not there to be run: what it would do to the tables, and
the rows that it would write, are planted as SQL; the release that runs is the old one beside it. Where OLDER has
an older one's executables, those run beside this one's as well."""

import contextlib
import json
import os
import pathlib
import random
import subprocess
import threading
import time
import urllib.error
import uuid

import grpc
import postgresql
import pytest
import services
from latchkey.migration.v1 import migration_service_pb2 as migration
from test_merges import ready
from test_postgresql import Visitors, readiness, sign_in
from waiting import eventually
from world import UNTHROTTLED, World, from_base64url

PARTS = {"identity": "identity", "qr": "qr", "migrator": "migration"}
# The last step that this release knows, of each part.
KNOWN = {"identity": 2, "qr": 3, "migration": 2}
WAITS = {"*": ["--storage-schema", "wait"]}

server = postgresql.serving()


@pytest.fixture
def pair(binaries, tmp_path, server):
    """Two instances of each service; the second ones ask each other."""
    fleet = postgresql.fleet(binaries, tmp_path / "fleet", server, UNTHROTTLED, instances=2)
    postgresql.ask_each_other(fleet, 2)
    with fleet:
        yield World(fleet)


@pytest.fixture
def schema(binaries, server, tmp_path):
    """`latchkey admin schema …`: (exit status, its JSON answer)"""
    password = tmp_path / "password"
    password.touch(mode=0o600)
    password.write_text(postgresql.PASSWORD + "\n")

    def command(*words, user=postgresql.USER):
        url = server.url("admin").replace(f"{postgresql.USER}@", f"{user}@")
        return [str(binaries / "latchkey"), "admin", "schema", *words, "--to", url, "--database-password-file", str(password), "--json"]

    def run(*words, **options):
        done = subprocess.run(command(*words, **options), capture_output=True, text=True, timeout=120, env=services.clean_environment())
        return done.returncode, json.loads(done.stdout)

    run.command = command
    return run


def tables(server, part):
    listed = server.query(f"SELECT tablename FROM pg_tables WHERE schemaname = '{part}' AND tablename NOT LIKE 'next_%'")
    return [name for name in listed.splitlines() if name != "latchkey_schema"]


def expand(server, part):
    """What the next release would do: a table, a column of each table, an index on it, each a step of its own."""
    last = KNOWN[part]

    def take(*steps):
        nonlocal last
        transactions = []
        for step in steps:
            last += 1
            note = f"INSERT INTO {part}.latchkey_schema VALUES ({last}, 'step {last}', 0, 1, 2) ON CONFLICT DO NOTHING"
            transactions.append(f"BEGIN; {step}; {note}; COMMIT")
        for _ in range(20):
            with contextlib.suppress(subprocess.CalledProcessError):
                return server.query("SET lock_timeout = '200ms'; SET client_min_messages = 'error'; " + "; ".join(transactions))
            time.sleep(0.1)
        raise AssertionError(f"no lock for {steps}")

    take(f"CREATE TABLE IF NOT EXISTS {part}.next_things (id bigint PRIMARY KEY)")
    for table in tables(server, part):
        take(
            f"ALTER TABLE {part}.{table} ADD COLUMN IF NOT EXISTS next_flag bigint NOT NULL DEFAULT 7",
            f"ALTER TABLE {part}.{table} ADD COLUMN IF NOT EXISTS next_note text",
            f"CREATE INDEX IF NOT EXISTS {table}_by_next_flag ON {part}.{table} (next_flag)",
        )
    return last


def everything(world, other):
    """People, codes and a merge, over both worlds' instances."""
    phone, screen = world.account(), other.device()
    code = screen.issue_qr()
    scan = phone.scan(code.qr_payload)
    phone.confirm(scan, code.check_code)
    tokens = eventually(lambda: screen.poll().tokens.access_token)
    assert phone.introspect(tokens).active
    phone.refresh()
    device, merge = ready(world, 50)()
    assert device.watch_merge(merge)[-1].state == migration.MIGRATION_STATE_DONE
    assert len(device.rows("cart")) == 50
    return phone


def test_next_release_expands(pair, server, schema):
    """C10: while the next release expands the tables under load, and after it, this one serves and starts again, beside others of its own"""
    seconds = pair.at(2)
    with Visitors(pair, pause=0.03) as visitors:
        time.sleep(0.5)
        last = {part: expand(server, part) for part in PARTS.values()}
        time.sleep(0.5)
    assert not visitors.other, visitors.other[:3]
    assert len(visitors.answered) > 20
    everything(pair, seconds)
    for name in services.NAMES:
        pair.fleet[name].restart()
    everything(pair, seconds)
    for name in services.NAMES:
        pair.fleet[f"{name}-2"].restart()
    everything(seconds, pair)
    # Its own job finds nothing to do and harms nothing, and what is of the newer release is told apart.
    for words in (["status"], ["apply"], ["apply", "--contract"], ["status"]):
        status, answer = schema(*words)
        assert status == 0 and answer["usable"], answer
    for found in answer["schemas"]:
        assert (found["known"], found["needed"], found["missing"]) == (KNOWN[found["schema"]], 0, [])
        assert [step["step"] for step in found["steps"]] == list(range(1, last[found["schema"]] + 1))
        assert {user["knows"] for user in found["instances"]} == {KNOWN[found["schema"]]}
    # Those that were killed are missed after five seconds.
    eventually(lambda: [len(found["instances"]) for found in schema("status")[1]["schemas"]] == [2, 2, 2])
    pair.assert_alive()


def test_releases_side_by_side(binaries, tmp_path, server, schema):
    """C10: an installation goes from one release to the next and back under load, instance by instance, and each instance meets those
    of the other release: OLDER names a folder with the older one's executables"""
    older = pathlib.Path(os.environ.get("OLDER", binaries))
    fleet = postgresql.fleet(binaries, tmp_path / "fleet", server, UNTHROTTLED, instances=2)
    postgresql.ask_each_other(fleet, 2)

    def move(suffix, executables):
        for name in services.NAMES:
            service = fleet[name + suffix]
            service.executables = executables
            assert service.stop() == 0
            service.start()

    for service in fleet.services.values():
        service.executables = older
    with fleet:
        pair = World(fleet)
        seconds = pair.at(2)
        signed_in = [everything(pair, seconds)]
        # The job comes before the release whose tables it makes.
        status, answer = schema("apply")
        assert status == 0, answer
        with Visitors(seconds, pause=0.03) as visitors:
            move("", binaries)
        signed_in += [everything(pair, seconds), everything(seconds, pair)]
        with Visitors(pair, pause=0.03) as others:
            move("-2", binaries)
            signed_in.append(everything(seconds, pair))
            move("-2", older)
        signed_in += [everything(pair, seconds), everything(seconds, pair)]
        for seen in (visitors, others):
            assert not seen.other and len(seen.answered) > 20, seen.other[:3]
        for number, phone in enumerate(signed_in):
            phone.world = (pair, seconds)[number % 2]
            phone.refresh()
            assert phone.introspect().active
        pair.assert_alive()


def test_rows_of_the_next_release(pair, server):
    """C10: rows that only the next release can read keep this one from nothing: it passes them over, and an ended session has ended"""
    seconds = pair.at(2)
    phone = everything(pair, seconds)
    ended = pair.account()
    assert ended.introspect().active
    screen = seconds.device()
    code = screen.issue_qr()
    # A code of a kind of its own, another in a state of its own, and the news of it.
    server.query(
        f"""
        CREATE TEMP TABLE new AS SELECT * FROM qr.qr_sessions ORDER BY issued_at DESC LIMIT 1;
        UPDATE new SET id = '{uuid.UUID(int=1)}', poll_hash = sha256('a'), reference_hash = sha256('b'),
          user_code_hash = sha256('c'), purpose = 99;
        INSERT INTO qr.qr_sessions SELECT * FROM new;
        UPDATE new SET id = '{uuid.UUID(int=2)}', poll_hash = sha256('d'), reference_hash = sha256('e'),
          user_code_hash = sha256('f'), state = 99, purpose = 1;
        INSERT INTO qr.qr_sessions SELECT * FROM new;
        INSERT INTO qr.qr_changes (poll_hash, version, state, issued_at, expires_at)
          SELECT poll_hash, 2, 99, issued_at, expires_at FROM qr.qr_sessions
        """
    )
    # A merge in a phase of its own, the first in the queue.
    server.query(
        f"""
        CREATE TEMP TABLE plan AS SELECT * FROM migration.plans LIMIT 1;
        UPDATE plan SET id = '{uuid.UUID(int=3)}', guest = '{uuid.UUID(int=4)}';
        INSERT INTO migration.plans SELECT * FROM plan;
        CREATE TEMP TABLE new AS SELECT * FROM migration.migrations LIMIT 1;
        UPDATE new SET id = '{uuid.UUID(int=5)}', plan = '{uuid.UUID(int=3)}', guest = '{uuid.UUID(int=4)}', idempotency_key = 'n',
          phase = 'polish', finished_at = NULL, undo_until = NULL, run_at = 1, lease = NULL, lease_until = NULL;
        INSERT INTO migration.migrations SELECT * FROM new
        """
    )
    # A session that began in a way of its own, and news of a kind of its own: what follows is heard of all the same.
    strange = pair.account()
    now = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    server.query(
        f"""
        ALTER TABLE identity.news DROP CONSTRAINT news_kind_check;
        UPDATE identity.sessions SET method = 'smoke' WHERE sub = '{uuid.UUID(bytes=from_base64url(strange.subject.sub))}';
        INSERT INTO identity.news (written_in, kind, at, sub, sid)
          SELECT pg_current_xact_id()::text::bigint, 0, {now}, sub, sid FROM identity.sessions WHERE method = 'smoke';
        INSERT INTO identity.news (written_in, kind, at) VALUES (pg_current_xact_id()::text::bigint, 99, {now})
        """
    )
    # A session that ends for a reason of its own.
    server.query(
        f"""
        UPDATE identity.sessions SET ended_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint, end_reason = 99,
          ended_in = pg_current_xact_id()::text::bigint WHERE sub = '{uuid.UUID(bytes=from_base64url(ended.subject.sub))}'
        """
    )
    eventually(lambda: not phone.introspect(ended.tokens.access_token).active, seconds=5)
    for world in (pair, seconds):
        ended.world = world
        with pytest.raises(grpc.RpcError) as failure:
            ended.refresh()
        assert failure.value.code() == grpc.StatusCode.UNAUTHENTICATED
    # For longer than a feed may be silent before its instance is not ready.
    end = time.monotonic() + 7
    while time.monotonic() < end:
        for service in pair.fleet.services.values():
            # What it cannot read stays; a feed that stood still goes on.
            eventually(lambda service=service: readiness(service)[0] == 200, f"{service.name} is not ready", seconds=5)
        time.sleep(0.5)
    screen.world = pair
    assert screen.poll().state == 1
    scan = phone.scan(code.qr_payload)
    phone.confirm(scan, code.check_code)
    assert eventually(lambda: screen.poll().tokens.access_token)
    everything(pair, seconds)
    for name in services.NAMES:
        pair.fleet[name].restart()
    everything(pair, seconds)
    assert server.query("SELECT phase, lease IS NULL FROM migration.migrations WHERE idempotency_key = 'n'") == "polish|t"


def test_next_release_contracts(pair, server, schema):
    """C10: once a newer release has taken away what this one needs, its instances end, none starts, and each says which step it lacks"""
    for part in PARTS.values():
        more, less = KNOWN[part] + 1, KNOWN[part] + 2
        server.query(f"INSERT INTO {part}.latchkey_schema VALUES ({more}, 'more', 0, 1, 2), ({less}, 'less', {less}, 3, 4)")
    status, answer = schema("status")
    assert status == 1 and not answer["usable"]
    found = {found["schema"]: (found["known"], found["needed"]) for found in answer["schemas"]}
    assert found == {part: (known, known + 2) for part, known in KNOWN.items()}
    status, answer = schema("apply")
    assert status != 0 and "of the schema, and this one knows" in answer["error"]["message"]
    for name, service in pair.fleet.services.items():
        known = KNOWN[PARTS[name.split("-")[0]]]
        eventually(lambda: service.process.poll() is not None, seconds=20)
        assert service.process.returncode == 1
        service.process = None
        with pytest.raises(services.StartError) as failure:
            service.start()
        assert "ended with 1" in str(failure.value)
        assert f"it takes a release that knows version {known + 2} of the schema, and this one knows {known}" in str(failure.value)


def waiting(service):
    with contextlib.suppress(OSError, urllib.error.URLError):
        status, text = readiness(service)
        return text if status == 503 else None


def test_waiting(binaries, tmp_path, server, schema):
    """C10: services that are told to wait for their tables are not ready, say which step they wait for and how to make it, and serve once a job that was killed again and again has made it"""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    lot = random.Random(seed)
    fleet = postgresql.fleet(binaries, tmp_path / "fleet", server, {**UNTHROTTLED, **WAITS})
    try:
        for service in fleet.services.values():
            service.start(wait=False)
        for name, service in fleet.services.items():
            wanted = f"step {KNOWN[PARTS[name]]} of the schema {PARTS[name]} is not made: latchkey admin schema apply --to postgresql://latchkey@127.0.0.1"
            text = eventually(lambda: (said := waiting(service)) and said.startswith(wanted) and said, f"{name} does not say: {wanted}")
            assert postgresql.PASSWORD not in text
            assert service.is_running()
        status, answer = schema("status")
        missing = {found["schema"]: found["missing"] for found in answer["schemas"]}
        assert status == 1 and missing == {part: list(range(1, known + 1)) for part, known in KNOWN.items()}
        assert server.query("SELECT count(*) FROM pg_namespace WHERE nspname IN ('identity', 'qr', 'migration')") == "0"
        kills = 0
        while True:
            command = schema.command("apply")
            jobs = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=services.clean_environment()) for _ in range(2)]
            # The first at once: on a slow machine they may be done by the time that this process goes on.
            time.sleep(lot.uniform(0, 0.2) * (1 + kills / 4) if kills else 0)
            for job in jobs:
                job.kill()
            if any(job.wait() == 0 for job in jobs):
                break
            kills += 1
        print(f"killed {kills} times")
        assert kills > 0
        for service in fleet.services.values():
            service.wait_until_ready()
        status, answer = schema("status")
        assert status == 0 and answer["usable"]
        world = World(fleet)
        assert sign_in(world.account(), world.device()).access_token
        # One that waits lets go as well when it is asked to.
        server.query("UPDATE qr.latchkey_schema SET finished_at = NULL")
        fleet["qr"].kill()
        fleet["qr"].start(wait=False)
        eventually(lambda: waiting(fleet["qr"]))
        assert fleet["qr"].stop(seconds=20) is not None
    finally:
        fleet.stop()


def test_waiting_for_a_database(binaries, tmp_path, server, schema):
    """C10: a service that waits for its tables goes on waiting while the database is away, and serves once both are there"""
    fleet = postgresql.fleet(binaries, tmp_path / "fleet", server, {**UNTHROTTLED, **WAITS})
    try:
        for service in fleet.services.values():
            service.start(wait=False)
        for service in fleet.services.values():
            eventually(lambda: "is not made" in (waiting(service) or ""))
        server.kill()
        for service in fleet.services.values():
            eventually(lambda: "cannot be reached" in (waiting(service) or ""))
            assert service.is_running()
        server.start()
        for service in fleet.services.values():
            eventually(lambda: "is not made" in (waiting(service) or ""))
        assert schema("apply")[0] == 0
        for service in fleet.services.values():
            service.wait_until_ready()
    finally:
        fleet.stop()


def test_no_right(binaries, tmp_path, server, schema):
    """C10: a role without the right to make tables is told so, by the job and by a service; where another one has made them it serves"""
    server.query(f"CREATE ROLE serving LOGIN PASSWORD '{postgresql.PASSWORD.replace(chr(39), chr(39) * 2)}'")
    status, answer = schema("apply", user="serving")
    assert status == 1 and "has no right" in answer["error"]["message"]
    assert "the database's owner can" in answer["error"]["hint"]
    fleet = postgresql.fleet(binaries, tmp_path / "fleet", server, UNTHROTTLED)
    for name in services.NAMES:
        fleet.arguments[name] = [word.replace("latchkey@", "serving@") for word in fleet.arguments[name]]
    with pytest.raises(services.StartError) as failure:
        fleet["qr"].start()
    assert "has no right to that" in str(failure.value) and "permission denied for database latchkey" in str(failure.value)
    fleet["qr"].process = None
    status, answer = schema("apply")
    assert status == 0, answer
    for part in PARTS.values():
        server.query(
            f"GRANT USAGE ON SCHEMA {part} TO serving; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {part} TO serving;"
            f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {part} TO serving"
        )
    with fleet:
        world = World(fleet)
        assert sign_in(world.account(), world.device()).access_token


def test_job_waits_for_its_turn(server, schema):
    """C10: a job waits while another one is at it, says which, and gives up with that after its patience"""
    assert schema("apply", "--service", "qr")[0] == 0
    server.query("UPDATE qr.latchkey_schema SET finished_at = NULL; CREATE TABLE qr.spare (id bigint)")

    def hold():
        # Until it is ended.
        with contextlib.suppress(subprocess.CalledProcessError):
            server.query(hold_schema_lock("qr", 60))

    holder = threading.Thread(target=hold)
    holder.start()
    locks = "FROM pg_locks WHERE locktype = 'advisory' AND granted"
    eventually(lambda: server.query(f"SELECT count(*) {locks}") == "1")
    status, answer = schema("apply", "--service", "qr", "--patience", "1")
    server.query(f"SELECT pg_terminate_backend(pid) {locks}")
    holder.join()
    assert status == 69 and "brings it forward" in answer["error"]["message"] and "psql" in answer["error"]["message"]


def hold_schema_lock(part, seconds):
    """SQL that holds for some seconds what a job holds: FNV-1a of `latchkey_schema` and the part, mixed."""
    mask = (1 << 64) - 1
    number = 0xCBF29CE484222325
    for word in ("latchkey_schema", part):
        for byte in [*word.encode(), 0xFF]:
            number = ((number ^ byte) * 0x100000001B3) & mask
    number = ((number ^ number >> 30) * 0xBF58476D1CE4E5B9) & mask
    number = ((number ^ number >> 27) * 0x94D049BB133111EB) & mask
    number ^= number >> 31
    signed = number - (1 << 64) if number >> 63 else number
    return f"SELECT pg_advisory_lock({signed}); SELECT pg_sleep({seconds})"
