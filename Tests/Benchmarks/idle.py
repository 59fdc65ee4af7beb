"""Memory of connections that do nothing, with TLS: each has handshaken and made one call, or a burst of them."""

import os
import platform
import resource
import subprocess
import time

import loads
import machine
import servers

# Calls of each connection, all at once.
BURST = 100
# Those that a service keeps for connections that come and for everything else, and some to spare.
KEPT_FILES = 2600
# Within which a server has to have freed what the calls took.
SETTLING = 60


def run(options, results):
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    # A service keeps some files for those who come, and asks idle connections to go when three quarters of the rest are taken.
    needed = options.idle * 4 // 3 + KEPT_FILES
    if needed > files:
        raise SystemExit(f"bench: {options.idle} idle connections (--idle) take {needed} open files, {files} are allowed (ulimit -n)")
    for make in (servers.latchkey_qr, servers.nghttpd, servers.grpc_cpp):
        for calls in (1, BURST):
            with make(True) as server:
                measure(server, options.idle, calls, results)


def measure(server, connections, calls, results):
    # What the first connections allocate once is not theirs.
    loads.own("idle", server, connections=100)
    before, cpu = machine.rss_kib(server.process.pid), machine.cpu_ns(server.process.pid)
    began = time.monotonic()
    command = [
        "taskset", "-c", str(machine.LOAD_CORE), loads.LOAD, "idle", "--tls", "--to", f"127.0.0.1:{server.port}",
        "--connections", str(connections), "--streams", str(calls),
    ]  # fmt: skip
    client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        if client.stdout.readline() != "ready\n":
            raise SystemExit(f"bench: {server.name} does not hold {connections} connections")
        elapsed = time.monotonic() - began
        cpu = machine.cpu_ns(server.process.pid) - cpu
        # What belongs to the handshakes and the calls goes; what is left is what a connection keeps.
        after = settled(server.process.pid)
    finally:
        client.stdin.close()
        client.wait()
    results.add(
        server.name, "idle_connection", 1, connections=connections, streams=calls, tls=True, machine=described(),
        cpu_us_per_request=round(cpu / 1000 / connections / calls, 3),
        requests_per_second=round(connections * calls / elapsed, 1),
        p50_us=None, p99_us=None, rss_kib=after,
        rss_kib_per_connection=round((after - before) / connections, 2),
    )  # fmt: skip
    print(f"idle: {server.name}, calls at once: {calls}", flush=True)


def settled(pid):
    """The least memory within the time that there is."""
    least = machine.rss_kib(pid)
    for _ in range(SETTLING):
        time.sleep(1)
        least = min(least, machine.rss_kib(pid))
    return least


def described():
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    return f"{os.cpu_count()} cores, {memory:,} MiB, {platform.system()} {platform.release()} {platform.machine()}"


def table(results):
    rows = results.select(operation="idle_connection")
    if not rows:
        return
    print(f"\n{rows[0]['connections']:,} idle TLS connections, within {SETTLING} s; {rows[0]['machine']}\n")
    print(f"{'server':14} {'calls at once before':>21} {'KiB each':>9} {'CPU µs a call':>14}")
    for row in rows:
        print(
            f"{row['server']:14} {row['streams']:21} {row['rss_kib_per_connection']:9.1f} "
            f"{row['cpu_us_per_request']:14.0f}"
        )


def bars(results):
    for calls in (1, BURST):
        where = {"server": "latchkey-qr", "operation": "idle_connection", "streams": calls}
        name = "idle TLS connection: KiB" if calls == 1 else f"idle TLS connection after {calls} calls at once: KiB"
        yield name, results.median("rss_kib_per_connection", **where), 48
