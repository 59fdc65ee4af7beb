#!/usr/bin/env python3
"""What a service still serves in time when it is asked for more than it can serve.

    python Tests/Benchmarks/overload.py [--seconds 5] [--only issue] [--share 10] [--times 1 2 5 10] [--binaries …]

Calls are begun on a fixed schedule, however long those before take, each with a deadline of a second, after which it is
cancelled: that is what people do. A call that has to wait in the client, since a connection has only so many streams, has
that much less time for the server. The server has one core, which it shares with a program that never rests and has the
better priority, so that a single client can ask for ten times what is left. Goodput counts answers within their deadline;
the processor's time is the server's, in all and of what it served.

Exit status 1 when one of the loads keeps less than 85 % of the peak, or when the p99 of what was served is above three
times its value at the peak.
"""

import argparse
import asyncio
import collections
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "Tests" / "EndToEnd"), str(ROOT / "Tests" / "Story")]

import conftest  # noqa: E402, F401  (makes the stubs)
import services  # noqa: E402
from fast_client import FastClient, Refused, Unanswered  # noqa: E402
from latchkey.identity.v1 import auth_service_pb2 as auth  # noqa: E402
from latchkey.qr.v1 import qr_session_service_pb2 as qr  # noqa: E402
from world import CLIENT_ID, PASSWORD, UNTHROTTLED, World, base64url, unique_identifier  # noqa: E402

KEPT, SLOWER = 0.85, 3
DEADLINE = 1
CONNECTIONS = 40
SERVER_CORE, CLIENT_CORE = (2 * sorted(os.sched_getaffinity(0)))[:2]
# Weights of the kernel's scheduler: 1024 for nice 0, a quarter more or less for each step.
NICE = {10: 10, 20: 6, 33: 3, 50: 0}
RESOURCE_EXHAUSTED = 8


class Issue:
    service, path, answer = "qr", "/latchkey.qr.v1.QrSessionService/IssueSession", qr.IssueSessionResponse

    def __init__(self, world):
        challenge = base64url(hashlib.sha256(b"verifier").digest())
        self.request = qr.IssueSessionRequest(
            client_id=CLIENT_ID, purpose=qr.PURPOSE_LOGIN, code_challenge=challenge, code_challenge_method="S256"
        )

    def next(self):
        return self.request


class Poll:
    service, path, answer = "qr", "/latchkey.qr.v1.QrSessionService/PollSession", qr.PollSessionResponse

    def __init__(self, world):
        self.codes = [world.device().issue_qr().device_code for _ in range(200)]
        self.turn = 0

    def next(self):
        self.turn += 1
        return qr.PollSessionRequest(device_code=self.codes[self.turn % len(self.codes)])


class Refresh:
    service, path, answer = "identity", "/latchkey.identity.v1.AuthService/Refresh", auth.RefreshResponse

    def __init__(self, world):
        self.tokens = []
        for _ in range(100):
            device = world.device()
            device.start_as_guest()
            self.tokens.append(device.tokens.refresh_token)
        self.turn = 0

    def next(self):
        # The same token again brings the same child: what it costs is the same, and nothing has to be passed on.
        self.turn += 1
        return auth.RefreshRequest(refresh_token=self.tokens[self.turn % len(self.tokens)])


class SignIn:
    service, path, answer = "identity", "/latchkey.identity.v1.AuthService/Authenticate", auth.AuthenticateResponse

    def __init__(self, world):
        self.names = [unique_identifier() for _ in range(20)]
        for name in self.names:
            world.account(name)
        self.turn = 0

    def next(self):
        self.turn += 1
        credential = auth.PasswordCredential(identifier=self.names[self.turn % len(self.names)], password=PASSWORD)
        return auth.AuthenticateRequest(client_id=CLIENT_ID, password=credential)


LOADS = {"issue": Issue, "poll": Poll, "refresh": Refresh, "sign-in": SignIn}


def percentile(values, part):
    return sorted(values)[min(len(values) - 1, int(len(values) * part))] if values else float("nan")


