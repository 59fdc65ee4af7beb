"""Two instances of each service over the database cluster, and the balancer in front of them."""

import contextlib
import pathlib
import urllib.request

import database
import postgresql
import processes
import services

INSTANCES = 2


class Front:
    """The installation as clients see it: one address for each service, which is the balancer's."""

    host, scheme = "127.0.0.1", "http"

    def __init__(self, fleet):
        self.fleet = fleet
        self.binaries, self.directory, self.data_directory = fleet.binaries, fleet.directory, fleet.data_directory
        self.services = fleet.services
        self.ports = {name: (services.free_port(), None) for name in services.NAMES}

    class Address:
        def __init__(self, address):
            self.address = address

    def __getitem__(self, name):
        return self.Address(f"{self.host}:{self.ports[name][0]}")

    @property
    def issuer(self):
        return f"http://{self['identity'].address}"


class Installation:
    """Everything on one machine: `database` (a DatabaseCluster), `fleet` (the services' processes) and `front` (the
    balancer's addresses)."""

    def __init__(self, binaries, folder, arguments=None, etcd_members=1):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.database = database.DatabaseCluster(self.folder, members=etcd_members)
        self.balancer = None
        try:
            # Has identity make the secrets that all share.
            self.fleet = postgresql.fleet(binaries, self.folder / "fleet", self.database, arguments or {}, instances=INSTANCES)
        except BaseException:
            self.database.stop()
            raise
        self.front = Front(self.fleet)
        addresses = [part for name in services.NAMES for part in (f"--{name}-address", self.front[name].address)]
        common = ["--issuer", self.front.issuer, "--proxies-trusted", "127.0.0.1", *addresses]
        self.fleet.arguments["*"] = [*self.fleet.arguments.get("*", []), *common]
        # After what the fleet said: where codes point to is the balancer.
        self.fleet.arguments["qr"] += ["--verification-base", f"http://{self.front['qr'].address}"]

    def start_balancer(self):
        words = {}
        for name in services.NAMES:
            words[name] = self.front.ports[name][0]
            for number in range(1, INSTANCES + 1):
                instance = name if number == 1 else f"{name}-{number}"
                words[f"{name}_{number}"], words[f"{name}_{number}_page"] = self.fleet.ports[instance]
        config = self.folder / "haproxy.cfg"
        database.fill("haproxy.cfg", config, **words)
        command = ["haproxy", "-db", "-q", "-f", config]
        self.balancer = processes.Process("HAProxy", command, self.folder / "haproxy.log")

    def is_served(self):
        with contextlib.suppress(OSError):
            for name in services.NAMES:
                path = "/.well-known/jwks.json" if name == "identity" else "/"
                with contextlib.suppress(urllib.error.HTTPError):
                    urllib.request.urlopen(f"http://{self.front[name].address}{path}", timeout=5).close()
            return True
        return False

    def start(self):
        """Database, balancer, services: in this order, because a service finds identity by the balancer."""
        try:
            self.database.start()
            self.start_balancer()
            self.fleet.start(seconds=120)
            processes.wait_until(self.is_served, "an answer through the balancer", [self.balancer])
        except BaseException:
            self.stop()
            raise

    def stop(self):
        """Returns the services' exit statuses by name."""
        statuses = self.fleet.stop()
        if self.balancer is not None:
            self.balancer.stop()
        self.database.stop()
        return statuses

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
