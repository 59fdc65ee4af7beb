#!/usr/bin/env python3
"""What each attack of Tests/EndToEnd/hostile costs an honest client: its p99 while nothing happens and under attack.

    sudo python Tests/Benchmarks/attacks.py [--seconds 3] [--only NAME] [--control] [--binaries .build/release]
    sudo python Tests/Benchmarks/attacks.py --calls [--sources 1 200] [--services qr identity] [--settle 60] [...]
    sudo python Tests/Benchmarks/attacks.py --calls [--tls] [--proxy protocol] [...]
    sudo python Tests/Benchmarks/attacks.py --calls --proxy field [...]

With --calls the honest clients make the services' real calls, on connections that are there and on new ones, and the
attacker comes from one address or from many, none of them theirs: each kind of call is to be served within 5 seconds,
with a p99 of at most ten times the quiet one, and a minute after the last attack a service has the memory of before. With
--tls all of that is by TLS, whose handshakes and records are attacked as well. With --proxy all come through a proxy that the
service trusts, and the attacker's addresses are those that it names: by the PROXY protocol for each connection, or by
X-Forwarded-For for each request of connections that the clients share, where attackers do what a proxy lets them do.
Without --calls the honest client makes probes, and what is measured is finer:

The honest client (honest/honest.c) makes a call each millisecond, however long those before take, and times each from
when it was due. It has real-time priority on one core, and the server, with one event loop, the highest ordinary one on
the other: what is measured is how long the server, which has to serve the attacker as well, lets the client wait. The
attacker shares the client's core and runs whenever the client does not; one that is cut off comes back at once. The
quiet p99 is the median of the windows between attacks, since a single one swings with whatever else the machine does.

A client waits for the machine too: its kernel works on the packets of everybody. With --control each attack runs a
second time against another server, behind the first on its core: what the client's p99 is then ("control") where the
attack costs the server itself nothing.

The services keep their data in memory: beside some attacks the disk of a virtual machine flushes in 170 ms instead of one,
although they write no more, and calls that wait for it show nothing else. `--data` names a folder of a disk, for who wants
to see that too.

Exit status 1 when a p99 rises above ten times the quiet one, or the memory by more than the budget.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOSTILE = ROOT / "Tests" / "EndToEnd" / "hostile"
sys.path[:0] = [str(HOSTILE), str(HOSTILE.parent), str(ROOT / "Tests" / "Story")]

import authority  # noqa: E402
import frames  # noqa: E402
import hoards  # noqa: E402
import honest_calls  # noqa: E402
import proxied  # noqa: E402
import records  # noqa: E402
import services  # noqa: E402
import target as hostile  # noqa: E402
import test_attacks  # noqa: E402
from frames import END_HEADERS, END_STREAM, INITIAL_WINDOW_SIZE, PREFACE, data, headers, message  # noqa: E402
from ways import SETTLE, WAYS, attacking  # noqa: E402

# The bars.
RATIO, BUDGET_MIB = 10, 128
LEFT_MIB = 32
# Seconds of a quiet window.
QUIET = 1
# Attacks between two quiet windows, beside real calls.
LOOKS = 8

# Calls of the honest client in a second.
RATE = 1000
CLIENT = ROOT / ".build" / "bench" / "honest"
# One of them twice where there is no second.
SERVER_CORE, CLIENT_CORE = (2 * sorted(os.sched_getaffinity(0)))[:2]
HONEST_PRIORITY, SERVER_PRIORITY, SERVER_NICE = 20, 10, -20


def percentile(values, part):
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def flooding(sent):
    parts = list(sent)

    def attack(target):
        with target.connect(timeout=2) as peer:
            reader = threading.Thread(target=peer.read_to_end, daemon=True)
            reader.start()
            test_attacks.flood(peer, parts)

    return attack


def hpack_bomb(target):
    name = b"x" * 100
    entry = b"\x40" + frames.integer(len(name), 7) + name + frames.integer(3900, 7) + b"v" * 3900
    with target.connect(timeout=2) as peer:
        for number in range(1, 2001, 2):
            block = frames.block(frames.fields()) + (entry if number == 1 else b"") + b"\xbe" * 12_000
            peer.send(headers(number, raw=block, flags=END_HEADERS | END_STREAM))


def long_header_lists(target):
    with target.connect(timeout=2) as peer:
        for number in range(1, 2001, 2):
            extra = [(f"x-{index}", "v" * 1000) for index in range(14)]
            first, rest = frames.fields(frames.CHECK, *extra), frames.block([("y", "v" * 15_000)])
            peer.send(
                headers(number, raw=frames.block(first), flags=END_STREAM),
                frames.frame(frames.CONTINUATION, END_HEADERS, number, rest),
            )


def tiny_data(target):
    with target.connect(timeout=2) as peer:
        body = message(bytes(4000))
        peer.send(headers(1), *(data(1, body[index : index + 1], flags=0) for index in range(len(body))))


def questions(question, count, streams):
    """Streams of reflection, each with many questions at once: a few bytes that ask for many."""
    body = question * count
    pieces = [body[start : start + 16_000] for start in range(0, len(body), 16_000)]
    return b"".join(
        headers(number, frames.fields(frames.REFLECTION)) + b"".join(data(number, piece, flags=0) for piece in pieces)
        for number in range(1, 2 * streams, 2)
    )


LIST = message(b"\x3a\x00")
SYMBOL = b"latchkey.qr.v1.QrSessionService"
FILES = message(b"\x22" + bytes([len(SYMBOL)]) + SYMBOL)


def zero_window(question, count, streams=30):
    asked = questions(question, count, streams)

    def attack(target):
        with contextlib.ExitStack() as stack:
            peers = [stack.enter_context(target.connect((INITIAL_WINDOW_SIZE, 0), timeout=2)) for _ in range(20)]
            for peer in peers:
                peer.send(asked)
            time.sleep(0.2)

    return attack


def never_reading(target):
    asked = questions(FILES, 100, 50)
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(target.connect(receive_buffer=4096, timeout=0.5)) for _ in range(5)]
        for peer in peers:
            peer.send(frames.window_update(0, 0x3FFFFFFF), frames.settings((INITIAL_WINDOW_SIZE, 0x3FFFFFFF)))
            with contextlib.suppress(TimeoutError):
                peer.send(asked)
        time.sleep(0.2)


def asking_without_end(target):
    """Answers are read as fast as they come, and the next questions are on their way."""
    asked = data(1, LIST * 2000, flags=0)
    with target.connect((INITIAL_WINDOW_SIZE, 0x3FFFFFFF), timeout=2) as peer:
        peer.send(frames.window_update(0, 0x3FFFFFFF), headers(1, frames.fields(frames.REFLECTION)))
        reader = threading.Thread(target=drain, args=[peer], daemon=True)
        reader.start()
        # As much as the server's window takes at once; it ends the connection of who sends more.
        for _ in range(4):
            peer.send(asked)
        reader.join(0.3)


def drain(peer):
    with contextlib.suppress(OSError, ValueError):
        while peer.socket.recv(1 << 20):
            pass


def slow_preface(target):
    with contextlib.ExitStack() as stack:
        for peer in [stack.enter_context(target.begun(timeout=2)) for _ in range(100)]:
            peer.send(PREFACE[:10])
        time.sleep(0.2)


def slow_over_http1(sent):
    def attack(target):
        with contextlib.ExitStack() as stack:
            for peer in [stack.enter_context(target.begun("http/1.1", timeout=2)) for _ in range(100)]:
                peer.send(sent)
                peer.send(b"x")
            time.sleep(0.2)

    return attack


SLOW_HEADERS = b"GET /healthz HTTP/1.1\r\nhost: x\r\nx: "
SLOW_BODY = b"POST /healthz HTTP/1.1\r\nhost: x\r\ncontent-length: 60000\r\n\r\n"


def pipelining(target):
    asked = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n" * 5000
    with target.begun("http/1.1", timeout=2) as peer:
        reader = threading.Thread(target=drain, args=[peer], daemon=True)
        reader.start()
        peer.send(asked)
        reader.join(0.2)


def half_open(target):
    with contextlib.ExitStack() as stack:
        for peer in [stack.enter_context(target.connect(timeout=2)) for _ in range(50)]:
            peer.send(headers(1, frames.fields(frames.WATCH)), data(1, message()))
            peer.socket.shutdown(1)


def connection_flood(target):
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            peer = stack.enter_context(target.raw(timeout=2))
            # Closed by a reset: what a closed connection leaves for a minute is left at the attacker's, not at the server's,
            # and where both are one machine 130,000 of them slow down whoever connects.
            peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


ATTACKS = {
    **{name: (lambda sent=sent: flooding(sent)) for name, (sent, _) in test_attacks.FLOODS.items()},
    "HPACK bomb": lambda: hpack_bomb,
    "header lists over the limit": lambda: long_header_lists,
    "tiny DATA frames": lambda: tiny_data,
    "zero window, short answers": lambda: zero_window(LIST, 100),
    "zero window, large answers": lambda: zero_window(FILES, 100),
    "zero window, windows full of questions": lambda: zero_window(LIST, 9000, 15),
    "never reading": lambda: never_reading,
    "asking without end": lambda: asking_without_end,
    "slow preface": lambda: slow_preface,
    "half-open connections": lambda: half_open,
    "connection flood": lambda: connection_flood,
    "slow headers over HTTP/1.1": lambda: slow_over_http1(SLOW_HEADERS),
    "slow body over HTTP/1.1": lambda: slow_over_http1(SLOW_BODY),
    "pipelining over HTTP/1.1": lambda: pipelining,
}
# What costs a server with TLS something else.
TLS_ATTACKS = {
    **records.HANDSHAKES,
    **{
        name: ATTACKS[name]
        for name in (
            "rapid reset (CVE-2023-44487)", "PING", "empty DATA", "tiny DATA frames", "zero window, short answers",
            "zero window, large answers", "never reading", "asking without end", "half-open connections",
            "connection flood",
        )
    },
}  # fmt: skip


def honest(target, seconds):
    """Latencies of calls in milliseconds, and the largest memory of the server meanwhile."""
    command = ["chrt", "--fifo", str(HONEST_PRIORITY), CLIENT / "honest", target.port, seconds, RATE]
    if target.authority:
        command.append(target.authority)
    client = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    peak = 0
    reading = threading.Thread(target=lambda: lines.extend(client.stdout), daemon=True)
    lines = []
    reading.start()
    while reading.is_alive():
        peak = max(peak, target.resident)
        reading.join(0.02)
    assert client.wait() == 0, f"honest calls ended with status {client.returncode}"
    return [int(line.split()[1]) / 1e6 for line in lines], peak


def named(attack, authority):
    return f"{attack} (TLS)" if authority else attack


def measure(target, other, seconds, attacks):
    """Rows of the table; `other` is the server of the control, if there is one."""
    rows, windows = [], []

    def quiet():
        latencies, resident = honest(target, QUIET)
        windows.append(percentile(latencies, 0.99))
        return resident

    for name, make in attacks.items():
        base = quiet()
        with attacking(target, make):
            busy, peak = honest(target, seconds)
        row = {
            "attack": named(name, target.authority),
            "p50_ms": statistics.median(busy), "p99_ms": percentile(busy, 0.99), "largest_ms": max(busy),
            "rss_mib": base / 2**20, "peak_rss_mib": peak / 2**20,
        }  # fmt: skip
        if other:
            with attacking(other, make):
                row["control_p99_ms"] = percentile(honest(target, seconds)[0], 0.99)
        rows.append(row)
        print(f"  {row['attack']}: {row['p99_ms']:.2f} ms", file=sys.stderr, flush=True)
    quiet()
    for row in rows:
        row["quiet_p99_ms"] = statistics.median(windows)
        row["ratio"] = row["p99_ms"] / row["quiet_p99_ms"]
        row["holds"] = row["ratio"] <= RATIO and row["peak_rss_mib"] - row["rss_mib"] <= BUDGET_MIB
        control = f"{row['control_p99_ms']:8.3f}" if other else f"{'':8}"
        print(
            f"{row['attack']:48} {row['quiet_p99_ms']:8.3f} {control} {row['p50_ms']:8.3f} {row['p99_ms']:8.3f} "
            f"{row['largest_ms']:8.2f} {row['ratio']:6.1f} {row['rss_mib']:8.1f} {row['peak_rss_mib']:8.1f}  "
            f"{'holds' if row['holds'] else 'MISSED'}",
            flush=True,
        )
    print(f"{len(windows)} quiet windows: p99 from {min(windows):.3f} to {max(windows):.3f} ms")
    return rows


def place(target, nice, before_others):
    """The server on the first core, at an ordinary priority or before all that have one."""
    for thread in [int(thread.name) for thread in pathlib.Path(f"/proc/{target.process.pid}/task").iterdir()]:
        os.sched_setaffinity(thread, {SERVER_CORE})
        # Not the one of whoever started it: what has a real-time priority and is never idle stands still for the 50 ms of
        # each second that Linux keeps for others.
        policy, priority = (os.SCHED_RR, SERVER_PRIORITY) if before_others else (os.SCHED_OTHER, 0)
        os.sched_setscheduler(thread, policy, os.sched_param(priority))
        os.setpriority(os.PRIO_PROCESS, thread, nice)


class Quiet:
    """What each call takes while nobody attacks: of several windows, since a single one swings."""

    def __init__(self, callers, seconds):
        self.callers, self.seconds, self.windows = callers, seconds, []
        self.look()

    def look(self):
        self.callers.prepare()
        self.windows.append({key: percentile(times, 0.99) for key, times in self.callers.measure(self.seconds).items()})

    def p99(self, key):
        return max(statistics.median(window[key] for window in self.windows), self.callers.world.way.least)


def besieged(callers, attack, make, sources, seconds, quiet, target):
    """One attack beside real calls: a line of the table. The p99 of a call is that of some thirty, so that whatever else the machine
    does shows in it: what misses is measured twice more, and the middle one counts."""
    rows = [beside(callers, attack, make, sources, seconds, quiet, target)]
    if rows[0]["alive"] and rows[0]["ratio"] > RATIO:
        for _ in range(2):
            quiet.look()
            rows.append(beside(callers, attack, make, sources, seconds, quiet, target))
    row = sorted(rows, key=lambda row: row["ratio"])[len(rows) // 2]
    row["holds"] = row["holds"] and all(row["alive"] and not any(row["failed"].values()) for row in rows)
    row["ratios"] = [row["ratio"] for row in rows]
    losses = ", ".join(f"{count} {kind}" for kind, count in row["failed"].items() if count)
    again = f" of {', '.join(f'{ratio:.1f}' for ratio in row['ratios'])}" if len(rows) > 1 else ""
    print(
        f"{attack:40} {row['service']:9} {sources:4} {row['worst']:12} {row['quiet_p99_ms']:8.1f} {row['p99_ms']:9.1f} "
        f"{row['ratio']:6.1f} {row['calls']:6} {row['rss_mib']:8.1f}  "
        f"{'holds' if row['holds'] else 'MISSED'}{again}{' DIED' if not row['alive'] else ''} {losses and f'not served: {losses}'}",
        flush=True,
    )
    for each in rows:
        for told, count in each["told"].items():
            print(f"    {count} were told, {told}", flush=True)
    return row


def beside(callers, attack, make, sources, seconds, quiet, target):
    """Real calls while the attack goes on."""
    way = callers.world.way
    callers.prepare()
    with way.attacking(target, make, sources, 0 if hasattr(make, "taking") else SETTLE):
        busy = callers.measure(way.seconds(make, seconds))
    alive = target.process.poll() is None
    ratios = {key: percentile(times, 0.99) / quiet.p99(key) for key, times in busy.items()}
    worst = max(ratios, key=ratios.get)
    failed = {" ".join(key): sum(time >= honest_calls.DEADLINE for time in times) for key, times in busy.items()}
    return {
        "attack": attack, "way": way.name, "service": callers.service, "sources": sources, "worst": " ".join(worst),
        "quiet_p99_ms": quiet.p99(worst) * 1e3, "p99_ms": percentile(busy[worst], 0.99) * 1e3,
        "ratio": ratios[worst], "calls": sum(map(len, busy.values())), "failed": failed, "alive": alive,
        "rss_mib": target.resident / 2**20 if alive else 0, "told": dict(callers.told),
        "holds": alive and ratios[worst] <= RATIO and not any(failed.values()),
    }  # fmt: skip


def besiege(arguments, folder):
    """Every attack on every service from so many sources, beside real calls."""
    way = WAYS[arguments.proxy](folder, arguments.tls)
    attacks = proxied.ATTACKS if arguments.proxy == "field" else ATTACKS | hoards.HOARDS
    if arguments.tls:
        attacks = attacks | records.ATTACKS
    print(
        f"{'attack':40} {'service':9} {'from':>4} {'worst call':12} {'quiet99':>8} {'p99 ms':>9} {'ratio':>6} {'calls':>6} "
        f"{'RSS MiB':>8}  {way.name}"
    )
    rows = []
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(HONEST_PRIORITY))
    with honest_calls.world(arguments.binaries, folder, way, lambda service: place(service, 0, arguments.before_others)) as world:
        for name in arguments.services:
            target = way.target(world.fleet[name])
            callers = honest_calls.Callers(world, name)
            callers.prepare()
            callers.measure(1)
            before = target.resident / 2**20
            quiet = Quiet(callers, max(arguments.seconds, QUIET))
            for sources in arguments.sources:
                for attack, make in attacks.items():
                    if re.search(arguments.only, attack) and name in (getattr(make, "services", None) or services.NAMES):
                        if len(rows) % LOOKS == 0:
                            quiet.look()
                        rows.append(besieged(callers, attack, make, sources, arguments.seconds, quiet, target))
            callers.close()
            time.sleep(arguments.settle)
            left = target.resident / 2**20 - before
            holds = left <= LEFT_MIB
            rows.append({"attack": "memory after", "way": way.name, "service": name, "rss_mib": before + left, "holds": holds})
            print(f"{name}: {before:.1f} MiB before, {left:+.1f} MiB {arguments.settle:g} s after the last attack"
                  f"  {'holds' if holds else 'MISSED'}", flush=True)  # fmt: skip
    return rows


def finish(rows, name):
    out = ROOT / ".build" / "bench" / name
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(rows, indent=1) + "\n")
    missed = [row["attack"] for row in rows if not row["holds"]]
    print(f"{len(rows) - len(missed)} passed, {len(missed)} failed")
    return 1 if missed else 0


def main():
    parser = argparse.ArgumentParser(description="Measures what attacks cost an honest client. As root.")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--only", default="", help="attacks whose name has this regular expression in it")
    parser.add_argument("--control", action="store_true", help="attack another server as well")
    parser.add_argument(
        "--before-others",
        action="store_true",
        help="real-time priority for the server too, on a busy machine; a server that is never idle stands still then,"
        " for the 50 ms of each second that Linux keeps for others",
    )
    parser.add_argument("--calls", action="store_true", help="honest clients that make real calls")
    parser.add_argument("--tls", action="store_true", help="real calls and attacks by TLS, and attacks on TLS")
    parser.add_argument("--proxy", choices=[way for way in WAYS if way], help="real calls and attacks through it")
    parser.add_argument("--sources", type=int, nargs="*", default=[1, 200], help="addresses that attackers come from")
    parser.add_argument("--services", nargs="*", default=services.NAMES, choices=services.NAMES)
    parser.add_argument("--settle", type=float, default=60, help="seconds after the last attack to look at the memory")
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / ".build" / "release")
    parser.add_argument("--data", type=pathlib.Path, default="/dev/shm", help="where the services keep their data meanwhile")
    arguments = parser.parse_args()
    if (arguments.tls or arguments.proxy) and not arguments.calls:
        parser.error("--tls and --proxy are for --calls; probes are measured by both")
    if arguments.tls and arguments.proxy == "field":
        parser.error("the proxy that names the client of each request speaks to the services in cleartext")
    if arguments.calls:
        os.sched_setaffinity(0, {CLIENT_CORE})
        with tempfile.TemporaryDirectory(dir=arguments.data) as folder:
            name = "-".join(["besieged", *(["tls"] if arguments.tls else []), *([arguments.proxy] if arguments.proxy else [])])
            return finish(besiege(arguments, pathlib.Path(folder)), f"{name}.json")
    subprocess.run([ROOT / "Tests" / "Benchmarks" / "honest" / "build", CLIENT], check=True)
    os.sched_setaffinity(0, {CLIENT_CORE})
    print(
        f"{'attack':48} {'quiet99':>8} {'control':>8} {'p50 ms':>8} {'p99 ms':>8} {'largest':>8} {'ratio':>6} "
        f"{'RSS MiB':>8} {'peak':>8}"
    )
    rows = []
    with tempfile.TemporaryDirectory(dir=arguments.data) as folder:
        folder = pathlib.Path(folder)
        files = authority.issue(folder)
        tls = ["--tls-certificate-file", str(files.certificate), "--tls-key-file", str(files.key)]
        # One event loop, which the attacker's connections share with the honest client's.
        loop = ["--threads", "1"]
        for attacks, flags, trusted in ((ATTACKS, loop, None), (TLS_ATTACKS, loop + tls, files.authority)):
            chosen = {name: make for name, make in attacks.items() if re.search(arguments.only, named(name, trusted))}
            if not chosen:
                continue
            with contextlib.ExitStack() as stack:
                servers = []
                for name, nice in (("target", SERVER_NICE), ("other", 0))[: 1 + arguments.control]:
                    where = folder / f"{name}-{len(flags)}"
                    server = stack.enter_context(hostile.serving(arguments.binaries, where, *flags, authority=trusted))
                    place(server, nice, arguments.before_others and name == "target")
                    server.call()
                    servers.append(server)
                rows += measure(servers[0], servers[1] if arguments.control else None, arguments.seconds, chosen)
    return finish(rows, "attacks.json")


if __name__ == "__main__":
    sys.exit(main())
