"""Starts and stops the three services: for the story and for the end-to-end tests. Python's own library only."""

import collections
import contextlib
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

NAMES = ("identity", "qr", "migrator")
LOOPBACK = "127.0.0.0/8,::1"
DEFAULT_PORTS = {"identity": (7401, 7501), "qr": (7402, 7502), "migrator": (7403, 7503)}


class StartError(Exception):
    """A service did not come up; the text says why, with the end of its log."""


def is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def port_range():
    """Below the range that the kernel hands to outgoing connections. Tests that run side by side have a part each: a
    service that was killed finds its port free again."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    size = 12_000 // workers
    first = 20_000 + int(worker) * size
    return first, first + size


# What was given out lately, whether somebody listens there by now or not.
_given = collections.deque(maxlen=200)


def free_port(taken=()):
    """A port that nobody has or is about to have."""
    first, end = port_range()
    for _ in range(1000):
        port = random.randrange(first, end)
        if port not in taken and port not in _given and is_free(port):
            _given.append(port)
            return port
    raise StartError(f"no free port between {first} and {end}")


def instance_names(instances):
    """The services' names, and `identity-2`, `qr-2`, `migrator-2`, ... for further instances of each."""
    return [*NAMES, *(f"{name}-{number}" for number in range(2, instances + 1) for name in NAMES)]


def choose_ports(prefer_defaults=False, names=NAMES):
    """{name: (grpc port, management port)}: the defaults if all are free and wanted, else free ones."""
    wanted = [port for pair in DEFAULT_PORTS.values() for port in pair]
    if prefer_defaults and all(is_free(port) for port in wanted):
        return dict(DEFAULT_PORTS)
    taken = set()
    ports = {}
    for name in names:
        pair = []
        for _ in range(2):
            pair.append(free_port(taken))
            taken.add(pair[-1])
        ports[name] = tuple(pair)
    return ports


def clean_environment():
    """The environment without our variables: a run must not depend on the caller's settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith("LATCHKEY_")}


class Service:
    """One process of one service, started and killed as often as a test likes, always on the same ports.

    `name` is the service's, or with the instance's number, such as `qr-2`. Every instance has a data directory of its
    own, and takes its peers to be the first instances; flags given by its own name come last, and so go before others.
    """

    def __init__(self, fleet, name):
        self.fleet = fleet
        self.name = name
        self.kind, _, number = name.partition("-")
        self.number = int(number or 1)
        self.data_directory = fleet.data_directory
        if self.number > 1:
            self.data_directory = fleet.data_directory.with_name(f"{fleet.data_directory.name}-{self.number}")
        self.grpc_port, self.management_port = fleet.ports[name]
        self.log_path = fleet.directory / f"{name}.log"
        # A folder of its own, or None for the fleet's.
        self.executables = None
        self.process = None

    @property
    def address(self):
        return f"127.0.0.1:{self.grpc_port}"

    def command(self):
        ports = self.fleet.ports
        return [
            str((self.executables or self.fleet.binaries) / f"latchkey-{self.kind}"),
            "--listen-port", str(self.grpc_port),
            "--management-port", str(self.management_port),
            "--data-dir", str(self.data_directory),
            "--issuer", self.fleet.issuer,
            *[
                part
                for other in NAMES
                for part in (f"--{other}-address", f"{self.fleet.host}:{ports[other][0]}")
            ],
            *self.fleet.arguments.get("*", []),
            *self.fleet.arguments.get(self.kind, []),
            *(self.fleet.arguments.get(self.name, []) if self.number > 1 else []),
        ]  # fmt: skip

    def start(self, wait=True):
        assert self.process is None, f"{self.name} runs already"
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=clean_environment() | self.fleet.environment,
                # A Ctrl-C in the terminal is for the story; it stops the services itself, in order.
                start_new_session=True,
            )
        if wait:
            self.wait_until_ready()

    def wait_until_ready(self, seconds=60):
        deadline = time.monotonic() + seconds
        while not self.is_ready():
            self.expect_life(deadline)
            time.sleep(0.01)

    def expect_life(self, deadline):
        """An error once it has ended, or should be ready by now."""
        if self.process.poll() is not None:
            status = self.process.returncode
            self.process = None
            raise StartError(f"latchkey-{self.name} ended with {status}:\n{self.log_tail()}")
        if time.monotonic() > deadline:
            raise StartError(f"latchkey-{self.name} is not ready in time:\n{self.log_tail()}")

    def is_ready(self):
        try:
            with urllib.request.urlopen(self.page_url("/readyz"), timeout=2) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def page_url(self, path):
        return f"http://127.0.0.1:{self.management_port}{path}"

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        """As a crash or the kernel's out-of-memory killer would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process = None

    def freeze(self):
        """Stops it as a machine that sleeps is, and waits until it stands still: until its threads are scheduled they go on."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def thaw(self):
        """Lets it go on where it stands."""
        self.process.send_signal(signal.SIGCONT)

    def stop(self, seconds=30):
        """Asks the service to drain and returns its exit status; kills it if it takes longer than that."""
        if self.process is None:
            return None
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            status = None
        self.process = None
        return status

    def restart(self):
        self.kill()
        self.start()

    def log_tail(self, lines=20):
        try:
            return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])
        except FileNotFoundError:
            return "(no log)"

    def log_records(self):
        """Every line of the log, parsed."""
        return [json.loads(line) for line in self.log_path.read_text().splitlines()]


class Fleet:
    """The three services over one data directory, or several instances of each."""

    def __init__(
        self, binaries, directory, *,
        data_directory=None, ports=None, arguments=None, tls=False, exempt=LOOPBACK, instances=1,
    ):  # fmt: skip
        """`arguments` are extra flags by service name, "*" for all of them; those of `qr` are every QR instance's, those
        of `qr-2` the second one's alone.

        `exempt` are networks from which the identity service takes any number of guests and sign-ins: a story, and most
        tests, are more people than live at one address.
        """
        self.binaries = pathlib.Path(binaries)
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.data_directory = pathlib.Path(data_directory or self.directory / "data")
        self.data_directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        names = instance_names(instances)
        self.ports = ports or choose_ports(names=names)
        self.arguments = dict(arguments or {})
        if exempt:
            self.arguments["identity"] = ["--limits-exempt", exempt, *self.arguments.get("identity", [])]
        self.environment = {}
        self.host = "localhost" if tls else "127.0.0.1"
        self.scheme = "https" if tls else "http"
        self.services = {name: Service(self, name) for name in names}

    @property
    def issuer(self):
        return f"{self.scheme}://{self.host}:{self.ports['identity'][0]}"

    def __getitem__(self, name):
        return self.services[name]

    def start(self, seconds=60):
        """Starts all of them at once, and returns by how many seconds the last one was ready after the first."""
        ready = {}
        deadline = time.monotonic() + seconds
        try:
            for service in self.services.values():
                service.start(wait=False)
            while len(ready) < len(self.services):
                for name, service in self.services.items():
                    if name not in ready and service.is_ready():
                        ready[name] = time.monotonic()
                    elif name not in ready:
                        service.expect_life(deadline)
                time.sleep(0.005)
        except BaseException:
            self.stop()
            raise
        return max(ready.values()) - min(ready.values())

    def stop(self):
        """Stops what was started here, and nothing else. Returns the exit statuses by name."""
        running = {name: service for name, service in self.services.items() if service.process is not None}
        for service in running.values():
            with contextlib.suppress(ProcessLookupError):
                service.process.send_signal(signal.SIGTERM)
        return {name: service.stop() for name, service in running.items()}

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
