"""How honest clients and attackers come to a service, for attacks.py --calls: by themselves, in cleartext or by TLS, or through a
proxy that names them, by the PROXY protocol for each connection or by a field of each request."""

import contextlib
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import authority
import honest_calls
import sharing_proxy
import services
import target as hostile
from world import World

# The address of the proxy, which the services trust, and those that it gives to honest clients where it names each request's.
PROXY, NAMED = "127.0.7.1", "127.0.9.0/24"
# Ports of the proxy's connections for honest clients, since attackers may take all that the kernel would give.
PORTS = "10000-19999"
# Seconds between an attack's beginning and what is measured of it.
SETTLE = 0.5


def addresses(count):
    """So many, none of them an honest client's."""
    return [f"127.0.{1 + number // 250}.{1 + number % 250}" for number in range(count)]


@contextlib.contextmanager
def attacking(target, make, settle=SETTLE):
    """A process that attacks again and again; within `settle` seconds it has what it is to have."""
    child = os.fork()
    if child == 0:
        threading.excepthook = lambda _: None
        attack = make()
        while True:
            with contextlib.suppress(Exception):
                attack(target)
            time.sleep(0.001)
    try:
        time.sleep(settle)
        assert os.waitpid(child, os.WNOHANG) == (0, 0), "the attacker has ended"
        yield
        assert os.waitpid(child, os.WNOHANG) == (0, 0), "the attacker has ended meanwhile"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def ordinary():
    """The attacker runs whenever the callers do not."""
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True


class Callers(World):
    """The services as honest clients reach them."""

    def __init__(self, fleet, way):
        self.way = way
        super().__init__(fleet, way.authority)

    def target(self, name):
        # By the address: a name would have to be looked up for each channel.
        return f"127.0.0.1:{self.way.port(self.fleet, name)}"

    def new_channel(self, name, options=()):
        return self.way.channel(name) or super().new_channel(name, options)


class Directly:
    """Each by itself."""

    # `least`: what a quiet call counts for at least, in seconds.
    name, exempt, least = "", honest_calls.HONEST, 0

    def __init__(self, folder, tls):
        self.folder, self.flags, self.authority = folder, [], None
        if tls:
            files = authority.issue(folder)
            self.name, self.authority = "by TLS", files.authority
            self.flags = ["--tls-certificate-file", str(files.certificate), "--tls-key-file", str(files.key)]
            self.flags += ["--tls-ca-file", str(files.authority)]

    def port(self, fleet, service):
        return fleet.ports[service][0]

    def channel(self, service):
        """One that is not gRPC's own."""

    @contextlib.contextmanager
    def world(self, fleet):
        world = Callers(fleet, self)
        try:
            yield world
        finally:
            world.close()

    def target(self, service):
        return hostile.Target(service.process, service.grpc_port, self.authority, service.management_port)

    def seconds(self, make, otherwise):
        """For how long an attack is looked at: one that takes something and keeps it is until it has done so twice."""
        if not hasattr(make, "taking"):
            return otherwise
        return make.kept + 2 * (make.by_tls if self.authority else make.taking)

    def source(self, count):
        """Lets every socket of this process come from one of so many addresses of loopback."""
        names = itertools.cycle(addresses(count))

        class Sourced(socket.socket):
            def connect(self, address):
                with contextlib.suppress(OSError):
                    self.bind((next(names), 0))
                super().connect(address)

        socket.socket = Sourced

    def attacking(self, target, make, sources, settle):
        def made():
            ordinary()
            self.source(sources)
            return make()

        return attacking(target, made, settle)


