"""The QR service as a target: one process of its own, and what an honest client beside an attack is served."""

import contextlib
import json
import pathlib
import subprocess
import time
import urllib.request

import frames
import services
from peer import DEADLINE, Peer

# (test, quiet p99, p99 beside the attack, calls, bytes of memory more), of all targets.
MEASURED = []


class Target:
    # Whether an honest newcomer may find no room.
    is_full = False
    measured = MEASURED

    def __init__(self, process, port, authority=None, management=None):
        self.process = process
        self.port = port
        self.authority = authority
        self.management = management
        self.quiet = None

    def is_live(self):
        """What the probe of a container asks."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.management}/livez", timeout=DEADLINE) as answer:
            return answer.status == 200

    def connect(self, *settings, **arguments):
        return Peer(self.port, tls=self.authority, **arguments).hello(*settings)

    def raw(self, **arguments):
        return Peer(self.port, **arguments)

    def begun(self, protocol="h2", **arguments):
        """A connection on which nothing is said yet, after the handshake where there is TLS."""
        return Peer(self.port, tls=self.authority, protocol=protocol, **arguments)

    def metric_lines(self):
        """What /metrics says, without the comments."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.management}/metrics", timeout=DEADLINE) as answer:
            return [line for line in answer.read().decode().splitlines() if not line.startswith("#")]

    def metrics(self):
        """The plain numbers of /metrics by their names, without the prefix that all have."""
        lines = [line.split(" ") for line in self.metric_lines()]
        return {name.removeprefix("latchkey_"): float(value) for name, value in lines if "{" not in name}

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

    def issue(self):
        """Issues a code; the request of a poll for it."""
        from latchkey.qr.v1 import qr_session_service_pb2 as qr

        request = qr.IssueSessionRequest(
            client_id="latchkey-demo", purpose=qr.PURPOSE_LOGIN, code_challenge="A" * 43, code_challenge_method="S256"
        )
        with self.connect(timeout=DEADLINE) as client:
            client.send(frames.call(1, frames.ISSUE, request.SerializeToString()))
            fields, body = client.answer(1)
        assert fields["grpc-status"] == "0", fields
        code = qr.IssueSessionResponse.FromString(body[5:]).device_code
        return qr.PollSessionRequest(device_code=code).SerializeToString()

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
                "--ports-file", str(ports), "--data-dir", str(folder / "data"),
                "--poll-interval", "0s", "--poll-long-interval", "0s", "--limits-issues-per-minute", "0", *arguments,
            ],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=services.clean_environment(),
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while True:
            assert process.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
            with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
                listening = json.loads(ports.read_text())
                break
            time.sleep(0.01)
        yield Target(process, listening["grpc"]["port"], authority, listening["management"]["port"])
        assert process.poll() is None, (folder / "log").read_text()
    finally:
        process.kill()
        process.wait()
