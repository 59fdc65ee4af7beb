"""How many guest starts and QR confirmations a second the services carry where each is durable on two PostgreSQL servers: a
primary and its synchronous standby.

Beside it the machine's own figure: pgbench, which is libpq and little else, writes the same rows of the same tables in the best
shape that is known, four connections with groups of 64 operations, a statement of many rows for each table. The services, the
load, the primary and the standby share all cores, and pgbench has them with the two servers alone.

What a service could carry on the machine is less than that: the load runs on it as well, and a guest start is a signature that is
verified and one that is made (`openssl speed` says what those cost). It is printed, with the CPU time of each part, and where it is
below what is wanted the machine has no room for that, and nothing is judged.
"""

import contextlib
import os
import pathlib
import re
import secrets
import subprocess
import tempfile
import time

import engines
import loads
import machine
from engines import Target, sign_up

import postgresql
import services

# So many callers at once, since each waits for two disks.
SHAPE = (16, 32)
# Of each operation: how many in a round, and how many a second are wanted.
OPERATIONS = {"guest_start": (20_000, 8_000), "qr_confirm": (20_000, 15_000)}
# Signatures of P-256 that a service verifies and makes for each.
SIGNATURES = {"guest_start": (1, 1), "qr_confirm": (0, 0)}
CORES = len(os.sched_getaffinity(0))
SAID = {"services": "by the services", "machine": "by pgbench alone", "room": "what there is room for"}
# Connections, and operations in a transaction, as the loops below have them.
LANES, GROUP = 4, 64
# What the machine's own loop confirms in a round.
CODES = 200 * LANES * GROUP

OWN = {
    "guest_start": r"""
\startpipeline
BEGIN;
SELECT guest_sub, last_account_sub, last_login_method, proof_counter, cloned_at FROM identity.devices WHERE key_thumbprint =
  ANY (ARRAY (SELECT md5(:client_id::bigint || ' ' || n || 'SERIES') FROM generate_series(:n::bigint + 1, :n::bigint + 64) AS n));
INSERT INTO identity.used_challenges (expires_at, hash)
  SELECT 1800000000000, sha256(uuid_send(gen_random_uuid())) FROM generate_series(:n::bigint + 1, :n::bigint + 64) ON CONFLICT DO NOTHING;
INSERT INTO identity.devices (key_thumbprint, public_key_x, public_key_y, device_id, label, platform, app_version, guest_sub,
    created_at, last_seen_at)
  SELECT md5(:client_id::bigint || ' ' || n || 'SERIES'), repeat('x', 32)::bytea, repeat('y', 32)::bytea, 'device ' || n, 'a phone',
    'bench', '1.0', gen_random_uuid(), 1800000000000, 1800000000000
  FROM generate_series(:n::bigint + 1, :n::bigint + 64) AS n ON CONFLICT DO NOTHING;
INSERT INTO identity.subjects (sub, kind, created_at, last_seen_at)
  SELECT gen_random_uuid(), 0, 1800000000000, 1800000000000 FROM generate_series(:n::bigint + 1, :n::bigint + 64);
INSERT INTO identity.sessions (sid, sub, is_guest, client_id, scope, method, device_key, device_label, device_platform,
    refresh_seed, began_at, authenticated_at, generation, rotated_at, idle_expires_at, absolute_expires_at)
  SELECT gen_random_uuid(), gen_random_uuid(), true, 'latchkey-demo', 'guest', 'guest',
    md5(:client_id::bigint || ' ' || n || 'SERIES'), 'a phone', 'bench', repeat('s', 32)::bytea, 1800000000000, 1800000000000, 1,
    1800000000000, 1900000000000, 2000000000000
  FROM generate_series(:n::bigint + 1, :n::bigint + 64) AS n;
INSERT INTO identity.audit_events (chain, seq, kind, at, sub, sid, address, detail, link)
  SELECT CHAIN + :client_id::bigint, n, 'session_began', 1800000000000, gen_random_uuid(), gen_random_uuid(), '127.0.0.1', 'guest',
    repeat('l', 32)::bytea
  FROM generate_series(:n::bigint + 1, :n::bigint + 64) AS n;
COMMIT;
\endpipeline
\set n :n + 64
""",
    "qr_confirm": r"""
\set from :client_id * 1000000 + :n
\startpipeline
SELECT * FROM qr.qr_sessions
  WHERE id = ANY (ARRAY (SELECT md5(n || 'SERIES')::uuid FROM generate_series(:from::bigint + 1, :from::bigint + 64) AS n));
BEGIN;
WITH exchanged AS (
  UPDATE qr.qr_sessions SET expires_at = expires_at + 1, version = 3, state = 3, sub = sub, granted_scope = 'screen',
    confirmed_at = 1800000000000, expires_hour = expires_hour
  WHERE id = ANY (ARRAY (SELECT md5(n || 'SERIES')::uuid FROM generate_series(:from::bigint + 1, :from::bigint + 64) AS n))
    AND version = 2 AND state = 2 AND expires_at > 0
  RETURNING poll_hash, version, state, issued_at, expires_at, account_mask)
INSERT INTO qr.qr_changes (poll_hash, version, state, issued_at, expires_at, account_mask) SELECT * FROM exchanged;
COMMIT;
\endpipeline
\set n :n + 64
""",
}

