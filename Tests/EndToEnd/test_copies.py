"""Backups, exports and imports of what the services store, by the command-line tool, while the services run."""

import hashlib
import json
import re
import shutil
import sqlite3
import subprocess
import threading

import grpc
import postgresql
import pytest
import services

from test_look import shown, too_wide
from latchkey.identity.v1 import auth_service_pb2
from latchkey.migration.v1 import migration_service_pb2
from world import UNTHROTTLED, World, record, unique_identifier

pytestmark = pytest.mark.sqlite

DATABASES = ("identity.db", "migrator.db", "qr.db")


def copying(binaries):
    """`latchkey admin …` over files; its JSON answer"""

    def run(*words, status=0):
        command = [binaries / "latchkey", "admin", *map(str, words), "--json"]
        finished = subprocess.run(command, capture_output=True, text=True, timeout=120, env=services.clean_environment())
        assert finished.returncode == status, f"exit {finished.returncode}\n{finished.stdout}\n{finished.stderr}"
        return json.loads(finished.stdout)

    return run


@pytest.fixture
def copies(binaries):
    return copying(binaries)


def rows(path):
    """{table: its rows, sorted}, as Python's own SQLite reads them"""
    with sqlite3.connect(path) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")]
        found = {table: sorted(db.execute(f"SELECT * FROM {table}"), key=repr) for table in tables}
    db.close()
    return found


def contents(folder):
    return {name: rows(folder / name) for name in DATABASES}


def somebody(world):
    """Somebody with an account, records of all kinds of text and bytes, and a code in the works."""
    device = world.account()
    guest = world.device()
    guest.start_as_guest()
    guest.put([record("cart", "a", b"1")])
    texts = (("a", b"\xff\0"), ('\u00e9 "\\', b"x"), ("\u00e9", b""), ("e\u0301", b""))
    device.put([record("cart", key, value, number=-(2**63)) for key, value in texts])
    device.put([record("cart", f"key-{index}", bytes(60_000)) for index in range(20)], batch=5)
    device.issue_qr()
    return device


def goes_on(binaries, folder, tmp_path, device):
    """Whether services over another data directory know the device, its session and its records."""
    with services.Fleet(binaries, tmp_path, data_directory=folder, arguments=UNTHROTTLED) as fleet:
        moved = World(fleet)
        device.world = moved
        device.refresh()
        return len(device.rows("cart"))


@pytest.fixture(scope="module")
def database():
    """A PostgreSQL whose database is empty."""
    server = postgresql.PostgreSQL()
    yield server
    server.stop()


@pytest.fixture
def empty(database, tmp_path):
    """The words that make `latchkey admin import` store rows in an empty database of `database`."""
    database.query("DROP DATABASE IF EXISTS latchkey WITH (FORCE)", database="postgres")
    database.query("CREATE DATABASE latchkey", database="postgres")
    password = tmp_path / "database-password"
    password.touch(mode=0o600)
    password.write_text(postgresql.PASSWORD + "\n")
    return ["--to", database.url("import"), "--database-password-file", password]


def counts(database):
    """{service: {table: its rows}}, without those that say who uses the tables."""
    listed = database.query(
        "SELECT schemaname, relname FROM pg_stat_user_tables WHERE relname NOT IN ('latchkey_schema', 'latchkey_cell', 'members') ORDER BY 1, 2"
    )
    names = [line.split("|") for line in listed.splitlines()]
    return {f"{part}.{name}": int(database.query(f"SELECT count(*) FROM {part}.{name}")) for part, name in names}


