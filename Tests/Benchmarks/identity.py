"""Durable guests with a verified proof, and refreshes, beside what their signatures alone cost."""

import pathlib
import re
import subprocess
import tempfile

import loads
import machine
import servers

# 64 callers: on a few connections as behind a proxy, and each on its own as phones are.
SHAPES = [(8, 8), (64, 1)]
GUESTS = 12_000
REFRESHES = 24_000


def floor():
    """CPU microseconds of one ES256 signature and one verification, by OpenSSL itself."""
    run = subprocess.run(
        ["taskset", "-c", str(machine.SERVER_CORE), "openssl", "speed", "-seconds", "1", "ecdsap256"],
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.search(r"nistp256\)\s+[\d.]+s\s+[\d.]+s\s+([\d.]+)\s+([\d.]+)", run.stdout)
    return {"es256_sign": 1e6 / float(found[1]), "es256_verify": 1e6 / float(found[2])}


def run(options, results):
    with servers.latchkey_identity(False) as server, tempfile.TemporaryDirectory() as folder:
        tokens = pathlib.Path(folder, "tokens")
        for number in range(1, options.rounds + 1):
            for operation, cost in floor().items():
                results.add(
                    "openssl", operation, number, connections=0, streams=0, tls=False,
                    cpu_us_per_request=round(cost, 3), requests_per_second=round(1e6 / cost, 1),
                    p50_us=None, p99_us=None, rss_kib=None,
                )  # fmt: skip
            for shape in SHAPES:
                row = loads.measure_own("guests", server, *shape, GUESTS, "--out", tokens)
                results.add(server.name, "issue_guest", number, **row)
                row = loads.measure_own("refresh", server, *shape, REFRESHES, "--in", tokens, "--out", tokens)
                results.add(server.name, "refresh", number, **row)
            print(f"identity: round {number} of {options.rounds}", flush=True)


def bars(results):
    for operation, most, least in [("issue_guest", 200, 4000), ("refresh", 90, 8000)]:
        for connections, streams in SHAPES:
            where = {"server": "latchkey-identity", "operation": operation, "connections": connections,
                     "streams": streams}  # fmt: skip
            shape = f"{operation}, {connections}×{streams}"
            yield f"{shape}: CPU µs", results.median("cpu_us_per_request", **where), most
            yield f"{shape}: calls/s", results.median("requests_per_second", **where), -least