async def offer(client, load, rate, seconds):
    """Begins `rate` calls a second; what became of them and how long the answers took."""
    ends, times = collections.Counter(), []

    async def call(due):
        try:
            async with client.room:
                left = due + DEADLINE - time.monotonic()
                if left <= 0:
                    ends["not sent"] += 1
                    return
                # In steps, so that the client need not make each call's fields anew.
                timeout = (("grpc-timeout", f"{int(left * 50 + 1) * 20}m"),)
                await client.call_at_once(load.path, load.next(), load.answer, timeout, timeout=left)
            times.append(time.monotonic() - due)
            ends["served" if times[-1] <= DEADLINE else "late"] += 1
        except Refused as error:
            ends["refused" if error.status == RESOURCE_EXHAUSTED else f"status {error.status}"] += 1
        except Unanswered:
            ends["unanswered"] += 1

    begin = time.monotonic()
    running = set()
    count = 0
    while (now := time.monotonic()) < begin + seconds:
        while count < (now - begin) * rate:
            task = asyncio.ensure_future(call(begin + count / rate))
            running.add(task)
            task.add_done_callback(running.discard)
            count += 1
        await asyncio.sleep(0.001)
    await asyncio.gather(*running)
    return ends, times, count


def processor_time(service):
    """Seconds that the service's threads have had, by what they do."""
    ticks = collections.Counter()
    for task in pathlib.Path(f"/proc/{service.process.pid}/task").iterdir():
        name, fields = (task / "stat").read_text().rsplit(")", 1)
        name = name.split("(", 1)[1]
        ticks["loop" if name.startswith("NIO") else "others"] += sum(map(int, fields.split()[11:13]))
    return {name: count / os.sysconf("SC_CLK_TCK") for name, count in ticks.items()}


async def saturate(client, load, seconds):
    """Calls served in a second by a fixed number that wait: what the server can do."""
    served = 0
    end = time.monotonic() + seconds

    async def loop():
        nonlocal served
        while time.monotonic() < end:
            try:
                await client.call(load.path, load.next(), load.answer, timeout=10)
                served += 1
            except (Refused, Unanswered):
                await asyncio.sleep(0.1)

    await asyncio.gather(*(loop() for _ in range(16)))
    return served / seconds


async def measure(name, world, options):
    load = LOADS[name](world)
    host, port = world.target(load.service).rsplit(":", 1)
    client = FastClient(host, int(port), CONNECTIONS)
    hog = subprocess.Popen(["taskset", "-c", str(SERVER_CORE), "sh", "-c", "while :; do :; done"])
    failed, peak = False, None
    try:
        rate = await saturate(client, load, options.seconds)
        for factor in options.times:
            before = processor_time(world.fleet[load.service])
            ends, times, count = await offer(client, load, rate * factor, options.seconds)
            spent = {name: after - before.get(name, 0) for name, after in processor_time(world.fleet[load.service]).items()}
            each = sum(spent.values()) / max(1, ends["served"]) * 1e6
            good, p99 = ends["served"] / options.seconds, percentile(times, 0.99) * 1000
            peak = peak or (good, p99)
            bad = good < KEPT * peak[0] or p99 > SLOWER * peak[1]
            failed |= bad
            others = ", ".join(f"{ends[end] / count:.0%} {end}" for end in sorted(ends) if end != "served")
            print(
                f"{name:8} {factor:4g}x offered {rate * factor:8.0f}/s, really {count / options.seconds:8.0f}/s:"
                f" goodput {good:7.0f}/s ({good / peak[0]:4.0%}), p99 {p99:5.0f} ms;"
                f" {each:5.0f} µs each ({', '.join(f'{name} {spent[name]:.2f} s' for name in sorted(spent))}); {others}"
                f" {'  <-- ' if bad else ''}",
                flush=True,
            )
            await asyncio.sleep(1.5)
    finally:
        hog.kill()
        hog.wait()
        client.close()
    return failed


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=5)
    options.add_argument("--only", choices=LOADS, nargs="*")
    options.add_argument("--times", type=float, nargs="*", default=[1, 2, 5, 10])
    options.add_argument("--share", type=int, choices=NICE, default=10, help="of the core that the server gets, in %%")
    options.add_argument("--binaries", type=pathlib.Path, default=ROOT / ".build" / "release")
    options = options.parse_args()
    os.sched_setaffinity(0, {CLIENT_CORE})
    failed = False
    for name in options.only or LOADS:
        with tempfile.TemporaryDirectory() as folder:
            arguments = {"qr": UNTHROTTLED["qr"], "identity": ["--sign-in-per-hour", "1000000", "--guest-per-hour", "1000000", "--register-per-hour", "1000000"]}
            fleet = services.Fleet(options.binaries, pathlib.Path(folder), arguments=arguments)
            for service in fleet.services.values():
                command = service.command
                service.command = lambda command=command: [
                    "nice", "-n", str(NICE[options.share]), "taskset", "-c", str(SERVER_CORE), *command()
                ]  # fmt: skip
            with fleet:
                world = World(fleet)
                failed |= asyncio.run(measure(name, world, options))
                world.close()
    sys.exit(failed)


if __name__ == "__main__":
    main()