def test_backup(own_world, binaries, copies, tmp_path):
    """C11: a backup that is taken while the services run is a data directory that they go on from"""
    data = own_world.fleet.data_directory
    device = somebody(own_world)
    answer = copies("backup", tmp_path / "backup", "--data-dir", data)
    assert [service["service"] for service in answer["services"]] == ["identity", "qr", "migrator"]
    own_world.close()
    own_world.fleet.stop()
    assert contents(tmp_path / "backup") == contents(data)
    kept = {path.relative_to(data) for path in data.rglob("*") if path.suffix not in (".db-wal", ".db-shm")}
    assert {path.relative_to(tmp_path / "backup") for path in (tmp_path / "backup").rglob("*")} == kept
    for path in [tmp_path / "backup", *(tmp_path / "backup").rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path
    assert goes_on(binaries, tmp_path / "backup", tmp_path / "again", device) == 24


def test_export_and_import(own_world, binaries, copies, tmp_path):
    """C11: an export has every row of every table in files that others can count and verify, and an import makes the same"""
    data = own_world.fleet.data_directory
    device = somebody(own_world)
    copies("export", tmp_path / "exported", "--data-dir", data)
    manifest = json.loads((tmp_path / "exported" / "manifest.json").read_text())
    own_world.close()
    own_world.fleet.stop()
    stored = contents(data)
    for service in manifest["services"]:
        tables = stored[f"{service['service']}.db"]
        assert sorted(tables) == [table["name"] for table in service["tables"]]
        for table in service["tables"]:
            text = (tmp_path / "exported" / table["file"]).read_bytes()
            assert hashlib.sha256(text).hexdigest() == table["sha256"] and len(text) == table["bytes"]
            lines = [json.loads(line) for line in text.splitlines()]
            assert len(lines) == table["rows"] == len(tables[table["name"]])
            assert all(list(line) == [column["name"] for column in table["columns"]] for line in lines)
    answer = copies("import", tmp_path / "exported", "--data-dir", tmp_path / "new")
    assert all(service["imported"] for service in answer["services"])
    assert contents(tmp_path / "new") == stored
    # The keys go along, and everybody is still signed in.
    for name in ("identity-secret", "service-token"):
        shutil.copy(data / name, tmp_path / "new")
    shutil.copytree(data / "signing-keys", tmp_path / "new" / "signing-keys")
    assert goes_on(binaries, tmp_path / "new", tmp_path / "again", device) == 24


def test_exports_are_of_one_moment(own_world, copies, tmp_path):
    """C11: an export, and a backup, that are taken while records are written hold all of a write or nothing"""
    device, data = own_world.account(), own_world.fleet.data_directory
    done = threading.Event()

    def write(number):
        while not done.is_set():
            device.put([record("cart", f"{number}-{index}") for index in range(7)])
            number += 1

    device.put([record("cart", f"0-{index}") for index in range(7)])
    writer = threading.Thread(target=write, args=[1])
    writer.start()
    try:
        for attempt in range(3):
            copies("export", tmp_path / f"exported-{attempt}", "--data-dir", data)
            copies("backup", tmp_path / f"backup-{attempt}", "--data-dir", data)
    finally:
        done.set()
        writer.join()
    counts = []
    for attempt in range(3):
        copies("import", tmp_path / f"exported-{attempt}", "--data-dir", tmp_path / f"imported-{attempt}")
        for kind in ("imported", "backup"):
            tables = rows(tmp_path / f"{kind}-{attempt}" / "migrator.db")
            counts.append(len(tables["records"]))
            # What the subject's row says that there is, and what the collection's does.
            assert [counted[2] for counted in tables["collections"]] == [counts[-1]]
            with sqlite3.connect(tmp_path / f"{kind}-{attempt}" / "migrator.db") as db:
                assert db.execute("SELECT sum(records) FROM subjects").fetchone() == (counts[-1],)
    assert counts == sorted(counts) and counts[0] < counts[-1], counts


def test_damaged_exports(own_world, copies, tmp_path):
    """C11: an export that was changed or cut off is refused by name, and no database comes of it"""
    somebody(own_world)
    copies("export", tmp_path / "exported", "--data-dir", own_world.fleet.data_directory)
    good = {path: path.read_bytes() for path in (tmp_path / "exported").iterdir()}
    accounts = tmp_path / "exported" / "identity.subjects.jsonl"

    def refused(change, status, *words):
        change()
        said = copies("import", tmp_path / "exported", "--data-dir", tmp_path / "new", status=status)["error"]["message"]
        assert all(word in said for word in words), said
        assert not [path for path in (tmp_path / "new").glob("*") if path.suffix == ".db"]
        for path, text in good.items():
            path.write_bytes(text)

    refused(lambda: accounts.write_bytes(good[accounts].replace(b'"kind":1', b'"kind":0')), 65, "identity.subjects.jsonl")
    refused(lambda: accounts.write_bytes(b"".join(good[accounts].splitlines(True)[1:])), 65, "identity.subjects.jsonl")
    refused(lambda: accounts.write_bytes(good[accounts] + b"{}\n"), 65, "not a row of subjects")
    refused(accounts.unlink, 74, "identity.subjects.jsonl")
    refused((tmp_path / "exported" / "manifest.json").unlink, 74, "manifest.json")
    manifest = tmp_path / "exported" / "manifest.json"
    refused(lambda: manifest.write_bytes(good[manifest].replace(b'"schema":', b'"schema":9', 1)), 74, "use a newer one")
    for number in (b"9223372036854775807", b"-1"):
        wrong = re.sub(rb'"rows":\d+', b'"rows":' + number, good[manifest])
        refused(lambda wrong=wrong: manifest.write_bytes(wrong), 65, "manifest.json")
    answer = copies("import", tmp_path / "exported", "--data-dir", tmp_path / "new")
    assert all(service["imported"] for service in answer["services"])


def test_what_was_ended_is_begun_again(own_world, copies, tmp_path):
    """C11: an import that was ended goes on when it is started again, and never goes over what is there"""
    data = own_world.fleet.data_directory
    somebody(own_world)
    (tmp_path / "exported.unfinished").mkdir()
    (tmp_path / "exported.unfinished" / "identity.subjects.jsonl").write_text("half a")
    copies("export", tmp_path / "exported", "--data-dir", data)
    assert not (tmp_path / "exported.unfinished").exists()
    said = copies("export", tmp_path / "exported", "--data-dir", data, status=74)["error"]["message"]
    assert "is there already" in said
    new = tmp_path / "new"
    copies("import", tmp_path / "exported", "--data-dir", new)
    made = contents(new)
    (new / "migrator.db").unlink()
    (new / "migrator.db.importing").write_text("what a killed process left")
    answer = copies("import", tmp_path / "exported", "--data-dir", new)
    assert {service["service"]: service["imported"] for service in answer["services"]} == {
        "identity": False, "qr": False, "migrator": True
    }  # fmt: skip
    assert contents(new) == made
    with sqlite3.connect(new / "migrator.db") as db:
        db.execute("DELETE FROM records WHERE key = 'key-7'")
    db.close()
    changed = contents(new)
    said = copies("import", tmp_path / "exported", "--data-dir", new, status=74)["error"]["message"]
    assert "holds other rows" in said and contents(new) == changed
    nothing = copies("export", tmp_path / "other", "--data-dir", tmp_path / "exported", status=74)["error"]
    assert "no database" in nothing["message"] and "--data-dir" in nothing["hint"]


@pytest.mark.parametrize("columns", [40, 80])
def test_progress_of_copies(own_world, binaries, tmp_path, columns):
    """at a terminal, an export, an import and a backup say how far they are in a line that fits, and with what they end"""
    device, data = own_world.account(), own_world.fleet.data_directory
    device.put([record("cart", f"key-{index}") for index in range(2000)], batch=1000)
    for words, unit in (
        (["export", "exported", "--data-dir", str(data)], "rows"),
        (["import", "exported", "--data-dir", "new"], "rows"),
        (["backup", "backup", "--data-dir", str(data)], "pages"),
    ):
        said = shown(["env", "-C", str(tmp_path), str(binaries / "latchkey"), "admin", *words], columns=columns)
        assert f" {unit}" in said and " %" in said, said
        assert not too_wide(said, columns), said
        assert said.rstrip().endswith("."), said


def a_life(world):
    """People with what is stored of them: an account with a password and a merged guest that it may take back, a guest, a session
    that ended, and a device that a code let in."""
    identifier = unique_identifier()
    owner = world.account(identifier=identifier)
    owner.put([record("cart", "shared", b"account's", number=3), record("cart", "kept", b"\xff\0")])
    guest = world.device()
    guest.start_as_guest()
    guest.put([record("cart", "shared", b"guest's", number=4), record("cart", "brought", bytes(60_000))])
    ticket = guest.authenticate(identifier).conflict.link_ticket
    merge = guest.begun_merge(guest.choose(ticket, auth_service_pb2.ON_CONFLICT_MERGE).account_change)
    assert guest.watch_merge(merge)[-1].state == migration_service_pb2.MIGRATION_STATE_DONE
    left = world.device()
    left.start_as_guest()
    world.auth.Revoke(auth_service_pb2.RevokeRequest(token=left.tokens.refresh_token), timeout=10)
    alone = world.device()
    alone.start_as_guest()
    alone.put([record("cart", "mine", b"1")])
    screen = world.device()
    code = screen.issue_qr()
    owner.confirm(owner.scan(code.qr_payload), code.check_code)
    answer = screen.poll()
    screen.tokens = answer.tokens
    return identifier, owner, guest, merge, left, alone, screen


def test_to_postgresql(own_world, binaries, copies, cli, database, empty, tmp_path):
    """C11: what SQLite held goes on over PostgreSQL: everybody is who they were, with all they had, and merges can be taken back"""
    data = own_world.fleet.data_directory
    identifier, owner, guest, merge, left, alone, screen = a_life(own_world)
    before = {device: device.rows("cart") for device in (owner, guest, alone, screen)}
    own_world.close()
    own_world.fleet.stop()
    exported = tmp_path / "exported"
    copies("export", exported, "--data-dir", data)
    answer = copies("import", exported, *empty)
    assert [(service["service"], service["imported"]) for service in answer["services"]] == [
        ("identity", True), ("qr", True), ("migrator", True)
    ]  # fmt: skip
    manifest = json.loads((exported / "manifest.json").read_text())
    parts = {"identity": "identity", "qr": "qr", "migrator": "migration"}
    expected = {
        f"{parts[service['service']]}.{table['name']}": table["rows"] for service in manifest["services"] for table in service["tables"]
    }
    found = counts(database)
    assert expected == {name: found[name] for name in expected}
    # The import's own commits.
    lanes = {f"{part}.lanes" for part in parts.values()}
    assert not any(rows for name, rows in found.items() if name not in expected and name not in lanes)
    # Again: what is there is looked at, and left as it is.
    again = copies("import", exported, *empty)
    assert not any(service["imported"] for service in again["services"])
    assert counts(database) == found
    with postgresql.fleet(binaries, tmp_path / "shared", database, UNTHROTTLED, secrets=data) as fleet:
        moved = World(fleet)
        for device, rows_before in before.items():
            device.world = moved
            device.refresh()
            assert device.rows("cart") == rows_before
        left.world = moved
        with pytest.raises(grpc.RpcError) as refused:
            left.refresh()
        assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED
        moved.migrations.UndoMigration(migration_service_pb2.UndoMigrationRequest(migration_id=merge), metadata=guest.metadata, timeout=30)
        assert guest.watch_merge(merge)[-1].state == migration_service_pb2.MIGRATION_STATE_UNDONE
        assert {name: row.value for name, row in owner.rows("cart").items()} == {"shared": b"account's", "kept": b"\xff\0"}
        stranger = moved.device()
        stranger.start_as_guest()
        assert stranger.authenticate(identifier).HasField("conflict")
        # Whoever reads the log by its places goes on where they were.
        places = "SELECT count(*) FROM identity.audit_events WHERE chain = 0 AND place <> seq"
        assert database.query(places) == "0"
        later = "SELECT count(*) FROM identity.audit_events WHERE chain <> 0 AND place <= (SELECT max(seq) FROM identity.audit_events WHERE chain = 0)"
        assert database.query(later) == "0"
        assert "holds other rows" in copies("import", exported, *empty, status=74)["error"]["message"]
        token = fleet.data_directory / "service-token"
        assert cli(moved, "admin", "admin", "audit", "verify", "--service-token-file", str(token))["intact"]


def test_to_postgresql_refused(own_world, copies, database, empty, tmp_path):
    """C11: an import into PostgreSQL stores nothing of an export that was changed, and never adds to what is there"""
    data = own_world.fleet.data_directory
    somebody(own_world)
    exported = tmp_path / "exported"
    copies("export", exported, "--data-dir", data)
    file = exported / "identity.sessions.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b'"generation":', b'"generation":1', 1))
    answer = copies("import", exported, *empty, "--service", "identity", status=65)
    assert "identity.sessions.jsonl" in answer["error"]["message"]
    assert not any(counts(database).values())
    file.write_bytes(whole)
    manifest = exported / "manifest.json"
    text = manifest.read_text()
    changed = json.loads(text)
    changed["services"][0]["tables"] = [table for table in changed["services"][0]["tables"] if table["name"] != "unlocks"]
    manifest.write_text(json.dumps(changed))
    assert "identity.unlocks" in copies("import", exported, *empty, "--service", "identity", status=65)["error"]["message"]
    assert not any(counts(database).values())
    manifest.write_text(text)
    assert copies("import", exported, *empty, "--service", "identity")["services"][0]["imported"]
    # Somebody lives there since.
    database.query("UPDATE identity.subjects SET nickname = 'Grace' WHERE sub = (SELECT min(sub::text)::uuid FROM identity.subjects)")
    found = counts(database)
    answer = copies("import", exported, *empty, "--service", "identity", status=74)
    assert "identity.subjects" in answer["error"]["message"]
    assert counts(database) == found
    password = database.url("import").replace("@", ":secret@")
    answer = copies("import", exported, "--to", password, status=65)
    assert "--database-password-file" in answer["error"]["message"] and "secret" not in json.dumps(answer)