# What the loop above confirms: as if issued and scanned.
SCANNED = """
INSERT INTO qr.qr_sessions (id, poll_hash, reference_hash, user_code_hash, purpose, client_id, scope, challenge, initiator_label,
    initiator_address, issued_at, expires_at, expires_hour, version, state, sub, sid, ticket_hash, ticket_expires_at,
    needs_check_code, account_mask, needs_reauth, heard_beacon)
  SELECT md5(n || '{series}')::uuid, sha256(uuid_send(gen_random_uuid())), sha256(uuid_send(gen_random_uuid())),
    sha256(uuid_send(gen_random_uuid())), 1, 'latchkey-demo', 'screen', repeat('c', 32)::bytea, 'bench', '127.0.0.1',
    1800000000000, 4000000000000, 4000000000000 / 3600000, 2, 2, gen_random_uuid(), gen_random_uuid(),
    sha256(uuid_send(gen_random_uuid())), 1800000000000, false, 'p***@example.com', false, false
  FROM generate_series(0, {lanes} - 1) AS lane CROSS JOIN LATERAL
    generate_series(lane * 1000000 + 1, lane * 1000000 + {each}) AS n;
CHECKPOINT
"""


class Standby(postgresql.PostgreSQL):
    """A copy of a server that follows it, on a port of its own. The server waits for it with each commit from here on."""

    def __init__(self, primary):
        self.environment, self.account, self.tools, self.process = {}, primary.account, primary.tools, None
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lkpg-", dir="/tmp"))
        self.folder.chmod(0o755)
        self.own(self.folder)
        self.data = self.folder / "data"
        self.port = services.free_port()
        self.run("pg_basebackup", "-D", self.data, "-R", "-X", "stream", "-c", "fast", "-d",
                 f"postgresql://{postgresql.USER}@127.0.0.1:{primary.port}/postgres", before=self.as_its_user())  # fmt: skip
        with open(self.data / "postgresql.conf", "a") as file:
            file.write(f"port = '{self.port}'\nunix_socket_directories = '{self.folder}'\n")
        self.start()
        primary.query("ALTER SYSTEM SET synchronous_standby_names = '*'", database="postgres")
        primary.query("SELECT pg_reload_conf()", database="postgres")
        deadline = time.monotonic() + 30
        while primary.query("SELECT sync_state FROM pg_stat_replication") != "sync":
            if time.monotonic() > deadline:
                raise SystemExit("standby: the standby does not follow")
            time.sleep(0.05)


@contextlib.contextmanager
def all_cores():
    """What is started here may use every core, as on a machine that one installation has to itself."""
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {machine.SERVER_CORE, machine.LOAD_CORE})
    yield
    os.sched_setaffinity(0, mine)


def rate(log):
    """Operations a second in the steady middle of a run."""
    ends = sorted(start + latency for start, latency in loads.read_log(log))
    first, last = int(len(ends) * loads.EDGE), int(len(ends) * (1 - loads.EDGE)) - 1
    return (last - first) / (ends[last] - ends[first]) * 1e6


def spent(*roots):
    """CPU seconds that these processes have had, and those that they began."""
    ticks, parents = {}, {}
    for folder in pathlib.Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            # Its own, and its children's that have ended.
            ticks[int(folder.name)], parents[int(folder.name)] = sum(map(int, fields[11:15])), int(fields[1])
    mine = {pid for pid in ticks if pid in roots or parents[pid] in roots}
    return sum(ticks[pid] for pid in mine) / os.sysconf("SC_CLK_TCK")


def signature_costs():
    """CPU seconds of verifying one and of making one."""
    said = subprocess.run(["openssl", "speed", "-seconds", "1", "ecdsap256"], capture_output=True, text=True, check=True).stdout
    signs, verifies = map(float, re.search(r"nistp256.*?([0-9.]+)\s+([0-9.]+)\s*$", said, re.MULTILINE).groups())
    return 1 / verifies, 1 / signs


