"""The tests over a database cluster: what they import, one installation for those of a file, and the table of their figures."""

import pathlib
import random
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "deploy" / "cluster"))

import bars  # noqa: E402
import installation  # noqa: E402
from world import UNTHROTTLED  # noqa: E402

# Cheap hashes: what is tried here is not their strength.
CHEAP_PASSWORDS = ["--password-memory-kib", "8192", "--password-passes", "1"]

# What `make cluster-test` may take: longer, and nobody runs it.
MOST_SECONDS = 20 * 60
BEGAN = time.monotonic()
# By test of this folder.
REPORTS = {}


@pytest.fixture(scope="module")
def place(binaries, tmp_path_factory):
    """Two instances of each service behind a balancer, over three PostgreSQL that fail over."""
    folder = tmp_path_factory.mktemp("cluster")
    # Codes outlive every outage that is tried.
    arguments = {"qr": [*UNTHROTTLED["qr"], "--code-lifetime", "10m"], "identity": CHEAP_PASSWORDS}
    with installation.Installation(binaries, folder, arguments) as place:
        yield place


@pytest.fixture
def seed():
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    return seed


@pytest.fixture
def bar(request):
    """Notes a figure for the table at the end, beside what it may be `most` or must be at `least`. It asserts nothing."""

    def note(what, figure, *, unit="", most=None, least=None):
        said = {"what": what, "figure": figure, "unit": unit, "most": most, "least": least}
        request.node.user_properties.append(("bar", said))

    return note


def pytest_runtest_logreport(report):
    if "cluster" in pathlib.PurePath(report.nodeid.partition("::")[0]).parts:
        REPORTS.setdefault(report.nodeid, []).append(report)


def pytest_terminal_summary(terminalreporter):
    if REPORTS:
        terminalreporter.section("figures and their bars")
        for line in bars.lines(REPORTS, time.monotonic() - BEGAN, MOST_SECONDS):
            terminalreporter.write_line(line)
