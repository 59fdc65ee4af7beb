"""What every end-to-end test starts from: the real executables on free ports, and stock gRPC stubs made from proto/.

Services keep their rows in SQLite, or with ENGINE=postgresql in PostgreSQL. Then only those tests run whose services go by
it: they ask for the fixture `engine`, themselves or by `world`, `own_world`, `tls_world` and the like, and no marker says
`sqlite`. Those that are marked `every_engine` run over both without it.
"""

import collections
import functools
import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest
import stubs

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "Tests" / "Story"))


def _binaries():
    """The folder of the built executables: $BINARIES, or the debug build."""
    return pathlib.Path(os.environ.get("BINARIES", ROOT / ".build" / "debug"))


ENGINES = ("sqlite", "postgresql")
ENGINE = os.environ.get("ENGINE", "sqlite")

stubs.generate()

import postgresql  # noqa: E402
import promises  # noqa: E402
import services  # noqa: E402
from services import Fleet  # noqa: E402

from world import TRUSTING, UNTHROTTLED, World  # noqa: E402


# Files of tests by how long they take, each about half a minute or more by itself.
LONGEST = (
    "failover", "other_failovers", "instances_work", "releases", "instances_qr", "instances_keys", "story", "postgresql", "examples",
    "reflection", "chains", "instances_events", "instances_documents", "instances_feed", "cells", "tls", "copies", "guides", "admin",
    "screen_page", "interop", "look", "copies_back", "instances_upkeep", "copies_killed", "cut_off_others",
)  # fmt: skip


@pytest.fixture(scope="session")
def binaries():
    folder = _binaries()
    for name in ("latchkey", "latchkey-identity", "latchkey-qr", "latchkey-migrator"):
        assert (folder / name).exists(), f"{folder / name} is missing: swift build"
    return folder


class FleetOverPostgreSQL(Fleet):
    """The three services over a database of their own, on a server that others share."""

    numbers = itertools.count(1)

    def __init__(self, server, binaries, directory, *, arguments=None, **options):
        super().__init__(binaries, directory, arguments=arguments, **options)
        # Without it the service warns that other instances would not know.
        base = f"{self.scheme}://{self.host}:{self.ports['qr'][0]}"
        self.arguments["qr"] = ["--verification-base", base, *self.arguments.get("qr", [])]
        flags = itertools.chain.from_iterable(self.arguments.values())
        for secret in ("identity-secret", *(() if "--services-authentication" in flags else ("service-token",))):
            if not (self.data_directory / secret).exists():
                shutil.copy2(server.secrets / secret, self.data_directory)
        self.password = self.directory / "database-password"
        self.password.touch(mode=0o600)
        self.password.write_text(postgresql.PASSWORD + "\n")
        self.use(server)

    def use(self, server):
        self.server, self.database = server, f"fleet_{next(self.numbers)}"
        server.query(f"CREATE DATABASE {self.database}", database="postgres")
        for name in services.NAMES:
            url = server.url(name).replace("/latchkey?", f"/{self.database}?")
            place = ["--storage-url", url, "--storage-password-file", str(self.password)]
            self.arguments[name] = [*self.arguments.get(name, []), *place]

    def start(self, seconds=60):
        # A service does not serve whose clock is not its database's.
        if "MOVED_CLOCK" in self.environment and not self.server.environment:
            self.use(server_with_clock(self.environment))
        return super().start(seconds)

    def __exit__(self, *_):
        super().__exit__()
        self.server.query(f"DROP DATABASE {self.database} WITH (FORCE)", database="postgres")


def server_with_clock(environment):
    """A server that goes by a moved clock as its services do, whose files are where no other user can read them."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="lkclock-"))
    folder.chmod(0o755)
    for path in map(pathlib.Path, environment.values()):
        os.link(path, folder / path.name)
    own = {name: str(folder / pathlib.Path(path).name) for name, path in environment.items()}
    server = postgresql.PostgreSQL(environment=own, fsync="off")
    SERVERS.append(server)
    return server


# All that run.
SERVERS = []


@pytest.fixture(scope="session")
def database_server(binaries, tmp_path_factory):
    """The PostgreSQL of all fleets that have their storage from here, with the secrets that are theirs too."""
    # Services are killed above it, and never the machine.
    server = postgresql.PostgreSQL(fsync="off", max_connections=300)
    SERVERS.append(server)
    server.secrets = tmp_path_factory.mktemp("database") / "secrets"
    postgresql.make_secrets(binaries, server.secrets)
    yield server
    for server in SERVERS:
        server.stop()


@pytest.fixture(scope="session")
def engine(request):
    """Makes fleets, as services.Fleet does: over what $ENGINE says, or over each engine for who is marked `every_engine`."""
    if getattr(request, "param", ENGINE) == "sqlite":
        return Fleet
    fleet = functools.partial(FleetOverPostgreSQL, request.getfixturevalue("database_server"))
    if ENGINE == "postgresql":
        # For those as well who make theirs by themselves.
        services.Fleet = fleet
    return fleet


@pytest.fixture(scope="session")
def world(engine, binaries, tmp_path_factory):
    """The three services in cleartext, shared by the tests that neither kill nor configure them."""
    arguments = UNTHROTTLED | {"*": TRUSTING}
    with engine(binaries, tmp_path_factory.mktemp("shared"), arguments=arguments) as fleet:
        yield World(fleet)


@pytest.fixture
def own_world(engine, binaries, tmp_path):
    """Three services of the test's own, to kill and restart."""
    with engine(binaries, tmp_path, arguments=UNTHROTTLED) as fleet:
        yield World(fleet)


