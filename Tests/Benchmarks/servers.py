"""The servers under test: ours and its peers, each pinned to one core."""

import datetime
import os
import shutil
import signal
import subprocess
import sys
import time

import machine

sys.path.insert(0, str(machine.ROOT / "Tests" / "EndToEnd"))

import authority  # noqa: E402

POLL = "/latchkey.qr.v1.QrSessionService/PollSession"


def certificate():
    """A leaf for localhost by an authority of its own, made once a day."""
    folder = machine.OUT / "tls" / datetime.date.today().isoformat()
    if not (folder / "key.pem").exists():
        folder.mkdir(parents=True)
        authority.issue(folder)
    return authority.Files(folder / "authority.pem", folder / "certificate.pem", folder / "key.pem")


class Server:
    """A process under test, alive inside `with`."""

    def __init__(self, name, command, *, tls, port, environment=None):
        self.name = name
        self.tls = tls
        self.port = port
        self._command = list(map(str, command))
        self._environment = environment or {}
        self.process = None

    def under(self, *tool):
        """The same server, run by another program."""
        self._command = [*tool, *self._command]
        return self

    @property
    def log(self):
        return machine.OUT / f"{self.name}{'-tls' if self.tls else ''}.log"

    @property
    def target(self):
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def __enter__(self):
        # Should this process be killed, the server goes too.
        pinned = ["setpriv", "--pdeathsig", "TERM", "taskset", "-c", str(machine.SERVER_CORE)]
        clean = {name: value for name, value in os.environ.items() if not name.startswith("LATCHKEY_")}
        with open(self.log, "w") as output:
            self.process = subprocess.Popen(
                [*pinned, *self._command],
                env=clean | self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        for _ in range(600):
            # In this order: whoever listens when our process has ended is somebody else.
            is_listening = machine.is_listening(self.port)
            if self.process.poll() is not None:
                break
            if is_listening:
                return self
            time.sleep(0.05)
        self.__exit__()
        raise SystemExit(f"bench: {self.name} does not listen:\n{self.log.read_text()[-2000:]}")

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(40)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def fresh_directory(name):
    data = machine.OUT / "data" / name
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir(parents=True, mode=0o700)
    return data


def latchkey(service, tls, *arguments, data=None):
    """A service of ours, over a fresh data directory unless one is named."""
    data = data or fresh_directory(f"{service}{'-tls' if tls else ''}")
    port = machine.free_port()
    command = [
        machine.RELEASE / f"latchkey-{service}", "--listen-port", port, "--management-port", 0, "--data-dir", data,
        "--threads", 1, "--log-level", "warning", *arguments,
    ]  # fmt: skip
    if tls:
        files = certificate()
        command += ["--tls-certificate-file", files.certificate, "--tls-key-file", files.key]
    server = Server(f"latchkey-{service}", command, tls=tls, port=port)
    server.data = data
    return server


def latchkey_qr(tls, data=None):
    """With the longest life of codes, and without the throttles: h2load polls one code far faster than a screen would,
    and asks for all of them from one address."""
    return latchkey(
        "qr", tls, "--code-lifetime", "600s", "--poll-interval", "0s", "--poll-long-interval", "0s",
        "--limits-issues-per-minute", 0, "--limits-scans-per-minute", 0, data=data,
    )  # fmt: skip


def nghttpd(tls):
    """Serves a file of 32 bytes, about as much as a poll's answer with its trailers."""
    folder = machine.OUT / "htdocs"
    folder.mkdir(exist_ok=True)
    (folder / "answer").write_text("0123456789abcdef0123456789abcdef")
    port = machine.free_port()
    command = ["nghttpd", "-n", 1, "-d", folder, "-a", "127.0.0.1", port]
    if tls:
        files = certificate()
        command += [files.key, files.certificate]
    else:
        command.append("--no-tls")
    return Server("nghttpd", command, tls=tls, port=port)


def grpc_cpp(tls):
    """The same service by gRPC C++ with its callback API; see grpc-cpp/poll_server.cc."""
    port = machine.free_port()
    command = [machine.OUT / "grpc-cpp" / "poll_server", port]
    if tls:
        files = certificate()
        command += [files.certificate, files.key]
    return Server("grpc-cpp", command, tls=tls, port=port)


FLOORS = ("epoll", "uring")


def floor(kind):
    """What reading requests and writing answers costs by itself; see floor/epoll.c and floor/uring.c."""
    port = machine.free_port()
    return Server(f"floor-{kind}", [machine.OUT / "floor" / kind, port], tls=False, port=port)


def latchkey_identity(tls, data=None):
    """Without the throttles of one address."""
    return latchkey("identity", tls, "--limits-exempt", "127.0.0.0/8", data=data)
