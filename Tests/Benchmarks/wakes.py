"""How long a confirmation on one instance takes to reach who waits on another: two instances over PostgreSQL, and a hundred
thousand who watch codes at the second one while a few of these are confirmed at the first.

    .venv/bin/python Tests/Benchmarks/wakes.py [--how told read] [--waiters 100000] [--confirmations 2000] [--rate 200]

Prints the median and the 99th percentile, from the confirmation's call and from its answer: with the instances telling one
another, and without, when only the database says so. Fails where the one takes longer than 50 ms or the other than a second.
What the waiters' side takes to notice is in the figures, and all processes share the machine's cores. Needs a release build.
"""

import argparse
import contextlib
import gc
import multiprocessing
import pathlib
import random
import sys
import tempfile
import time

import grpc
import machine
from engines import Target, sign_up
from scale import CONFIRMED, QR, Shown, field, fields, issue_request, percentile
from swarm import Swarm

sys.path[:0] = [str(machine.ROOT / "Tests" / folder) for folder in ("EndToEnd", "Story")]

import postgresql  # noqa: E402

# How confirmations come, and in how many milliseconds 99 of 100 are there.
BARS = {"told": ("told by the other instance", 50), "read": ("read from the database", 1000)}
# Of the watches; as many streams as an instance lets a connection have.
PER_CONNECTION = 100
PHONES = 4
ARGUMENTS = [
    "--log-level", "warning", "--code-lifetime", "600s", "--poll-interval", "0s", "--poll-long-interval", "0s",
    "--limits-issues-per-minute", "0", "--limits-scans-per-minute", "0", "--limits-outstanding-codes", "0",
    "--limits-decisions-per-minute", "0", "--confirm-check-code", "never",
]  # fmt: skip


def confirm(port, tokens, chosen, rate, results):
    """In a process of its own: scans what is chosen, then confirms each at its due time. Says when it called and when it was
    answered, by number."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        scan, confirm = (channel.unary_unary(QR + method) for method in ("ScanSession", "ConfirmSession"))
        people = [(("authorization", f"Bearer {token}"),) for token in tokens]
        scanned = []
        for position, (number, payload) in enumerate(chosen):
            person = people[position % len(people)]
            scanned.append((number, person, fields(scan(field(1, payload), metadata=person, timeout=20))[1]))
        start = time.monotonic()
        for position, (number, person, ticket) in enumerate(scanned):
            time.sleep(max(0, start + position / rate - time.monotonic()))
            began = time.monotonic()
            confirm(field(1, ticket), metadata=person, timeout=20)
            results.put((number, began, time.monotonic()))
    results.put(None)


class Waiters:
    """Who watch, at the second instance, codes that the first one issued."""

    def __init__(self, fleet, count):
        issuing = Swarm("127.0.0.1", fleet["qr"].grpc_port, 20)
        began = time.monotonic()
        self.shown = [Shown(answer) for answer in issuing.unary(QR + "IssueSession", [issue_request()] * count)]
        issuing.close()
        issued = time.monotonic()
        self.swarm = Swarm("127.0.0.1", fleet["qr-2"].grpc_port, -(-count // PER_CONNECTION))
        self.swarm.settle()
        requests = [field(1, code.device_code) for code in self.shown]
        # Each is looked up in the database; what comes all at once is refused.
        self.swarm.open_streams(QR + "WatchSession", requests, PER_CONNECTION, at_a_time=1000)
        print(f"  {count:,} codes issued in {issued - began:.1f} s, watched in {time.monotonic() - issued:.1f} s", flush=True)
        self.swarm.settle(2)

    def hear(self, count, seconds, is_lost):
        """When each of so many confirmations came, by number."""
        heard = {}

        def deliver(number, message, is_end):
            now = time.monotonic()
            if message is not None and fields(message).get(1) == CONFIRMED:
                heard[number] = now
            elif is_end and number not in heard:
                raise SystemExit(f"wakes: watch {number} ended")

        deadline = time.monotonic() + seconds
        while len(heard) < count and time.monotonic() < deadline and not is_lost():
            self.swarm.pump(deliver, 0.1)
        return heard

    def close(self):
        self.swarm.close()


def measure(fleet, options):
    """Milliseconds from each confirmation's call to its message, and from its answer."""
    tokens = [sign_up(Target(fleet["identity"])) for _ in range(PHONES)]
    with contextlib.closing(Waiters(fleet, options.waiters)) as waiters:
        chosen = [(number, waiters.shown[number].payload) for number in random.sample(range(options.waiters), options.confirmations)]
        results = multiprocessing.Queue()
        arguments = (fleet["qr"].grpc_port, tokens, chosen, options.rate, results)
        phones = multiprocessing.Process(target=confirm, args=arguments)
        phones.start()
        # To scan takes some milliseconds each.
        seconds = 60 + options.confirmations * (1 / options.rate + 0.02)
        heard = waiters.hear(len(chosen), seconds, lambda: phones.exitcode)
        if len(heard) < len(chosen):
            phones.kill()
            raise SystemExit(f"wakes: {len(heard)} of {len(chosen)} confirmations were heard of")
        sent = list(iter(lambda: results.get(timeout=10), None))
        phones.join(10)
    return [[(heard[row[0]] - row[since]) * 1000 for row in sent] for since in (1, 2)]


def one(how, options):
    what, most = BARS[how]
    print(what, flush=True)
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = postgresql.PostgreSQL(shared_buffers="256MB", max_wal_size="4GB")
        stack.callback(server.stop)
        qr = [*ARGUMENTS, "--limits-calls", str(options.waiters + options.waiters // 5 + 1000)]
        fleet = postgresql.fleet(
            machine.RELEASE, folder / "fleet", server, {"qr": qr, "identity": ["--log-level", "warning"]}, instances=2, peers=how == "told"
        )
        for name in ("migrator", "migrator-2", "identity-2"):
            # Nobody asks it anything here.
            del fleet.services[name]
        stack.enter_context(fleet)
        from_call, from_answer = measure(fleet, options)
    last = percentile(from_call, 99)
    print(f"  {options.waiters:,} wait, {len(from_call)} confirmed, {options.rate:g} a second: from the call p50 "
          f"{percentile(from_call, 50):.1f} ms, p99 {last:.1f} ms, at most {most}: {'met' if last <= most else 'MISSED'}; from "
          f"the answer p50 {percentile(from_answer, 50):.1f} ms, p99 {percentile(from_answer, 99):.1f} ms", flush=True)  # fmt: skip
    return last <= most


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--how", nargs="+", choices=BARS, default=list(BARS))
    parser.add_argument("--waiters", type=int, default=100_000)
    parser.add_argument("--confirmations", type=int, default=2000)
    parser.add_argument("--rate", type=float, default=200)
    options = parser.parse_args()
    # As scale.py: millions of objects that live to the end.
    gc.disable()
    return 0 if all([one(how, options) for how in options.how]) else 1


if __name__ == "__main__":
    sys.exit(main())
