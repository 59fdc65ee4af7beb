"""C11: imports that are killed in the midst, into files and into PostgreSQL, and started again."""

import contextlib
import random
import shutil
import signal
import sqlite3
import subprocess
import time

import grpc
import postgresql
import pytest
import services

import test_storage_faults
from test_copies import DATABASES, contents, copying, rows, somebody
from test_copies_back import PARTS, lines, tables
from waiting import eventually
from world import UNTHROTTLED, World, record, refused

pytestmark = pytest.mark.sqlite

# Rows of the largest table of identity, and of the migrator's.
MANY = 12_000
LARGEST = {"identity": "sign_in_sources", "migrator": "records"}

server = postgresql.serving(scope="module")


class Original:
    """An installation over files with many rows, its export, and what there is to compare with."""

    def __init__(self, binaries, folder):
        self.binaries, self.copies = binaries, copying(binaries)
        with services.Fleet(binaries, folder / "fleet", arguments=UNTHROTTLED) as fleet:
            self.data = fleet.data_directory
            world = World(fleet)
            self.device = somebody(world)
            self.tokens = self.device.tokens
            self.device.put([record("history", f"k{number:06}", b"v" * 40) for number in range(MANY)], batch=1000)
            world.close()
        with sqlite3.connect(self.data / "identity.db") as db:
            numbers = f"WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {MANY})"
            db.execute(f"INSERT INTO sign_in_sources {numbers} SELECT randomblob(16), 'source ' || n, n FROM n")
        db.close()
        self.exported = folder / "exported"
        self.copies("export", self.exported, "--data-dir", self.data)
        self.contents, self.lines = contents(self.data), lines(self.exported)
        began = time.monotonic()
        self.copies("import", self.exported, "--data-dir", folder / "whole")
        self.seconds = time.monotonic() - began
        self.sizes = {name: (folder / "whole" / name).stat().st_size for name in DATABASES}
        print(f"{sum(map(len, self.lines.values()))} rows in {self.seconds:.2f} s, {self.sizes}")

    def begin(self, *target):
        """The import, under way."""
        command = [self.binaries / "latchkey", "admin", "import", self.exported, *map(str, target)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=services.clean_environment())

    def kill_when(self, is_time, is_late, begin):
        """Begins an import and kills it when `is_time`; once more when it was faster than that was seen, which `is_late` says."""
        for _ in range(20):
            importing = begin()
            while importing.poll() is None and not is_time():
                pass
            importing.send_signal(signal.SIGKILL)
            said, _ = importing.communicate()
            assert importing.returncode in (0, -signal.SIGKILL), said.decode()
            if importing.returncode and not is_late():
                return
            print("it was done before it was seen to work")
        raise AssertionError("it is never seen to work")

    def kill_often(self, count, seconds, begin, forget):
        """Kills an import that takes about so many seconds as often as that, at any moment, and begins it again each time. Yields
        after each. One that was faster is forgotten."""
        seed = random.randrange(1 << 32)
        print(f"seed {seed}")
        lot, kills = random.Random(seed), 0
        for _ in range(5 * count):
            importing = begin()
            time.sleep(lot.uniform(0, 0.9) * seconds)
            importing.kill()
            importing.communicate()
            yield
            if importing.returncode == 0:
                forget()
            kills += importing.returncode == -signal.SIGKILL
            if kills == count:
                return
        raise AssertionError("it is hardly ever killed")

    def goes_on(self, fleet):
        """That services know the device, its session and its records."""
        with fleet:
            self.device.world, self.device.tokens = World(fleet), self.tokens
            self.device.refresh()
            assert len(self.device.rows("history")) == MANY and len(self.device.rows("cart")) == 24

    def is_unknown(self, fleet):
        """That services begin with nothing."""
        with fleet:
            stranger = World(fleet).device()
            stranger.tokens = self.tokens
            with refused(grpc.StatusCode.UNAUTHENTICATED):
                stranger.refresh()
            stranger.start_as_guest()
            assert stranger.collections() == {}


@pytest.fixture(scope="module")
def original(binaries, tmp_path_factory):
    return Original(binaries, tmp_path_factory.mktemp("original"))


def size(path):
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_size
    return 0


def partly(path, table):
    """How many rows of a table are in a file that was not finished; nil where SQLite cannot read it."""
    scratch = path.with_name("scratch.db")
    shutil.copy(path, scratch)
    try:
        with contextlib.closing(sqlite3.connect(scratch)) as db:
            return db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    except sqlite3.DatabaseError:
        return None
    finally:
        scratch.unlink()


def with_keys(original, made, folder):
    """A copy of an imported data directory, with the keys that do not come with an export."""
    shutil.copytree(made, folder)
    for name in ("identity-secret", "service-token"):
        shutil.copy2(original.data / name, folder)
    shutil.copytree(original.data / "signing-keys", folder / "signing-keys")
    return folder


