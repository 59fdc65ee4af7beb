"""C11, the way back: what services have in PostgreSQL, exported, and imported into files or another database."""

import concurrent.futures
import json
import shutil
import signal
import sqlite3
import subprocess
import threading
import time

import grpc
import postgresql
import pytest
import services

from test_copies import a_life, contents, copying, counts, rows, somebody
from test_instances_documents import guide, set_guides, set_policies, version
from test_look import shown, too_wide
from latchkey.identity.v1 import guest_service_pb2, transfer_service_pb2, transfer_service_pb2_grpc
from latchkey.migration.v1 import migration_service_pb2
from world import CLIENT_ID, UNTHROTTLED, World, record, refused

pytestmark = pytest.mark.sqlite

PARTS = {"identity": "identity", "qr": "qr", "migrator": "migration"}
server = postgresql.serving(scope="module")


@pytest.fixture
def copies(binaries):
    return copying(binaries)


def empty(server, name="latchkey"):
    server.query(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)", database="postgres")
    server.query(f"CREATE DATABASE {name}", database="postgres")


@pytest.fixture
def words(server, tmp_path):
    """What names the server's database, which is empty, behind `--from` or `--to`."""
    empty(server)
    password = tmp_path / "database-password"
    password.touch(mode=0o600)
    password.write_text(postgresql.PASSWORD + "\n")
    return [server.url("copies"), "--database-password-file", password]


def tables(folder):
    """{service.table: what the manifest says of it}"""
    manifest = json.loads((folder / "manifest.json").read_text())
    return {
        f"{service['service']}.{table['name']}": table
        for service in manifest["services"] for table in service["tables"] + service["shared"]
    }  # fmt: skip


def lines(folder):
    """{service.table: its lines, sorted}"""
    return {name: sorted((folder / table["file"]).read_bytes().splitlines()) for name, table in tables(folder).items()}


def offer(world, device):
    """A code by which a device of somebody's moves to another one."""
    stub = transfer_service_pb2_grpc.TransferServiceStub(world.channel("identity"))
    return stub.CreateTransfer(transfer_service_pb2.CreateTransferRequest(), metadata=device.metadata, timeout=10).code


def redeem(world, device, code):
    challenge = device.challenge().challenge
    said = ["latchkey-transfer-proof-v1", CLIENT_ID, device.device_id, challenge, code]
    key = guest_service_pb2.Device(device_id=device.device_id, public_key=device.jwk(), label="new")
    request = transfer_service_pb2.RedeemTransferRequest(
        code=code, client_id=CLIENT_ID, device=key, challenge=challenge, keep_old=True,
        proof=device.sign("\0".join(said).encode()),
    )  # fmt: skip
    stub = transfer_service_pb2_grpc.TransferServiceStub(world.channel("identity"))
    return device.remember(stub.RedeemTransfer(request, timeout=10))


def audit(cli, world, *command, **options):
    token = world.fleet.data_directory / "service-token"
    return cli(world, "admin", "admin", "audit", *command, "--service-token-file", str(token), **options)


def chains(server):
    return int(server.query("SELECT count(DISTINCT chain) FROM identity.audit_events"))


def key_names(world):
    return {key["kid"] for key in world.jwks()["keys"]}


