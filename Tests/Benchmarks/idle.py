"""Memory of connections that do nothing, with TLS: each has handshaken and made one call."""

import resource
import subprocess
import time

import loads
import machine
import servers


def run(options, results):
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if options.idle + 200 > files:
        raise SystemExit(f"bench: {options.idle} connections need more than the {files} open files allowed (ulimit -n)")
    for make in (servers.latchkey_qr, servers.nghttpd, servers.grpc_cpp):
        with make(True) as server:
            # What the first connections allocate once is not theirs.
            loads.own("idle", server, connections=100)
            before, cpu = machine.rss_kib(server.process.pid), machine.cpu_ns(server.process.pid)
            began = time.monotonic()
            command = [
                "taskset", "-c", str(machine.LOAD_CORE), loads.LOAD, "idle", "--tls",
                "--to", f"127.0.0.1:{server.port}", "--connections", str(options.idle),
            ]  # fmt: skip
            client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            try:
                if client.stdout.readline() != "ready\n":
                    raise SystemExit(f"bench: {server.name} does not hold {options.idle} connections")
                elapsed = time.monotonic() - began
                # What belongs to the handshakes goes; what is left is what a connection keeps.
                time.sleep(3)
                after, cpu = machine.rss_kib(server.process.pid), machine.cpu_ns(server.process.pid) - cpu
            finally:
                client.stdin.close()
                client.wait()
            results.add(
                server.name, "idle_connection", 1, connections=options.idle, streams=0, tls=True,
                cpu_us_per_request=round(cpu / 1000 / options.idle, 3),
                requests_per_second=round(options.idle / elapsed, 1),
                p50_us=None, p99_us=None, rss_kib=after,
                rss_kib_per_connection=round((after - before) / options.idle, 2),
            )  # fmt: skip
            print(f"idle: {server.name}", flush=True)


def table(results):
    rows = results.select(operation="idle_connection")
    if not rows:
        return
    print(f"\n{rows[0]['connections']:,} idle TLS connections\n")
    print(f"{'server':14} {'KiB each':>9} {'handshake and one call, CPU µs':>31}")
    for row in rows:
        print(f"{row['server']:14} {row['rss_kib_per_connection']:9.1f} {row['cpu_us_per_request']:31.0f}")


def bars(results):
    where = {"server": "latchkey-qr", "operation": "idle_connection"}
    yield "idle TLS connection: KiB", results.median("rss_kib_per_connection", **where), 48
