"""A network of its own for the services: a namespace with two addresses, and nftables to cut, lose and reset at will.

    this process ── veth ── NEAR │ the services
                        └── FAR  │

What a test does to FAR leaves NEAR as it was. Needs root; `why_not` says what is missing.
"""

import contextlib
import os
import shutil
import subprocess

import services
from world import World


def run(*words, check=True, stdin=None):
    return subprocess.run(words, check=check, input=stdin, capture_output=True, text=True)


def why_not():
    """Why there can be no such network here; None when there can."""
    for tool, package in (("ip", "iproute2"), ("nft", "nftables")):
        if shutil.which(tool) is None:
            return f"{tool} is missing: install {package}"
    probe = f"latchkey-probe-{os.getpid()}"
    made = run("ip", "netns", "add", probe, check=False)
    if made.returncode != 0:
        return f"no network namespaces here: {made.stderr.strip()}"
    try:
        table = run("ip", "netns", "exec", probe, "nft", "add", "table", "inet", "probe", check=False)
        link = run("ip", "link", "add", f"lk{os.getpid()}p", "type", "veth", "peer", "name", "eth0", "netns", probe, check=False)
        for tried, what in ((table, "nftables"), (link, "veth")):
            if tried.returncode != 0:
                return f"no {what} in network namespaces here: {tried.stderr.strip()}"
    finally:
        run("ip", "netns", "del", probe, check=False)
    return None


class Network:
    def __init__(self):
        self.name = f"latchkey-{os.getpid()}"
        self.link = f"lk{os.getpid()}"
        # RFC 2544: a range for tests, in the slice of this process.
        subnet = f"198.18.{os.getpid() % 256}"
        self.here, self.near, self.far = (f"{subnet}.{host}" for host in (1, 2, 3))

    def __enter__(self):
        run("ip", "netns", "add", self.name)
        try:
            run("ip", "link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", self.name)
            run("ip", "addr", "add", f"{self.here}/24", "dev", self.link)
            run("ip", "link", "set", self.link, "up")
            for words in (
                ["addr", "add", f"{self.near}/24", "dev", "eth0"], ["addr", "add", f"{self.far}/24", "dev", "eth0"],
                ["link", "set", "lo", "up"], ["link", "set", "eth0", "up"],
            ):  # fmt: skip
                self.inside("ip", *words)
            self.rules()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        # Takes both ends of the link with it.
        run("ip", "netns", "del", self.name, check=False)

    def inside(self, *words, **arguments):
        return run("ip", "netns", "exec", self.name, *words, **arguments)

    def rules(self, incoming="", outgoing=""):
        """Puts these in place of the rules that are there, in one step."""
        table = "table inet faults"
        self.inside(
            "nft", "-f", "-",
            stdin=f"{table}\ndelete {table}\n{table} {{\n"
            f"chain incoming {{ type filter hook input priority 0; {incoming}\n}}\n"
            f"chain outgoing {{ type filter hook output priority 0; {outgoing}\n}}\n}}\n",
        )  # fmt: skip

    def heal(self):
        self.rules()

    def cut(self):
        """FAR is gone, both ways, and nobody is told."""
        self.rules(f"ip daddr {self.far} drop", f"ip saddr {self.far} drop")

    def lose(self, percent):
        """So many of a hundred packets are lost on the way to FAR, and back."""
        chance = f"numgen random mod 100 < {percent} drop"
        self.rules(f"ip daddr {self.far} {chance}", f"ip saddr {self.far} {chance}")

    @contextlib.contextmanager
    def resetting(self):
        """Every connection to FAR that says something is reset, on both sides."""
        reset = "reject with tcp reset"
        self.rules(f"ip daddr {self.far} meta l4proto tcp {reset}", f"ip saddr {self.far} meta l4proto tcp {reset}")
        try:
            yield
        finally:
            self.heal()


class Service(services.Service):
    def command(self):
        network = self.fleet.network
        return [
            "ip", "netns", "exec", network.name, *super().command(),
            # On both addresses, and reached by a network that is nobody else's.
            "--listen-host", "0.0.0.0", "--management-host", network.near, "--insecure-cleartext",
        ]  # fmt: skip

    def page_url(self, path):
        return f"http://{self.fleet.network.near}:{self.management_port}{path}"


class Fleet(services.Fleet):
    """The three services in a network of their own."""

    def __init__(self, network, binaries, directory, **arguments):
        super().__init__(binaries, directory, **arguments)
        self.network = network
        self.host = network.near
        self.services = {name: Service(self, name) for name in services.NAMES}


class FarWorld(World):
    """The same services, by the address that is cut, loses and resets."""

    def target(self, name):
        return f"{self.fleet.network.far}:{self.fleet.ports[name][0]}"
