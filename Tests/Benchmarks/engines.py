"""What guest starts, refreshes and QR confirmations cost over PostgreSQL, beside the same over SQLite.

CPU of the services and of every PostgreSQL process together, without what they take while nothing is asked. Both engines wait
for their disk at each commit, and everything under test shares one core.
"""

import contextlib
import functools
import os
import pathlib
import random
import re
import sys
import tempfile
import time

import loads
import machine
from polls import call, field

sys.path[:0] = [str(machine.ROOT / "Tests" / folder) for folder in ("EndToEnd", "Story")]

import postgresql  # noqa: E402
import services  # noqa: E402

# 64 callers, as behind a proxy.
SHAPE = (8, 8)
# Of each operation: how many in a round, and how much more than over SQLite it may cost over PostgreSQL.
OPERATIONS = {"guest_start": (4_000, 2.0), "refresh": (12_000, 2.0), "qr_confirm": (12_000, 1.5)}
ARGUMENTS = {
    "identity": ["--threads", "1", "--log-level", "warning"],
    "qr": [
        "--threads", "1", "--log-level", "warning", "--code-lifetime", "600s", "--poll-interval", "0s",
        "--poll-long-interval", "0s", "--limits-scans-per-minute", "0", "--limits-issues-per-minute", "0",
        "--limits-outstanding-codes", "0", "--limits-decisions-per-minute", "0",
    ],
}  # fmt: skip


def move(pid):
    """To the server's core, with all that it starts from now on."""
    for task in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(task), {machine.SERVER_CORE})


class Side:
    """An engine's services, and its database server where it has one."""

    def __init__(self, name, fleet, server=None):
        self.name, self.fleet, self.server = name, fleet, server

    def processes(self):
        return [service.process.pid for service in self.fleet.services.values()]

    def pin(self):
        for pid in [*self.processes(), *([self.server.process.pid, *self.server.children()] if self.server else [])]:
            move(pid)

    def cpu(self):
        """In microseconds, since their beginning."""
        services = sum(machine.cpu_ns(pid) for pid in self.processes()) / 1000
        return services, self.database_cpu() if self.server else 0

    def database_cpu(self):
        root = self.server.process.pid
        total = machine.cpu_ns(root) / 1000
        for pid in self.server.children():
            with contextlib.suppress(OSError):
                total += machine.cpu_ns(pid) / 1000
        # Those that ended, such as autovacuum's, by the clock tick.
        ended = pathlib.Path(f"/proc/{root}/stat").read_text().rpartition(")")[2].split()[13:15]
        return total + sum(map(int, ended)) * 1e6 / os.sysconf("SC_CLK_TCK")

    def idle(self):
        """Microseconds of CPU in a second without calls."""
        before, began = self.cpu(), time.monotonic()
        time.sleep(2)
        return [(now - then) / (time.monotonic() - began) for now, then in zip(self.cpu(), before)]


class Target:
    """Where a load goes."""

    tls = False

    def __init__(self, service):
        self.name, self.port = service.name, service.grpc_port


def measure(side, count, load):
    idle = side.idle()
    before, began = side.cpu(), time.monotonic()
    load()
    took = time.monotonic() - began
    services, database = ((now - then - rest * took) / count for now, then, rest in zip(side.cpu(), before, idle))
    return {
        "cpu_us_per_request": round(services + database, 3), "cpu_us_of_services": round(services, 3),
        "cpu_us_of_database": round(database, 3), "idle_us_per_second": round(sum(idle)),
        "requests_per_second": round(count / took, 1), "p50_us": None,
    }  # fmt: skip


def sign_up(identity):
    """The access token of a new account."""
    credential = field(1, f"phone-{os.urandom(8).hex()}@example.com".encode()) + field(2, b"correct horse battery staple")
    answer = call(identity, "/latchkey.identity.v1.AuthService/Register", field(1, b"latchkey-demo") + field(2, credential))
    return re.search(rb"eyJ[\w-]+\.[\w-]+\.[\w-]+", answer)[0].decode()


class Work:
    """The operations over one side."""

    def __init__(self, side, folder):
        self.side = side
        self.identity, self.qr = Target(side.fleet["identity"]), Target(side.fleet["qr"])
        self.tokens, self.tickets = folder / f"{side.name}-tokens", folder / f"{side.name}-tickets"

    def prepare(self, operation, count):
        if operation == "qr_confirm":
            self.authorization = ["--authorization", f"Bearer {sign_up(self.identity)}"]
            # Soon before, since tickets end; and so few at once are no guesses.
            loads.own("scan", self.qr, *self.authorization, "--out", self.tickets, connections=2, streams=4, requests=count)
            # Codes that were issued together are scanned by people who are not.
            tickets = self.tickets.read_text().splitlines(keepends=True)
            random.shuffle(tickets)
            self.tickets.write_text("".join(tickets))

    def do(self, operation, count):
        own = functools.partial(loads.own, connections=SHAPE[0], streams=SHAPE[1], requests=count)
        match operation:
            case "guest_start":
                own("guests", self.identity, "--out", self.tokens)
            case "refresh":
                own("refresh", self.identity, "--in", self.tokens, "--out", self.tokens)
            case "qr_confirm":
                own("confirm", self.qr, *self.authorization, "--in", self.tickets)


def one_round(works, number, results):
    """One side right after the other, since a machine that others use as well is not as quick at all times."""
    for operation, (count, _) in OPERATIONS.items():
        for work in works:
            work.prepare(operation, count)
        for work in works:
            row = measure(work.side, count, functools.partial(work.do, operation, count))
            results.add(work.side.name, f"engine_{operation}", number, connections=SHAPE[0], streams=SHAPE[1], **row)
            print(f"engines: round {number}, {operation} over {work.side.name}: {row['cpu_us_of_services']:.0f} µs of the "
                  f"services, {row['cpu_us_of_database']:.0f} of the database; {row['requests_per_second']:.0f}/s", flush=True)  # fmt: skip


def run(options, results):
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = postgresql.PostgreSQL(shared_buffers="128MB")
        stack.callback(server.stop)
        sides = [
            Side("sqlite", services.Fleet(machine.RELEASE, folder / "sqlite", arguments=ARGUMENTS)),
            Side("postgresql", postgresql.fleet(machine.RELEASE, folder / "postgresql", server, ARGUMENTS), server),
        ]
        for side in sides:
            # Nobody asks it anything here.
            del side.fleet.services["migrator"]
            stack.enter_context(side.fleet)
            side.pin()
        works = [Work(side, folder) for side in sides]
        for number in range(1, options.rounds + 1):
            one_round(works, number, results)


def bars(results):
    for operation, (_, most) in OPERATIONS.items():
        where = {"operation": f"engine_{operation}"}
        ratio = results.ratio(
            "cpu_us_per_request", {"server": "postgresql", **where}, {"server": "sqlite", **where}
        )
        yield f"{operation}: CPU over PostgreSQL of that over SQLite", ratio, most
