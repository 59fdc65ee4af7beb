#!/usr/bin/env python3
"""What a service still serves in time when it is asked for more than it can serve.

    python Tests/Benchmarks/overload.py [--seconds 4] [--rounds 3] [--only issue] [--share 10] [--times 1 2 5 10]
        [--tls] [--web] [--binaries …]

Calls are begun on a fixed schedule, however long those before take, each with a deadline of a second, after which it is
cancelled: that is what people do. A client in C offers them, which has room to spare (offer/offer.c). A call that finds no
stream free on any of its 400 connections is not sent, and counts as one that the server did not serve. The server has one
core, which it shares with a program that never rests and has the better priority, so that a single client can ask for ten
times what is left; a `--share` of 100 leaves it the core, on a machine where others compete for it. Goodput counts answers
within their deadline. With `--tls` all of it is by TLS, on connections that are there before it begins, and with `--web` the
calls are gRPC-Web's, as a browser makes them over HTTP/2; a page's are JSON in any case.

The peak is what a service serves of calls of which a few hundred always wait, the next one begun with each answer. It is
measured just before and just after each load, by the same service: a machine is not as fast at all times, and a table
grows. Each kind of load has services of its own. One of which few are served in a second is offered for longer, so that its
p99 is not one call's.

What the client is short of is not the server's fault: a row says how busy the client was, in percent of its core, and how
long after they were due 99 % of its calls were begun. With `--rounds` each load is measured so many times, peak and load by
turns, and the medians count.

Exit status 1 when one of the loads keeps less than 85 % of the peak, or when the p99 of what was served is above three
times its value at the peak.
"""

import argparse
import collections
import hashlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "Tests" / "EndToEnd"), str(ROOT / "Tests" / "Story")]

import authority  # noqa: E402
import conftest  # noqa: E402, F401  (makes the stubs)
import services  # noqa: E402
from latchkey.identity.v1 import auth_service_pb2 as auth  # noqa: E402
from latchkey.qr.v1 import qr_session_service_pb2 as qr  # noqa: E402
from world import CLIENT_ID, PASSWORD, UNTHROTTLED, World, base64url, unique_identifier  # noqa: E402

KEPT, SLOWER = 0.85, 3
# Answers that a p99 is taken of.
ENOUGH = 300
# Seconds after which a service has forgotten that it was asked for too much.
PAUSE = 2.5
SERVER_CORE, CLIENT_CORE = (2 * sorted(os.sched_getaffinity(0)))[:2]
# Weights of the kernel's scheduler: 1024 for nice 0, a quarter more or less for each step.
NICE = {5: 13, 10: 10, 20: 6, 33: 3, 50: 0, 100: 0}


# `waiting`: so many calls at any time keep the server busy, and none is refused.


class Issue:
    service, path = "qr", "/latchkey.qr.v1.QrSessionService/IssueSession"
    waiting = 200

    def __init__(self, world):
        challenge = base64url(hashlib.sha256(b"verifier").digest())
        self.messages = [
            qr.IssueSessionRequest(client_id=CLIENT_ID, purpose=qr.PURPOSE_LOGIN, code_challenge=challenge, code_challenge_method="S256")
        ]


class Poll:
    service, path = "qr", "/latchkey.qr.v1.QrSessionService/PollSession"
    waiting = 8000

    def __init__(self, world):
        codes = [world.device().issue_qr().device_code for _ in range(200)]
        self.messages = [qr.PollSessionRequest(device_code=code) for code in codes]


class Refresh:
    service, path = "identity", "/latchkey.identity.v1.AuthService/Refresh"
    waiting = 200

    def __init__(self, world):
        # The same token again brings the same child: what it costs is the same, and nothing has to be passed on.
        self.messages = []
        for _ in range(100):
            device = world.device()
            device.start_as_guest()
            self.messages.append(auth.RefreshRequest(refresh_token=device.tokens.refresh_token))


class SignIn:
    service, path = "identity", "/latchkey.identity.v1.AuthService/Authenticate"
    waiting = 16

    def __init__(self, world):
        self.messages = []
        for _ in range(20):
            name = unique_identifier()
            world.account(name)
            credential = auth.PasswordCredential(identifier=name, password=PASSWORD)
            self.messages.append(auth.AuthenticateRequest(client_id=CLIENT_ID, password=credential))


class Page:
    """What the script of the sign-in page asks first."""

    service, path = "qr", "/signin/code"
    waiting = 200

    def __init__(self, world):
        challenge = base64url(hashlib.sha256(b"verifier").digest())
        self.messages = [json.dumps({"code_challenge": challenge, "supersedes": ""}).encode()]


LOADS = {"issue": Issue, "poll": Poll, "refresh": Refresh, "sign-in": SignIn, "page": Page}


def percentile(values, part):
    return sorted(values)[min(len(values) - 1, int(len(values) * part))] if values else float("nan")


def offer(client, target, load, rate, seconds):
    """Begins `rate` calls a second, or keeps -`rate` waiting; how many ended how, and the answers' times."""
    host, port = target.rsplit(":", 1)
    kind = ["-page"] if isinstance(load, Page) else []
    command = ["taskset", "-c", str(CLIENT_CORE), *client, *kind, port, str(seconds), str(rate), load.path]
    messages = "".join((message if kind else message.SerializeToString()).hex() + "\n" for message in load.messages)
    answer = subprocess.run(list(map(str, command)), input=messages, capture_output=True, text=True, check=True).stdout
    first, *times = answer.splitlines()
    words = first.split()
    ends = collections.Counter({name: int(count) for name, count in zip(words[::2], words[1::2])})
    return ends, [int(time) / 1e6 for time in times]


