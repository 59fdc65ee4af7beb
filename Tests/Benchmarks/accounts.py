"""What a sign-in costs with a million accounts, beside what it costs with a thousand."""

import contextlib
import os
import sqlite3
import subprocess
import time

import loads
import servers
from polls import call, field

FEW = 1000
# Callers and calls of a round: starts of known devices, which prove their key, and sign-ins by password, whose hash
# alone is tens of milliseconds.
LOADS = {"start_again": ("returning", 8, 8, 6000), "password_login": ("passwords", 4, 1, 60)}
PASSWORD = b"correct horse battery staple"
DAY = 86_400_000


def seed(directory, count):
    """Accounts of one password each, with a session and a device that is a guest's besides: made by the service as far
    as its schema and one password's hash go, then by SQL, in the order of each table's key."""
    with servers.latchkey_identity(False, directory) as server:
        credential = field(1, b"seed@example.com") + field(2, PASSWORD)
        call(server, "/latchkey.identity.v1.AuthService/Register", field(1, b"latchkey-demo") + field(2, credential))
    keys = subprocess.run(
        [loads.LOAD, "keys", "--requests", str(count)], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    now = int(time.time() * 1000)
    guests = [os.urandom(16) for _ in range(count)]
    owners = [os.urandom(16) for _ in range(count)]
    blank = bytes(32)  # The coordinates are kept for other services; proofs bring their own.

    with contextlib.closing(sqlite3.connect(directory / "identity.db", isolation_level=None)) as db:
        db.executescript("PRAGMA synchronous = OFF; PRAGMA cache_size = -2000000; BEGIN")
        (digest,) = db.execute("SELECT hash FROM passwords").fetchone()

        def fill(table, columns, rows):
            rows.sort()
            marks = ", ".join("?" * len(rows[0]))
            db.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", rows)

        subjects = [(sub, 0, now, now) for sub in guests] + [(sub, 1, now, now) for sub in owners]
        fill("subjects", "sub, kind, created_at, last_seen_at", subjects)
        fill(
            "identities",
            "kind, value, sub, mask, created_at",
            [(1, f"user-{i}@example.com", sub, "u***@e***.com", now) for i, sub in enumerate(owners)],
        )
        fill("passwords", "sub, hash, changed_at", [(sub, digest, now) for sub in owners])
        fill(
            "sessions",
            "sid, sub, is_guest, client_id, scope, method, refresh_seed, authenticated_at, generation, rotated_at, "
            "idle_expires_at, absolute_expires_at",
            [
                (os.urandom(16), sub, 0, "latchkey-demo", "basic profile", "password", os.urandom(16), now, 1, now,
                 now + 30 * DAY, now + 90 * DAY)
                for sub in owners
            ],
        )  # fmt: skip
        fill(
            "devices",
            "key_thumbprint, public_key_x, public_key_y, device_id, label, platform, guest_sub, created_at, "
            "last_seen_at",
            [
                (key.split()[0], blank, blank, key.split()[3], "Ada's phone", "bench", guest, now, now)
                for key, guest in zip(keys, guests)
            ],
        )
        db.execute("COMMIT")


def run(options, results):
    with contextlib.ExitStack() as stack:
        fleets = []
        for count in (FEW, options.accounts):
            began = time.monotonic()
            directory = servers.fresh_directory(f"identity-{count}")
            seed(directory, count)
            fleets.append((count, stack.enter_context(servers.latchkey_identity(False, directory))))
            print(f"accounts: {count:,} made in {time.monotonic() - began:.0f} s", flush=True)
        for number in range(options.rounds + 1):
            for operation, (mode, connections, streams, requests) in LOADS.items():
                for count, server in fleets:
                    row = loads.measure_own(mode, server, connections, streams, requests, "--devices", count)
                    # The first round is for the caches, and is not counted.
                    if number > 0:
                        results.add(server.name, operation, number, accounts=count, **row)
            print(f"accounts: round {number} of {options.rounds}", flush=True)


def bars(results):
    counts = {row["accounts"] for row in results.rows if "accounts" in row}
    if len(counts) < 2:
        return
    for operation in LOADS:
        where = {"server": "latchkey-identity", "operation": operation}
        most = {**where, "accounts": max(counts)}
        ratio = results.ratio("cpu_us_per_request", most, {**where, "accounts": FEW})
        yield f"{operation}: CPU at {max(counts):,} accounts of that at {FEW:,}", ratio, 1.3
