"""What every end-to-end test starts from: the real executables on free ports, and stock gRPC stubs made from proto/."""

import os
import pathlib
import subprocess
import sys

import pytest
import stubs

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "Tests" / "Story"))


def _binaries():
    """The folder of the built executables: $BINARIES, or the debug build."""
    return pathlib.Path(os.environ.get("BINARIES", ROOT / ".build" / "debug"))


stubs.generate()

import services  # noqa: E402

from world import TRUSTING, UNTHROTTLED, World  # noqa: E402


# Files of tests by how long they take, each about half a minute or more by itself.
LONGEST = (
    "instances_work", "releases", "instances_qr", "instances_keys", "story", "postgresql", "examples", "reflection", "chains",
    "instances_events", "instances_documents", "instances_feed", "cells", "tls", "copies", "guides", "admin", "screen_page",
    "interop", "look", "copies_back",
)  # fmt: skip


@pytest.fixture(scope="session")
def binaries():
    folder = _binaries()
    for name in ("latchkey", "latchkey-identity", "latchkey-qr", "latchkey-migrator"):
        assert (folder / name).exists(), f"{folder / name} is missing: swift build"
    return folder


@pytest.fixture(scope="session")
def world(binaries, tmp_path_factory):
    """The three services in cleartext, shared by the tests that neither kill nor configure them."""
    arguments = UNTHROTTLED | {"*": TRUSTING}
    with services.Fleet(binaries, tmp_path_factory.mktemp("shared"), arguments=arguments) as fleet:
        yield World(fleet)


@pytest.fixture
def own_world(binaries, tmp_path):
    """Three services of the test's own, to kill and restart."""
    with services.Fleet(binaries, tmp_path, arguments=UNTHROTTLED) as fleet:
        yield World(fleet)


@pytest.fixture(scope="session")
def tls_world(binaries, tmp_path_factory):
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
    with services.Fleet(binaries, folder, arguments=arguments, tls=True) as fleet:
        yield World(fleet, authority=files.authority)


@pytest.fixture
def cli(binaries, tmp_path):
    """Runs the command-line tool against a world: cli(world, "phone", "guest")."""
    from command_line import CommandLine

    return CommandLine(binaries / "latchkey", tmp_path / "profiles")


def pytest_collection_modifyitems(items):
    """What takes longest comes first, so that those who work side by side end together."""
    rank = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.stem.removeprefix("test_"), len(rank)))


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
    left = subprocess.run(
        ["pgrep", "-f", "-P", str(os.getpid()), "latchkey-(identity|qr|migrator)"], capture_output=True, text=True
    ).stdout.split()
    for pid in left:
        os.kill(int(pid), 9)
    if left:
        session.exitstatus = 1
        print(f"\nservices were left running and are stopped now: {left}")