def test_back_to_sqlite(binaries, copies, cli, server, words, tmp_path):
    """C11: what PostgreSQL held goes on over SQLite: everybody is who they were, tokens hold, merges can be taken back"""
    with postgresql.fleet(binaries, tmp_path / "shared", server, UNTHROTTLED) as fleet:
        world = World(fleet)
        identifier, owner, guest, merge, left, alone, screen = a_life(world)
        before = {device: device.rows("cart") for device in (owner, guest, alone, screen)}
        code = offer(world, owner)
        set_policies(world, 7)
        set_guides(world, guide("welcome", 3))
        token = fleet.data_directory / "service-token"
        cli(world, "admin", "admin", "keys", "rotate", "--service-token-file", str(token))
        keys = key_names(world)
        assert len(keys) == 2
        # As many connections as write at once have a chain each.
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for _ in range(20):
                list(pool.map(lambda device: device.start_as_guest(), [world.device() for _ in range(8)]))
                if chains(server) > 1:
                    break
        recorded = audit(cli, world, "list", "--limit", "0")["events"]
    assert chains(server) > 1
    exported, new = tmp_path / "exported", tmp_path / "new"
    copies("export", exported, "--from", *words)
    stored = counts(server)
    for name, table in tables(exported).items():
        service, name = name.split(".")
        assert name == "guest_usage" or table["rows"] == stored[f"{PARTS[service]}.{name}"], name
    answer = copies("import", exported, "--data-dir", new)
    assert [service["imported"] for service in answer["services"]] == [True] * 3
    assert answer["files"] == ["guides.json", "policies.json"]
    assert not any(service["imported"] for service in copies("import", exported, "--data-dir", new)["services"])
    for path in new.iterdir():
        assert path.stat().st_mode & 0o077 == 0, path
    # With another secret identity does not start, and the keys stay where they are.
    wrong = tmp_path / "wrong"
    shutil.copytree(new, wrong)
    other = services.Fleet(binaries, tmp_path / "other", data_directory=wrong, arguments=UNTHROTTLED)
    with pytest.raises(services.StartError, match="was not sealed with this identity-secret"):
        other["identity"].start()
    other["identity"].process = None
    assert (wrong / "signing-keys.sealed").exists() and not list(wrong.glob("signing-keys/*"))
    for name in ("identity-secret", "service-token"):
        shutil.copy2(fleet.data_directory / name, new)
    fleet = services.Fleet(binaries, tmp_path / "again", data_directory=new, arguments=UNTHROTTLED, ports=fleet.ports)
    with fleet:
        moved = World(fleet)
        for device, rows_before in before.items():
            device.world = moved
            # By the token that was signed before.
            assert device.rows("cart") == rows_before
            device.refresh()
            assert device.rows("cart") == rows_before
        assert key_names(moved) == keys and not (new / "signing-keys.sealed").exists()
        assert version(moved) == 7
        left.world = moved
        with refused(grpc.StatusCode.UNAUTHENTICATED):
            left.refresh()
        assert redeem(moved, moved.device(), code).subject.sub == owner.subject.sub
        moved.migrations.UndoMigration(migration_service_pb2.UndoMigrationRequest(migration_id=merge), metadata=guest.metadata, timeout=30)
        assert guest.watch_merge(merge)[-1].state == migration_service_pb2.MIGRATION_STATE_UNDONE
        assert {name: row.value for name, row in owner.rows("cart").items()} == {"shared": b"account's", "kept": b"\xff\0"}
        stranger = moved.device()
        stranger.start_as_guest()
        assert stranger.authenticate(identifier).HasField("conflict")
        assert audit(cli, moved, "verify")["intact"]
        # Whoever reads the log by its places goes on where they were.
        events = audit(cli, moved, "list", "--limit", "0")["events"]
        assert events[: len(recorded)] == recorded and len(events) > len(recorded) + 3
        places = [event["sequence"] for event in events]
        assert places == sorted(set(places))
    with fleet:
        world = World(fleet)
        owner.world = world
        owner.refresh()
        assert audit(cli, world, "verify")["intact"]
    # The end of a chain that came from there is missed as well.
    with sqlite3.connect(new / "identity.db") as db:
        last = "SELECT max(number) FROM audit_events WHERE chain = ?"
        # One that ends in something else than what is said of other chains' ends.
        ends = f"SELECT chain FROM audit_events AS event WHERE number = ({last.replace('?', 'event.chain')})"
        (chain,) = db.execute(f"{ends} ORDER BY kind = 'log_sealed', seq LIMIT 1").fetchone()
        db.execute(f"DELETE FROM audit_events WHERE chain = ? AND number = ({last})", (chain, chain))
    db.close()
    with fleet:
        found = audit(cli, World(fleet), "verify", status=1)
        assert not found["intact"]


def test_there_and_back(binaries, own_world, copies, server, words, tmp_path):
    """C11: rows that went from SQLite to PostgreSQL, on to another PostgreSQL and back are what they were"""
    data = own_world.fleet.data_directory
    a_life(own_world)
    somebody(own_world)
    own_world.close()
    own_world.fleet.stop()
    first, second, third = tmp_path / "first", tmp_path / "second", tmp_path / "third"
    copies("export", first, "--data-dir", data)
    copies("import", first, "--to", *words)
    copies("export", second, "--from", *words)
    there = lines(second)
    assert there.pop("identity.signing_keys") == there.pop("identity.documents") == []
    assert there == lines(first)
    copies("import", second, "--data-dir", tmp_path / "new")
    assert contents(tmp_path / "new") == contents(data)
    # What PostgreSQL alone has goes on to another one.
    sealed = "INSERT INTO identity.signing_keys VALUES ('name', 1, '\\x00ff')"
    document = "INSERT INTO identity.documents VALUES ('policies', 4, sha256('{}'), '{}'), ('policies', 3, sha256('[]'), NULL)"
    server.query(f"{sealed}; {document}")
    copies("export", third, "--from", *words)
    empty(server, "another")
    other = [words[0].replace("/latchkey?", "/another?"), *words[1:]]
    assert all(service["imported"] for service in copies("import", third, "--to", *other)["services"])
    assert not any(service["imported"] for service in copies("import", third, "--to", *other)["services"])
    copies("export", tmp_path / "fourth", "--from", *other)
    assert tables(tmp_path / "fourth") == tables(third)
    assert lines(third)["identity.documents"] != [] != lines(third)["identity.signing_keys"]
    said = shown(
        ["env", "-C", str(tmp_path), str(binaries / "latchkey"), "admin", "export", "shown", "--from", *map(str, words)], columns=60
    )
    assert not too_wide(said, 60) and said.rstrip().endswith("are in it."), said


