"""The tests over a database cluster: what they import, and one installation for those of a file."""

import pathlib
import random
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "deploy" / "cluster"))

import installation  # noqa: E402
from world import UNTHROTTLED  # noqa: E402

# Cheap hashes: what is tried here is not their strength.
CHEAP_PASSWORDS = ["--password-memory-kib", "8192", "--password-passes", "1"]


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
