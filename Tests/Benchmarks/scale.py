#!/usr/bin/env python3
"""How much a screen costs: memory of waiting watches and sessions, wake-ups, expiry, floods, and whole sign-ins.

Starts release builds of latchkey-identity and latchkey-qr, the latter alone on one core, and prints what it measures
next to the bar. The rows go to .build/bench/results.json with those of the other benchmarks.

    Tests/Benchmarks/scale.py                            everything: some minutes
    Tests/Benchmarks/scale.py watch --screens 10000      one part, smaller
    Tests/Benchmarks/scale.py million                    a million watches: some minutes, 4 GiB with the client's part
"""

import argparse
import base64
import contextlib
import gc
import hashlib
import json
import multiprocessing
import os
import random
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

import grpc

import machine
from swarm import Swarm

QR = "/latchkey.qr.v1.QrSessionService/"
AUTH = "/latchkey.identity.v1.AuthService/"
CLIENT_ID = b"latchkey-demo"
PENDING, CONFIRMED = 1, 3
VERIFIER = secrets.token_urlsafe(32)
# Enough for a person on each of the confirmed screens, without a password hash for each.
ACCOUNTS = 4


# Messages, by hand: the few that are needed.


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def field(number, value):
    return varint(number << 3 | 2) + varint(len(value)) + value


def fields(message):
    """{number: value}: bytes or an integer, the last of each."""
    found, at = {}, 0

    def read():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = read()
        value = read()
        if key & 7 == 2:
            value, at = message[at : at + value], at + value
        found[key >> 3] = value
    return found


def issue_request():
    challenge = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=")
    initiator = field(1, b"a screen") + field(2, b"bench")
    return field(1, CLIENT_ID) + b"\x10\x01" + field(4, challenge) + field(5, b"S256") + field(6, initiator)


class Shown:
    """A code on a screen."""

    __slots__ = ("device_code", "payload")

    def __init__(self, answer):
        values = fields(answer)
        self.device_code, self.payload = values[1], values[5]


# The services.


class Services:
    """latchkey-qr on the server's core; identity on the other one, with whatever makes the load."""

    def __init__(self, *qr_flags, identity=True, name="scale"):
        self.data = machine.OUT / f"data-{name}"
        shutil.rmtree(self.data, ignore_errors=True)
        self.data.mkdir(parents=True, mode=0o700)
        self.ports = {"identity": machine.free_port(), "qr": machine.free_port()}
        self.names = ["identity", "qr"] if identity else ["qr"]
        self.qr_flags = qr_flags
        self.processes = {}

    def start(self, name):
        core = machine.SERVER_CORE if name == "qr" else machine.LOAD_CORE
        command = [
            "taskset", "-c", core, machine.RELEASE / f"latchkey-{name}", "--listen-port", self.ports[name],
            "--management-port", 0, "--data-dir", self.data, "--threads", 1, "--log-level", "warning",
            "--issuer", f"http://127.0.0.1:{self.ports['identity']}",
            "--identity-address", f"127.0.0.1:{self.ports['identity']}", *(self.qr_flags if name == "qr" else ()),
        ]  # fmt: skip
        environment = {key: value for key, value in os.environ.items() if not key.startswith("LATCHKEY_")}
        log = self.data / f"{name}.log"
        with open(log, "ab") as output:
            process = subprocess.Popen(
                list(map(str, command)), env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self.processes[name] = process
        deadline = time.monotonic() + 60
        while not machine.is_listening(self.ports[name]):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"scale: latchkey-{name} does not listen:\n{log.read_text()[-2000:]}")
            time.sleep(0.05)

    def stop(self, name):
        process = self.processes.pop(name)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(40)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def __enter__(self):
        try:
            for name in self.names:
                self.start(name)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in list(self.processes):
            self.stop(name)

    @property
    def pid(self):
        return self.processes["qr"].pid

    def rss(self):
        """Resident bytes of the QR service."""
        return machine.rss_kib(self.pid) * 1024

    def swarm(self, connections):
        return Swarm("127.0.0.1", self.ports["qr"], connections)

    def call(self, name, path, message, token=None):
        with grpc.insecure_channel(f"127.0.0.1:{self.ports[name]}") as channel:
            metadata = (("authorization", f"Bearer {token}"),) if token else ()
            return channel.unary_unary(path)(message, metadata=metadata, timeout=60)

    def accounts(self, count):
        """Access tokens of fresh accounts."""
        tokens = []
        for _ in range(count):
            password = field(1, f"{secrets.token_hex(8)}@bench.example".encode()) + field(2, secrets.token_bytes(16).hex().encode())
            answer = self.call("identity", AUTH + "Register", field(1, CLIENT_ID) + field(2, password))
            tokens.append(fields(fields(answer)[1])[1].decode())
        return tokens