def expect_finished(original, new):
    """The same command again makes the rest, whatever is there of the one that was killed."""
    before = {name for name in DATABASES if (new / name).exists()}
    answer = original.copies("import", original.exported, "--data-dir", new)
    made = {f"{service['service']}.db" for service in answer["services"] if service["imported"]}
    assert made == set(DATABASES) - before
    assert contents(new) == original.contents
    assert {path.name for path in new.iterdir()} == set(DATABASES)


# What the file of a service has come to when the import is killed, in parts of what it will be; all of it is compared then.
MOMENTS = {
    "identity has some": ("identity", 0.6), "identity is compared": ("identity", 1),
    "the migrator has most": ("migrator", 0.7), "the migrator is compared": ("migrator", 1),
}  # fmt: skip


@pytest.mark.parametrize("moment", MOMENTS)
def test_files(original, tmp_path, moment):
    """C11: an import into files that is killed in the midst leaves no database; services begin with nothing there, and the same
    command again makes all of it"""
    name, part = MOMENTS[moment]
    new = tmp_path / "new"
    file = new / f"{name}.db.importing"
    whole = original.sizes[f"{name}.db"]

    def begin():
        shutil.rmtree(new, ignore_errors=True)
        return original.begin("--data-dir", new)

    original.kill_when(lambda: size(file) >= part * whole, lambda: size(new / f"{name}.db"), begin)
    assert not list(new.glob("*.db")) and 0 < size(file) <= whole
    found = partly(file, LARGEST[name])
    print(f"{size(file)} of {whole} bytes, {found} of {MANY} rows")
    # Nothing of what is not finished has to be sound.
    assert found is None or found > 0
    assert part == 1 or size(file) < whole and (found is None or found < MANY)

    def fleet(name):
        data = with_keys(original, new, tmp_path / name / "data")
        return services.Fleet(original.binaries, tmp_path / name, data_directory=data, arguments=UNTHROTTLED)

    if moment == "the migrator has most":
        original.is_unknown(fleet("seen"))
    expect_finished(original, new)
    if moment == "the migrator has most":
        original.goes_on(fleet("moved"))
        again = original.copies("import", original.exported, "--data-dir", new)
        assert not any(service["imported"] for service in again["services"])


def test_named(original, tmp_path):
    """C11: an import that is killed while it gives its databases their names leaves those that have one whole, and goes on"""
    reason = test_storage_faults.why_not(test_storage_faults.UnconfirmedWrites, tmp_path)
    if reason:
        pytest.skip(reason)
    for count in (2, 3):
        new = tmp_path / f"new-{count}"
        traced = ["strace", "-f", "-qq", "-o", tmp_path / "trace", "-e", "trace=rename"]
        traced += ["-e", f"inject=rename:signal=KILL:when={count}"]
        command = [original.binaries / "latchkey", "admin", "import", original.exported, "--data-dir", new]
        killed = subprocess.run([*traced, *command], capture_output=True, env=services.clean_environment(), timeout=60)
        assert killed.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), killed
        there = {path.name for path in new.iterdir()}
        named = there & set(DATABASES)
        assert there - named == {f"{name}.importing" for name in set(DATABASES) - named} and len(named) == count - 1, there
        for name in named:
            assert rows(new / name) == original.contents[name]
        expect_finished(original, new)


def test_files_again_and_again(original, tmp_path):
    """C11: an import into files that is killed again and again, at any moment, makes all of it when it is left alone"""
    new = tmp_path / "new"
    new.mkdir()

    def forget():
        for path in new.iterdir():
            path.unlink()

    for _ in original.kill_often(6, original.seconds, lambda: original.begin("--data-dir", new), forget):
        for name in DATABASES:
            assert not (new / name).exists() or rows(new / name) == original.contents[name]
    expect_finished(original, new)


class Target:
    """An empty database that is imported into."""

    def __init__(self, server, name, folder):
        self.server, self.name = server, name
        self.make()
        password = folder / "database-password"
        password.touch(mode=0o600)
        password.write_text(postgresql.PASSWORD + "\n")
        self.words = [server.url("copies").replace("/latchkey?", f"/{name}?"), "--database-password-file", password]

    def make(self):
        self.server.query(f"DROP DATABASE IF EXISTS {self.name} WITH (FORCE)", database="postgres")
        self.server.query(f"CREATE DATABASE {self.name}", database="postgres")

    def query(self, sql):
        return self.server.query(sql, database=self.name)

    def size(self, service):
        """Of a service's largest table on the disk, whether its rows are committed or not."""
        table = f"{PARTS[service]}.{LARGEST[service]}"
        return int(self.query(f"SELECT coalesce(pg_relation_size(to_regclass('{table}')), 0)"))

    def is_asked(self, text):
        """Whether an import waits for the answer to such a statement, or has just had it."""
        asked = f"SELECT count(*) FROM pg_stat_activity WHERE application_name = 'latchkey-copies' AND query LIKE '{text}'"
        return self.query(asked) != "0"

    def is_left(self):
        """Whether the server has noticed that whoever imported is gone."""
        return self.query("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'latchkey-copies'") == "0"

    def counts(self):
        listed = self.query(
            "SELECT schemaname, relname FROM pg_stat_user_tables"
            " WHERE relname NOT IN ('latchkey_schema', 'latchkey_cell', 'members', 'lanes', 'guest_usage')"
        )
        names = [line.split("|") for line in listed.splitlines()]
        all_of_them = " UNION ALL ".join(f"SELECT '{part}.{name}', count(*) FROM {part}.{name}" for part, name in names)
        found = (line.split("|") for line in self.query(all_of_them).splitlines()) if names else ()
        return {name: int(count) for name, count in found}

    def of(self, service):
        """How many rows a service has there."""
        return sum(count for name, count in self.counts().items() if name.startswith(f"{PARTS[service]}."))