class ByProtocol(Directly):
    """By a proxy that opens a connection for each of theirs and begins it with the PROXY protocol.

    For honest clients that is HAProxy. Attackers write what it would write, from its address.
    """

    def __init__(self, folder, tls):
        super().__init__(folder, tls)
        self.name = f"{self.name} by the PROXY protocol".strip()
        self.flags += ["--proxies-trusted", PROXY]
        self.ports = {name: services.free_port() for name in services.NAMES}

    def port(self, fleet, service):
        return self.ports[service]

    @contextlib.contextmanager
    def world(self, fleet):
        lines = ["global", " maxconn 4000", "defaults", " mode tcp", " maxconn 4000", " timeout connect 5s"]
        lines += [" timeout client 1h", " timeout server 1h", " retries 0"]
        for name, port in self.ports.items():
            server = f"127.0.0.1:{fleet.ports[name][0]} source {PROXY}:{PORTS} send-proxy-v2"
            lines += [f"listen {name}", f" bind 127.0.0.1:{port}", f" server {name} {server}"]
        configuration = self.folder / "haproxy.cfg"
        configuration.write_text("\n".join([*lines, ""]))
        program = shutil.which("haproxy") or "/usr/sbin/haproxy"
        with open(self.folder / "haproxy.log", "wb") as log:
            proxy = subprocess.Popen([program, "-db", "-f", str(configuration)], stdout=log, stderr=log)
        try:
            end = time.monotonic() + 10
            while not all(map(listens, self.ports.values())):
                assert proxy.poll() is None and time.monotonic() < end, (self.folder / "haproxy.log").read_text()
                time.sleep(0.05)
            with super().world(fleet) as world:
                yield world
        finally:
            proxy.terminate()
            proxy.wait()

    def source(self, count):
        names = itertools.cycle(addresses(count))

        class Named(socket.socket):
            def connect(self, address):
                with contextlib.suppress(OSError):
                    self.bind((PROXY, 0))
                super().connect(address)
                self.sendall(sharing_proxy.header_of(next(names), *address))

        socket.socket = Named


class ByField(Directly):
    """By a proxy that has all of them share its connections, and names the client of each request in a field."""

    # Honest clients here are faster than stock ones, whose calls take so long at least.
    exempt, least = NAMED, 0.004

    def __init__(self, folder, tls):
        assert not tls, "the proxy of the attacks speaks to the services in cleartext"
        super().__init__(folder, tls)
        self.name = "by X-Forwarded-For"
        # Fewer calls than the attackers' connections carry, so that room has to be made for others.
        self.flags += ["--proxies-trusted", PROXY, "--limits-calls", "700"]
        self.clients = itertools.cycle([f"127.0.9.{number}" for number in range(1, 251)])

    def channel(self, service):
        """For a client of an address of its own: instead of new connections there are clients whom the service does not know."""
        return sharing_proxy.Channel(self.proxies[service], next(self.clients))

    @contextlib.contextmanager
    def world(self, fleet):
        # Honest clients and attackers are threads of one process; whoever waits for the interpreter does not wait for long.
        interval = sys.getswitchinterval()
        sys.setswitchinterval(0.0001)
        self.proxies = {name: sharing_proxy.Proxy(fleet.ports[name][0], PROXY) for name in services.NAMES}
        try:
            with super().world(fleet) as world:
                yield world
        finally:
            for proxy in self.proxies.values():
                proxy.close()
            sys.setswitchinterval(interval)

    def target(self, service):
        target = super().target(service)
        target.proxy, target.service = self.proxies[service.name], service.name
        return target

    @contextlib.contextmanager
    def attacking(self, target, make, sources, settle):
        attacker = Attacker(target.proxy, addresses(sources))

        def run():
            # As urgent as the callers: now and then they wait until it lets go of the interpreter.
            attack = make(target.service)
            while not attacker.stop.is_set():
                with contextlib.suppress(OSError):
                    attack(attacker)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            time.sleep(settle)
            assert thread.is_alive(), "the attacker has ended"
            yield
            assert thread.is_alive(), "the attacker has ended meanwhile"
        finally:
            attacker.stop.set()
            thread.join()
            target.proxy.shrink()


class Attacker:
    """Clients of a proxy that take their turns, request by request."""

    def __init__(self, proxy, clients):
        self.proxy, self.clients, self.stop = proxy, clients, threading.Event()
        self.blocks = {}

    def head(self, *request):
        """The header block of the next one's request: its path, and fields of its own."""
        if request not in self.blocks:
            path, *extra = request
            self.blocks[request] = itertools.cycle([sharing_proxy.block(path, client, *extra) for client in self.clients])
        return next(self.blocks[request])


WAYS = {None: Directly, "protocol": ByProtocol, "field": ByField}