UNTHROTTLED = (
    "--poll-interval", "0s", "--poll-long-interval", "0s", "--limits-issues-per-minute", 0,
    "--limits-scans-per-minute", 0, "--confirm-check-code", "never",
)  # fmt: skip


def percentile(values, percent):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * percent / 100))]


def mib(count):
    return f"{count / 2**20:,.1f} MiB"


class Report:
    def __init__(self):
        self.rows = []
        self.is_missed = False

    def say(self, text):
        print(f"  {text}", flush=True)

    def bar(self, what, value, bar, unit, most=True):
        is_met = value <= bar if most else value >= bar
        self.is_missed |= not is_met
        verdict = "met" if is_met else "MISSED"
        print(f"  {what}: {value:,.2f} {unit}; {'at most' if most else 'at least'} {bar:,}: {verdict}", flush=True)

    def add(self, operation, **columns):
        row = {"server": "latchkey-qr", "operation": operation, "round": 1, "connections": 0, "streams": 0, "tls": False}
        self.rows.append(row | columns)

    def write(self):
        """Keeps the rows of other operations."""
        path = machine.OUT / "results.json"
        mine = {row["operation"] for row in self.rows}
        others = [row for row in json.loads(path.read_text()) if row["operation"] not in mine] if path.exists() else []
        path.write_text("[\n" + ",\n".join(json.dumps(row) for row in others + self.rows) + "\n]\n")


# Parts.


def confirm_screens(services, tokens, chosen, rate, results):
    """In a process of its own: scans and confirms the chosen (number, payload), each at its due time."""
    calls = grpc.insecure_channel(f"127.0.0.1:{services.ports['qr']}")
    scan, confirm = calls.unary_unary(QR + "ScanSession"), calls.unary_unary(QR + "ConfirmSession")
    start = time.monotonic()
    for position, (number, payload) in enumerate(chosen):
        metadata = (("authorization", f"Bearer {tokens[position % len(tokens)]}"),)
        time.sleep(max(0, start + position / rate - time.monotonic()))
        ticket = fields(scan(field(1, payload), metadata=metadata, timeout=20))[1]
        began = time.monotonic()
        confirm(field(1, ticket), metadata=metadata, timeout=20)
        results.put((number, began, time.monotonic()))
    results.put(None)