@pytest.fixture(scope="session")
def tls_world(engine, binaries, tmp_path_factory):
    """The three services with TLS, their certificates from a test authority."""
    import authority

    folder = tmp_path_factory.mktemp("tls")
    files = authority.issue(folder)
    arguments = UNTHROTTLED | {
        "*": [
            "--tls-certificate-file", str(files.certificate),
            "--tls-key-file", str(files.key),
            "--tls-ca-file", str(files.authority),
            *TRUSTING,
        ]
    }  # fmt: skip
    with engine(binaries, folder, arguments=arguments, tls=True) as fleet:
        yield World(fleet, authority=files.authority)


@pytest.fixture
def cli(binaries, tmp_path):
    """Runs the command-line tool against a world: cli(world, "phone", "guest")."""
    from command_line import CommandLine

    return CommandLine(binaries / "latchkey", tmp_path / "profiles")


def pytest_configure(config):
    if ENGINE not in ENGINES:
        raise pytest.UsageError(f"ENGINE={ENGINE} is none of {', '.join(ENGINES)}")


def pytest_generate_tests(metafunc):
    if metafunc.definition.get_closest_marker("every_engine"):
        metafunc.parametrize("engine", ENGINES if ENGINE == "sqlite" else [ENGINE], indirect=True)


# Which tests $ENGINE has run, in words.
SELECTION = pytest.StashKey()
SWITCHED, FIXED, OWN = "over $ENGINE", "over SQLite alone, as their marker says", "over a storage of their own, or none"


def storage(item):
    """What a test's services keep their rows in, as far as it says so."""
    if item.get_closest_marker("sqlite"):
        return FIXED
    return SWITCHED if "engine" in item.fixturenames else OWN


def pytest_addoption(parser):
    parser.addoption("--promises", metavar="LETTER", help="only tests whose title begins with such an id, as C4 for C")


def pytest_itemcollected(item):
    """The title of each test goes with its reports."""
    item.user_properties.append(("title", " ".join((item.obj.__doc__ or "").split())))


def pytest_runtest_logreport(report):
    REPORTS.setdefault(report.nodeid, []).append(report)


# By test.
REPORTS = {}


def pytest_collection_modifyitems(config, items):
    """What takes longest comes first, so that those who work side by side end together."""
    rank = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.stem.removeprefix("test_"), len(rank)))
    if letter := config.getoption("--promises"):
        wanted = [item for item in items if any(found[0] == letter for found in promises.ids(dict(item.user_properties)["title"]))]
        config.hook.pytest_deselected(items=[item for item in items if item not in wanted])
        items[:] = wanted
    if ENGINE == "sqlite":
        return
    left = [item for item in items if storage(item) != SWITCHED]
    items[:] = [item for item in items if storage(item) == SWITCHED]
    config.hook.pytest_deselected(items=left)
    counts = collections.Counter(storage(item) for item in left)
    config.stash[SELECTION] = f"ENGINE={ENGINE}: {len(items)} tests over it; left out are " + " and ".join(
        f"{count} {place}" for place, count in sorted(counts.items())
    )


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    """Each of several processes selects the same tests, and one of them says which."""
    if "selection" in getattr(node, "workeroutput", {}):
        node.config.stash[SELECTION] = node.workeroutput["selection"]


def pytest_terminal_summary(terminalreporter, config):
    if SELECTION in config.stash:
        terminalreporter.write_line(config.stash[SELECTION])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """No test counts for a storage that its services do not have: a fleet starts over SQLite for who says so."""

    def start(fleet, *arguments, **options):
        if not all("--storage-url" in service.command() for service in fleet.services.values()):
            assert ENGINE == "sqlite", "these services keep their rows in SQLite: mark the test `sqlite`"
            assert storage(item) != OWN, "what do these services keep their rows in? Ask for `engine`, or mark the test `sqlite`"
        return original(fleet, *arguments, **options)

    original = Fleet.start
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Fleet, "start", start)
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A test that fails shows the end of the log of each service that died meanwhile, which may be why."""
    report = yield
    if report.failed and call.when == "call":
        for value in item.funcargs.values():
            fleet = getattr(value, "fleet", value)
            for service in getattr(fleet, "services", {}).values():
                if isinstance(service, services.Service) and service.process is not None and not service.is_running():
                    title = f"latchkey-{service.name} ended with {service.process.returncode}"
                    report.sections.append((title, service.log_tail(40)))
    return report


def pytest_sessionfinish(session, exitstatus):
    """A test that leaves a service running is a broken test."""
    if not hasattr(session.config, "workerinput"):
        for test, reports in REPORTS.items():
            title = dict(tuple(pair) for pair in reports[-1].user_properties).get("title", "")
            promises.note(title, test, promises.outcome(reports))
    if SELECTION in session.config.stash and hasattr(session.config, "workeroutput"):
        session.config.workeroutput["selection"] = session.config.stash[SELECTION]
    left = subprocess.run(
        ["pgrep", "-f", "-P", str(os.getpid()), "latchkey-(identity|qr|migrator)"], capture_output=True, text=True
    ).stdout.split()
    for pid in left:
        os.kill(int(pid), 9)
    if left:
        session.exitstatus = 1
        print(f"\nservices were left running and are stopped now: {left}")