def test_refused(binaries, own_world, copies, server, words, tmp_path):
    """C11: tables of another release are not exported, nor is a part of them; an export that was changed goes nowhere"""
    somebody(own_world)
    copies("export", tmp_path / "first", "--data-dir", own_world.fleet.data_directory)
    copies("import", tmp_path / "first", "--to", *words)
    exported = tmp_path / "exported"

    def fails(change, back, status, *said):
        server.query(change)
        message = copies("export", exported, "--from", *words, status=status)["error"]["message"]
        assert all(word in message for word in said), message
        assert not exported.exists()
        server.query(back)

    rename = "ALTER TABLE identity.{} RENAME TO {}".format
    fails(rename("unlocks", "gone"), rename("gone", "unlocks"), 65, "identity.")
    fails(rename("signing_keys", "gone"), rename("gone", "signing_keys"), 65, "identity.")
    fails("ALTER TABLE qr.qr_sessions ADD more text", "ALTER TABLE qr.qr_sessions DROP more", 65, "qr.qr_sessions")
    step = "INSERT INTO migration.latchkey_schema VALUES (99, 'of a newer release', 0, 0)"
    fails(step, "DELETE FROM migration.latchkey_schema WHERE step = 99", 74, "newer")
    password = words[0].replace("@", ":secret@")
    answer = copies("export", exported, "--from", password, status=65)
    assert "--database-password-file" in answer["error"]["message"] and "secret" not in json.dumps(answer)
    assert "qr" in copies("export", exported, "--from", words[0].replace("/latchkey?", "/postgres?"), *words[1:], "--service", "qr", status=74)["error"]["message"]
    # One that is ended is not there, and is made the next time.
    server.query("INSERT INTO identity.sign_in_sources SELECT gen_random_uuid(), n::text, 1 FROM generate_series(1, 60000) AS n")
    command = [binaries / "latchkey", "admin", "export", exported, "--from", *map(str, words)]
    file = exported.with_name("exported.unfinished") / "identity.sign_in_sources.jsonl"
    for _ in range(20):
        killed = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=services.clean_environment())
        while not (file.exists() and file.stat().st_size) and killed.poll() is None:
            time.sleep(0.005)
        killed.send_signal(signal.SIGKILL)
        assert killed.wait() in (0, -signal.SIGKILL)
        if not exported.exists():
            break
        # It was done before it was seen to work.
        shutil.rmtree(exported)
    assert killed.returncode == -signal.SIGKILL and not exported.exists()
    message = copies("import", file.parent, "--data-dir", tmp_path / "new", status=74)["error"]["message"]
    assert "manifest.json" in message
    copies("export", exported, "--from", *words)
    keys = exported / "identity.subjects.jsonl"
    whole = keys.read_bytes()
    keys.write_bytes(whole.replace(b'"kind":1', b'"kind":0', 1))
    message = copies("import", exported, "--data-dir", tmp_path / "new", status=65)["error"]["message"]
    assert "identity.subjects.jsonl" in message and not list((tmp_path / "new").glob("*.db"))
    keys.write_bytes(whole)
    copies("import", exported, "--data-dir", tmp_path / "new")


def test_of_one_moment(binaries, copies, server, words, tmp_path):
    """C11: an export of PostgreSQL that is taken while records are written holds all of a write or nothing"""
    with postgresql.fleet(binaries, tmp_path / "shared", server, UNTHROTTLED) as fleet:
        device, done = World(fleet).account(), threading.Event()

        def write(number):
            while not done.is_set():
                device.put([record("cart", f"{number}-{index}") for index in range(7)])
                number += 1

        device.put([record("cart", f"0-{index}") for index in range(7)])
        writer = threading.Thread(target=write, args=[1])
        writer.start()
        try:
            for attempt in range(3):
                copies("export", tmp_path / f"exported-{attempt}", "--from", *words)
        finally:
            done.set()
            writer.join()
    found = []
    for attempt in range(3):
        copies("import", tmp_path / f"exported-{attempt}", "--data-dir", tmp_path / f"new-{attempt}")
        stored = rows(tmp_path / f"new-{attempt}" / "migrator.db")
        found.append(len(stored["records"]))
        assert found[-1] % 7 == 0 and [counted[2] for counted in stored["collections"]] == [found[-1]]
    assert found == sorted(found) and found[0] < found[-1], found