def watch(report, screens, connections, confirmations=1000, rate=100, bar=2048):
    """Waiting WatchSession streams: memory of each, and how fast confirmations reach them."""
    print(f"\n{screens:,} screens watch over {connections:,} connections")
    # The limit on waiting calls has room for a hundred thousand screens.
    flags = [*UNTHROTTLED, "--code-lifetime", "600s", "--limits-calls", max(120_000, screens + screens // 5)]
    with Services(*flags, name="watch") as services, contextlib.ExitStack() as stack:
        tokens = services.accounts(ACCOUNTS)
        # One call of each kind first, so that what is made once is there.
        services.call("qr", QR + "IssueSession", issue_request())
        at_start = services.rss()
        swarm = stack.enter_context(contextlib.closing(services.swarm(connections)))
        swarm.settle()
        with_connections = services.rss()
        report.say(f"{mib(at_start)} at start; {(with_connections - at_start) / connections / 1024:.1f} KiB a connection")

        began = time.monotonic()
        shown = [Shown(answer) for answer in swarm.unary(QR + "IssueSession", [issue_request()] * screens)]
        swarm.settle()
        with_sessions = services.rss()
        report.say(
            f"{screens / (time.monotonic() - began):,.0f} codes issued a second; "
            f"{(with_sessions - with_connections) / screens:,.0f} bytes a session, with what issuing leaves behind"
        )
        began = time.monotonic()
        requests = [field(1, screen.device_code) for screen in shown]
        swarm.open_streams(QR + "WatchSession", requests, -(-screens // connections))
        swarm.settle(2)
        with_watches = services.rss()
        each = (with_watches - with_connections) / screens
        report.say(f"watches opened in {time.monotonic() - began:.1f} s; {mib(with_watches)} in all")
        report.bar("memory of a watch above the connections, its session included", each, bar, "bytes")
        report.add(
            "watch_session", connections=connections, streams=screens // connections, rss_kib=with_watches // 1024,
            bytes_per_stream=round(each), bytes_per_watch=round((with_watches - with_sessions) / screens),
            bytes_per_connection=round((with_connections - at_start) / connections),
        )  # fmt: skip
        if screens >= 1_000_000:
            report.bar("memory of the service", with_watches / 2**30, 3, "GiB")

        if not confirmations:
            return
        chosen = [(number, shown[number].payload) for number in random.sample(range(screens), confirmations)]
        results = multiprocessing.Queue()
        confirmer = multiprocessing.Process(target=confirm_screens, args=(services, tokens, chosen, rate, results))
        cpu = machine.cpu_ns(services.pid)
        began = time.monotonic()
        confirmer.start()
        arrived = {}

        def deliver(number, message, is_end):
            now = time.monotonic()
            if is_end:
                raise RuntimeError(f"stream {number} ended")
            if fields(message).get(1) == CONFIRMED:
                arrived[number] = now

        deadline = began + confirmations / rate + 60
        while len(arrived) < confirmations and time.monotonic() < deadline:
            swarm.pump(deliver, 0.2)
            if confirmer.exitcode:
                raise SystemExit("scale: a confirmation was refused")
        seconds = time.monotonic() - began
        busy = (machine.cpu_ns(services.pid) - cpu) / 1e9
        sent = dict((number, (start, end)) for number, start, end in iter(lambda: results.get(timeout=10), None))
        confirmer.join(10)
        report.say(f"{len(arrived)} of {confirmations} confirmations reached their stream; {busy / seconds:.1%} of a core")
        if len(arrived) < confirmations:
            report.is_missed = True
            report.say("MISSED: confirmations were lost")
            return
        whole = [(arrived[number] - start) * 1000 for number, (start, _) in sent.items()]
        report.say(f"from the confirmation's call to the stream: p50 {percentile(whole, 50):.2f} ms, max {max(whole):.2f} ms")
        report.bar("the same, p99", percentile(whole, 99), 20, "ms")
        report.add(
            "watch_wake", connections=connections, streams=screens // connections,
            p50_us=round(percentile(whole, 50) * 1000), p99_us=round(percentile(whole, 99) * 1000),
            rss_kib=services.rss() // 1024,
        )  # fmt: skip


def table(report, sessions):
    """Pending sessions that nobody watches: memory of each."""
    print(f"\n{sessions:,} pending sessions")
    with Services(*UNTHROTTLED, "--code-lifetime", "600s", identity=False, name="table") as services:
        services.call("qr", QR + "IssueSession", issue_request())
        before = services.rss()
        swarm = services.swarm(50)
        cpu, began = machine.cpu_ns(services.pid), time.monotonic()
        batch = 20_000
        for start in range(0, sessions, batch):
            swarm.unary(QR + "IssueSession", [issue_request()] * min(batch, sessions - start))
        seconds = time.monotonic() - began
        busy = (machine.cpu_ns(services.pid) - cpu) / 1000
        swarm.close()
        after = services.rss()
        each = (after - before) / sessions
        report.say(f"issued {sessions / seconds:,.0f} a second, {busy / sessions:.1f} us of CPU each")
        report.say(f"{each:,.0f} bytes a session; {mib(after)} in all")
        report.bar("memory of the service", after / 2**30, 3, "GiB")
        report.add("issue_session", connections=50, streams=32, cpu_us_per_request=round(busy / sessions, 2),
                   requests_per_second=round(sessions / seconds), rss_kib=after // 1024, bytes_per_session=round(each))  # fmt: skip


def timed_polls(services, code, seconds, rate):
    """Polls of one code at a fixed rate over one connection: [(due, latency)], counted from when each was due."""
    swarm = services.swarm(1)
    connection = swarm.connections[0]
    done = []
    start = time.monotonic() + 0.1
    sent, total = 0, int(seconds * rate)

    def deliver(due, message, is_end):
        if not is_end:
            done.append((due, time.monotonic() - due))

    while len(done) < total:
        now = time.monotonic()
        while sent < total and start + sent / rate <= now and len(connection.tags) < 90:
            connection.call(QR + "PollSession", field(1, code), start + sent / rate)
            sent += 1
        connection.flush()
        swarm.pump(deliver, max(0, min(0.05, start + sent / rate - time.monotonic())) if sent < total else 0.05)
        if now > start + seconds + 30:
            raise SystemExit("scale: polls stay without answer")
    swarm.close()
    return done


def expiry(report, sessions, rate=1000):
    """Every session expires in the same second, while others are polled."""
    print(f"\n{sessions:,} sessions expire in one second, while another is polled {rate} times a second")
    with Services(*UNTHROTTLED, "--code-lifetime", "600s", identity=False, name="expiry") as services:
        with contextlib.closing(services.swarm(50)) as swarm:
            swarm.unary(QR + "IssueSession", [issue_request()] * sessions)
        services.stop("qr")
        # The same instant for all of them: what no client can ask for, and what a restart of a busy service is like.
        instant = int(time.time()) * 1000 + 14_500
        with contextlib.closing(sqlite3.connect(services.data / "qr.db")) as database:
            database.execute("UPDATE qr_sessions SET expires_at = ? WHERE state = 1", (instant,))
            database.commit()
        services.start("qr")
        code = fields(services.call("qr", QR + "IssueSession", issue_request()))[1]
        wall, clock = time.time(), time.monotonic()
        seconds = instant / 1000 - wall + 4
        if seconds < 6:
            raise SystemExit("scale: the service took too long to start; try fewer sessions")
        polls = timed_polls(services, code, seconds, rate)
        # Swept when the second that holds the instant is over.
        due = clock + (instant // 1000 + 1) - wall
        quiet = [latency * 1e6 for at, latency in polls if at < due - 1.2]
        busy = [latency * 1e6 for at, latency in polls if due - 0.6 <= at < due + 1.4]
        for name, values in (("before", quiet), ("meanwhile", busy)):
            report.say(
                f"{name}: {len(values)} polls, p50 {percentile(values, 50):,.0f} us, p99 {percentile(values, 99):,.0f} us, "
                f"max {max(values):,.0f} us"
            )
        report.bar("p99 of polls meanwhile", percentile(busy, 99) / 1000, 20, "ms")
        report.add("poll_during_expiry", connections=1, streams=90, p50_us=round(percentile(busy, 50)),
                   p99_us=round(percentile(busy, 99)), max_us=round(max(busy)), rss_kib=services.rss() // 1024)  # fmt: skip


def flood(report, codes):
    """Polls of codes that nobody has: what is left of them."""
    print(f"\n{codes:,} polls of unknown codes")
    with Services(*UNTHROTTLED, identity=False, name="flood") as services:
        swarm = services.swarm(50)

        def pour(count):
            left = count

            def deliver(connection, message, is_end):
                nonlocal left
                if is_end:
                    left -= 1
                    send(connection)
                elif message is not None:
                    raise RuntimeError("an unknown code was answered")

            sent = 0

            def send(connection):
                nonlocal sent
                if sent < count:
                    sent += 1
                    code = base64.urlsafe_b64encode(os.urandom(32)).rstrip(b"=")
                    connection.call(QR + "PollSession", field(1, code), connection)

            for connection in swarm.connections:
                for _ in range(32):
                    send(connection)
                connection.flush()
            while left:
                swarm.pump(deliver, 1)

        # What is made once is made by the first part.
        pour(codes // 5)
        before = services.rss()
        pour(codes)
        growth = services.rss() - before
        swarm.close()
        report.bar("growth of the service", growth / 2**20, 8, "MiB")
        report.add("poll_unknown", connections=50, streams=32, rss_kib=services.rss() // 1024, growth_kib=growth // 1024)


def flow(report, seconds, workers=64):
    """Whole sign-ins: issue, scan, confirm, redeem, by `latchkey load`, which also checks that none is lost."""
    print(f"\nwhole sign-ins for {seconds} s, {workers} at a time")
    with Services(*UNTHROTTLED, name="flow") as services:
        path = machine.OUT / "flow.json"

        def run(duration):
            command = [
                "taskset", "-c", machine.LOAD_CORE, machine.RELEASE / "latchkey", "load", "--mode", "full",
                "--duration", f"{duration}s", "--connections", 4, "--concurrency", workers, "--json", path,
                "--identity", f"127.0.0.1:{services.ports['identity']}", "--qr", f"127.0.0.1:{services.ports['qr']}",
            ]  # fmt: skip
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(f"scale: latchkey load ended with {done.returncode}\n{done.stdout}{done.stderr}")
            return json.loads(path.read_text())

        run(1)
        pids = {name: process.pid for name, process in services.processes.items()}
        before = {name: machine.cpu_ns(pid) for name, pid in pids.items()}
        result = run(seconds)
        # The flows of the whole run, not only of the measured part.
        flows = sum(second["done"] for second in result["seconds"])
        busy = {name: (machine.cpu_ns(pid) - before[name]) / 1000 / flows for name, pid in pids.items()}
        latency = result["latency_ns"]["flow"]
        report.say(f"{result['rps']:,.0f} a second with identity and the load on the other core; none lost, none twice")
        report.say(f"CPU a sign-in: qr {busy['qr']:,.0f} us, identity {busy['identity']:,.0f} us")
        report.say(f"latency p50 {latency['p50'] / 1e6:.1f} ms, p99 {latency['p99'] / 1e6:.1f} ms")
        report.bar("what one core of the QR service carries", 1e6 / busy["qr"], 1500, "sign-ins a second", most=False)
        report.add("flow", connections=4, streams=workers // 4, cpu_us_per_request=round(busy["qr"], 1),
                   identity_cpu_us_per_request=round(busy["identity"], 1), requests_per_second=round(result["rps"]),
                   p50_us=latency["p50"] // 1000, p99_us=latency["p99"] // 1000, rss_kib=services.rss() // 1024)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ("watch", "table", "flow", "expiry", "flood")
    parser.add_argument("parts", nargs="*", choices=[*parts, "million", []], help="what to measure; else all but million")
    parser.add_argument("--screens", type=int, default=100_000, help="watches of the part watch")
    parser.add_argument("--sessions", type=int, default=1_000_000, help="sessions of the part table")
    parser.add_argument("--expiring", type=int, default=100_000, help="sessions of the part expiry")
    parser.add_argument("--seconds", type=int, default=10, help="of the part flow")
    options = parser.parse_args()
    machine.OUT.mkdir(parents=True, exist_ok=True)
    machine.pin_self()
    # Millions of objects that live to the end: looking through them again and again would be most of the load's time.
    gc.disable()
    report = Report()
    for part in options.parts or parts:
        match part:
            case "watch":
                watch(report, options.screens, max(1, options.screens // 100))
            case "million":
                watch(report, 1_000_000, 10_000)
            case "table":
                table(report, options.sessions)
            case "flow":
                flow(report, options.seconds)
            case "expiry":
                expiry(report, options.expiring)
            case "flood":
                flood(report, 200_000)
    report.write()
    return report.is_missed


if __name__ == "__main__":
    sys.exit(main())