def processor_time(service):
    """Seconds that the service has had."""
    fields = pathlib.Path(f"/proc/{service.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def peak(client, target, load, measured):
    """Calls a second that the server serves at most, and their p99 in milliseconds."""
    ends, times = offer(client, target, load, -load.waiting, measured + 2)
    time.sleep(PAUSE)
    return len(times) / measured, percentile(times, 0.99) * 1000


def measure(name, factor, world, client, options):
    """A row for each round."""
    load = LOADS[name](world)
    target, service = world.target(load.service), world.fleet[load.service]
    # Where the server has the core to itself there is nobody to share it with.
    rest = "while :; do :; done" if options.share < 100 else "exec sleep infinity"
    hog = subprocess.Popen(["taskset", "-c", str(SERVER_CORE), "sh", "-c", rest])
    try:
        first, _ = peak(client, target, load, options.seconds)
        measured = max(options.seconds, ENOUGH / first)
        before = peak(client, target, load, measured)
        for _ in range(options.rounds):
            began = processor_time(service)
            ends, times = offer(client, target, load, before[0] * factor, measured + 2)
            spent = processor_time(service) - began
            time.sleep(PAUSE)
            after = peak(client, target, load, measured)
            if not times:
                sys.exit(f"{name}: nothing was served in time; give the server a larger --share")
            rate, usual = ((a + b) / 2 for a, b in zip(before, after))
            good, p99 = len(times) / measured, percentile(times, 0.99) * 1000
            busy, lag = ends.pop("busy"), ends.pop("lag") / 1e3
            total = max(1, ends.pop("due"))
            others = ", ".join(f"{count / total:.0%} {end}" for end, count in sorted(ends.items()) if count and end != "served")
            share = spent / (measured + 2)
            yield Row(name, factor, before[0] * factor, rate, good, good / rate, usual, p99, p99 / usual, share, busy, lag, others)
            before = after
    finally:
        hog.kill()
        hog.wait()


class Row(collections.namedtuple("Row", "load times offered peak goodput kept usual p99 slower processor busy lag others")):
    HEAD = (
        "load      times  offered/s   peak/s  goodput/s  of peak  p99 ms at peak  p99 ms   times  server %  client %  lag ms"
        "  what became of the others"
    )

    @property
    def holds(self):
        return self.kept >= KEPT and self.slower <= SLOWER

    def __str__(self):
        return (
            f"{self.load:8} {self.times:6g} {self.offered:10.0f} {self.peak:8.0f} {self.goodput:10.0f} {self.kept:8.0%}"
            f" {self.usual:15.0f} {self.p99:7.0f} {self.slower:7.1f} {self.processor:9.0%} {self.busy:9.0f} {self.lag:7.1f}"
            f"  {self.others}{'' if self.holds else '  <--'}"
        )

    @classmethod
    def median(cls, rows):
        """Of the same load in several rounds: each figure's own."""
        return cls(*(statistics.median(values) if type(values[0]) is not str else values[0] for values in zip(*rows)))


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=4, help="that are measured of each load")
    options.add_argument("--rounds", type=int, default=1)
    options.add_argument("--only", choices=LOADS, nargs="*")
    options.add_argument("--times", type=float, nargs="*", default=[1, 2, 5, 10])
    options.add_argument("--share", type=int, choices=NICE, default=10, help="of the core that the server gets, in %%")
    options.add_argument("--tls", action="store_true")
    options.add_argument("--web", action="store_true", help="gRPC-Web over HTTP/2")
    options.add_argument("--binaries", type=pathlib.Path, default=ROOT / ".build" / "release")
    options = options.parse_args()
    client = ROOT / ".build" / "bench"
    subprocess.run([ROOT / "Tests" / "Benchmarks" / "offer" / "build", client], check=True)
    os.sched_setaffinity(0, {CLIENT_CORE})
    offering = [client / "offer", *(["-tls"] if options.tls else []), *(["-web"] if options.web else [])]
    rounds = []
    print(Row.HEAD)
    for name, factor in [(name, factor) for name in options.only or LOADS for factor in options.times]:
        with tempfile.TemporaryDirectory() as folder:
            files = authority.issue(pathlib.Path(folder)) if options.tls else None
            with started(options, pathlib.Path(folder), files) as fleet:
                world = World(fleet, files and files.authority)
                for row in measure(name, factor, world, offering, options):
                    rounds.append(row)
                    print(row, flush=True)
                world.close()
    same = collections.defaultdict(list)
    for row in rounds:
        same[row.load, row.times].append(row)
    rows = [Row.median(each)._replace(others="") for each in same.values()]
    if options.rounds > 1:
        print(f"medians of {options.rounds} rounds", *rows, sep="\n")
    sys.exit(not all(row.holds for row in rows))


def started(options, folder, files):
    """The services on their core, with limits that no load comes to."""
    many = "1000000"
    identity = ["--sign-in-per-hour", many, "--guest-per-hour", many, "--register-per-hour", many]
    # As many threads as cores, which is what a container of one core gets by itself.
    everybody = ["--threads", "1"]
    if files:
        everybody += ["--tls-certificate-file", files.certificate, "--tls-key-file", files.key, "--tls-ca-file", files.authority]
    arguments = {"qr": UNTHROTTLED["qr"], "identity": identity, "*": list(map(str, everybody))}
    fleet = services.Fleet(options.binaries, folder, arguments=arguments, tls=bool(files))
    for service in fleet.services.values():
        command = service.command
        service.command = lambda command=command: [
            "nice", "-n", str(NICE[options.share]), "taskset", "-c", str(SERVER_CORE), *command()
        ]  # fmt: skip
    return fleet


if __name__ == "__main__":
    main()
