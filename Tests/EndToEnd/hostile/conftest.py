"""The server under attack: the QR service alone, cleartext and with TLS, and honest clients beside the attacker."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import frames  # noqa: E402
import services  # noqa: E402
from peer import DEADLINE, Peer  # noqa: E402

class Target:
    def __init__(self, process, port, authority=None):
        self.process = process
        self.port = port
        self.authority = authority

    def connect(self, *settings, **arguments):
        return Peer(self.port, tls=self.authority, **arguments).hello(*settings)

    def raw(self, **arguments):
        return Peer(self.port, **arguments)

    @property
    def resident(self):
        """Bytes of memory of the process."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("the server has no memory: it has died")

    @property
    def descriptors(self):
        return len(list(pathlib.Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def call(self):
        """One honest call on a connection of its own."""
        with self.connect(timeout=DEADLINE) as client:
            client.send(frames.call(1))
            assert client.status(1) == 0


@contextlib.contextmanager
def serving(binaries, folder, *arguments, authority=None):
    folder.mkdir(parents=True, exist_ok=True)
    ports = folder / "ports.json"
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(
            [
                str(binaries / "latchkey-qr"), "--listen-port", "0", "--management-port", "0",
                "--ports-file", str(ports), "--data-dir", str(folder / "data"), *arguments,
            ],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=services.clean_environment(),
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 20
        while True:
            assert process.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
            with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
                listening = json.loads(ports.read_text())
                break
            time.sleep(0.01)
        yield Target(process, listening["grpc"]["port"], authority)
        assert process.poll() is None, (folder / "log").read_text()
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def qr_binary():
    folder = pathlib.Path(os.environ.get("BINARIES", pathlib.Path(__file__).parents[3] / ".build" / "debug"))
    assert (folder / "latchkey-qr").exists(), "latchkey-qr is missing: swift build"
    return folder


@pytest.fixture(scope="session")
def target(qr_binary, tmp_path_factory):
    with serving(qr_binary, tmp_path_factory.mktemp("hostile")) as target:
        target.call()
        yield target


@pytest.fixture(scope="session")
def tls_target(qr_binary, tmp_path_factory):
    import authority

    folder = tmp_path_factory.mktemp("hostile-tls")
    files = authority.issue(folder)
    arguments = ["--tls-certificate-file", str(files.certificate), "--tls-key-file", str(files.key)]
    with serving(qr_binary, folder / "service", *arguments, authority=files.authority) as target:
        yield target