def wanted(original, service):
    """How many rows of a service were exported, but for what PostgreSQL counts otherwise."""
    found = tables(original.exported)
    counted = {name: table["rows"] for name, table in found.items() if not name.endswith(".guest_usage")}
    return sum(count for name, count in counted.items() if name.startswith(f"{service}."))


def expect_stored(original, target):
    """The same command again stores the rest."""
    before = {service for service in PARTS if target.of(service)}
    answer = original.copies("import", original.exported, "--to", *target.words)
    imported = {service["service"] for service in answer["services"] if service["imported"]}
    assert imported == {service for service in PARTS if wanted(original, service)} - before
    assert {service: target.of(service) for service in PARTS} == {service: wanted(original, service) for service in PARTS}


def expect_same(original, target, folder):
    """What is exported of it is what was exported before, and the same command once more finds just that."""
    original.copies("export", folder, "--from", *target.words)
    found = lines(folder)
    assert found.pop("identity.signing_keys") == found.pop("identity.documents") == []
    assert found == original.lines
    again = original.copies("import", original.exported, "--to", *target.words)
    assert not any(service["imported"] for service in again["services"])


def over(original, target, folder, server):
    """Services over a copy of what is there."""
    server.query("DROP DATABASE IF EXISTS latchkey WITH (FORCE)", database="postgres")
    server.query(f"CREATE DATABASE latchkey TEMPLATE {target.name}", database="postgres")
    return postgresql.fleet(original.binaries, folder, server, UNTHROTTLED, secrets=original.data)


@pytest.fixture(scope="module")
def whole(original, server, tmp_path_factory):
    """How long an import into PostgreSQL takes, and what the largest tables come to."""
    target = Target(server, "whole", tmp_path_factory.mktemp("whole"))
    began = time.monotonic()
    original.copies("import", original.exported, "--to", *target.words)
    seconds = time.monotonic() - began
    sizes = {service: target.size(service) for service in LARGEST}
    print(f"into PostgreSQL in {seconds:.2f} s, {sizes}")
    return seconds, sizes


@pytest.mark.parametrize("moment", ["filled", "compared"])
@pytest.mark.parametrize("service", ["identity", "migrator"])
def test_postgresql(original, whole, server, tmp_path, service, moment):
    """C11: an import into PostgreSQL that is killed while it stores a service's rows, or compares them, leaves none of them;
    services begin with nothing of it there, and the same command again stores all"""
    most, table = whole[1][service], LARGEST[service]
    target = Target(server, "killed", tmp_path)
    is_time = {
        "filled": lambda: target.size(service) > most / 5,
        "compared": lambda: target.is_asked(f"FETCH%rows of {table}%"),
    }

    def begin():
        target.make()
        return original.begin("--to", *target.words)

    original.kill_when(is_time[moment], lambda: target.of(service) == wanted(original, service), begin)
    found, stored = target.size(service), {name: target.of(name) for name in LARGEST}
    print(f"{found} of {most} bytes, {stored} rows")
    # They were written, and are nobody's; a service is stored before the next one.
    assert 0 < found <= most
    assert stored == {"identity": wanted(original, "identity") if service == "migrator" else 0, "migrator": 0}
    if (service, moment) == ("identity", "filled"):
        eventually(target.is_left, "the server does not notice")
        original.is_unknown(over(original, target, tmp_path / "seen", server))
    # At once, whether the server has noticed or not.
    expect_stored(original, target)
    if (service, moment) == ("migrator", "compared"):
        expect_same(original, target, tmp_path / "exported")
        original.goes_on(over(original, target, tmp_path / "moved", server))


def test_postgresql_again_and_again(original, whole, server, tmp_path):
    """C11: an import into PostgreSQL that is killed again and again, at any moment, stores all when it is left alone"""
    target = Target(server, "killed", tmp_path)
    for _ in original.kill_often(4, whole[0], lambda: original.begin("--to", *target.words), target.make):
        for service in PARTS:
            assert target.of(service) in (0, wanted(original, service)), service
    expect_stored(original, target)
    expect_same(original, target, tmp_path / "exported")