def by_services(operation, fleet, servers, count, folder):
    """Operations a second, and what each part had of the processor for one, in seconds."""
    log = folder / "log"
    shape = {"connections": SHAPE[0], "streams": SHAPE[1], "requests": count}
    parts = {
        "services": [service.process.pid for service in fleet.services.values()],
        "PostgreSQL": [server.process.pid for server in servers],
    }

    def measured(mode, server, *arguments):
        before, began = {name: spent(*pids) for name, pids in parts.items()}, os.times()
        loads.own(mode, server, *arguments, **shape, log=log)
        costs = {name: (spent(*pids) - before[name]) / count for name, pids in parts.items()}
        ended = os.times()
        load = ended.children_user + ended.children_system - began.children_user - began.children_system
        return rate(log), costs | {"load": load / count}

    if operation == "guest_start":
        return measured("guests", Target(fleet["identity"]))
    authorization = ["--authorization", f"Bearer {sign_up(Target(fleet['identity']))}"]
    qr, tickets = Target(fleet["qr"]), folder / "tickets"
    # So few at once are no guesses.
    loads.own("scan", qr, *authorization, "--out", tickets, connections=2, streams=4, requests=count)
    return measured("confirm", qr, *authorization, "--in", tickets)


def by_itself(operation, server, folder):
    series, each = secrets.token_hex(8), CODES // LANES
    if operation == "qr_confirm":
        server.query(SCANNED.format(series=series, lanes=LANES, each=each))
    script = folder / "script.sql"
    script.write_text(OWN[operation].replace("SERIES", series).replace("CHAIN", str(secrets.randbelow(1 << 60))))
    began = time.monotonic()
    command = [
        "pgbench", "-n", "-M", "prepared", "-c", LANES, "-j", 1, "-t", each // GROUP, "-f", script, "-D", "n=0",
        f"postgresql://{postgresql.USER}@127.0.0.1:{server.port}/latchkey",
    ]  # fmt: skip
    try:
        server.run(*command)
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"standby: pgbench failed: {error.stderr[-2000:]}") from error
    return CODES / (time.monotonic() - began)


def run(options, results):
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        # Where it is read by the server's own user.
        folder.chmod(0o755)
        with all_cores():
            primary = postgresql.PostgreSQL(shared_buffers="256MB", max_wal_size="4GB")
            stack.callback(primary.stop)
            arguments = {name: threaded(flags) for name, flags in engines.ARGUMENTS.items()}
            fleet = postgresql.fleet(machine.RELEASE, folder / "fleet", primary, arguments)
            # Nobody asks it anything here.
            del fleet.services["migrator"]
            standby = Standby(primary)
            # First the one that waits.
            stack.callback(standby.stop)
            stack.enter_context(fleet)
        verifying, signing = signature_costs()
        for number in range(1, options.rounds + 1):
            for operation, (count, _) in OPERATIONS.items():
                served, costs = by_services(operation, fleet, [primary, standby], count, folder)
                own = by_itself(operation, primary, folder)
                verified, made = SIGNATURES[operation]
                room = CORES / (CORES / own + costs["load"] + verified * verifying + made * signing)
                print(
                    f"standby: round {number}, {operation}: "
                    + ", ".join(f"{name} {seconds * 1e6:.0f} µs" for name, seconds in costs.items())
                    + f" of CPU time each; {served * sum(costs.values()):.2f} of {CORES} cores",
                    flush=True,
                )
                for name, measured in {"services": served, "machine": own, "room": room}.items():
                    results.add(
                        name, f"standby_{operation}", number, connections=SHAPE[0], streams=SHAPE[1],
                        requests_per_second=round(measured, 1), p50_us=None,
                    )  # fmt: skip
                    print(f"standby: round {number}, {operation}, {SAID[name]}: {measured:,.0f}/s", flush=True)


def threaded(flags):
    """As many threads as there are cores."""
    return flags[flags.index("1") + 1 :]


def bars(results):
    for operation, (_, least) in OPERATIONS.items():
        where = {"operation": f"standby_{operation}"}
        own, room = (results.median("requests_per_second", server=name, **where) for name in ("machine", "room"))
        share = results.ratio("requests_per_second", {"server": "services", **where}, {"server": "machine", **where})
        what = f"{operation} with a synchronous standby"
        # Where the machine has no room for more, no service carries it.
        bar = -least if room > least else None
        yield f"{what}: calls/s", results.median("requests_per_second", server="services", **where), bar
        yield f"{what}: the machine's own figure/s", own, None
        yield f"{what}: the same beside the load, with the signatures/s", room, None
        yield f"{what}: the services' share of that", share, None
