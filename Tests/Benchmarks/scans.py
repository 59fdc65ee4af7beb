"""How long a scan that comes to nothing takes, and what the QR service spends on it, by what is wrong with the code (S30).

    python Tests/Benchmarks/scans.py [--rounds 12] [--accounts 20]

Unknown codes, cancelled ones, those that somebody else claimed and those that expired are scanned in turns, in an order that
changes with each round, by accounts that may each be wrong so often a minute: the services' clock is moved in between. In one
round of two they are scanned in a mixed order and each answer is timed: that is all that a scanner sees, and the run ends with
status 1 where the median of one kind is a tenth above another's. In the others they come kind by kind, for the service's CPU:
it includes what is done after the answer, such as cancelling a code that was passed around, which no other kind has. $BINARIES
names the folder of the executables.
"""

import argparse
import contextlib
import pathlib
import random
import statistics
import sys
import tempfile
import time

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "EndToEnd"))

import conftest  # noqa: E402
import grpc  # noqa: E402
import machine  # noqa: E402
import services  # noqa: E402
from latchkey.qr.v1 import qr_session_service_pb2 as pb  # noqa: E402
from moved_clock import MovedClock  # noqa: E402
from world import CLIENT_ID, UNTHROTTLED, World, base64url  # noqa: E402

KINDS = ["unknown", "cancelled", "claimed", "expired"]
# Of each kind by each account and round: fewer in all than an account may be wrong in a minute.
EACH, MOST = 7, 1.10
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


def issue(world):
    return world.qr.IssueSession(
        pb.IssueSessionRequest(client_id=CLIENT_ID, purpose=pb.PURPOSE_LOGIN, code_challenge=CHALLENGE, code_challenge_method="S256"),
        timeout=20,
    )


def payloads(world, kind, owner, count):
    """Contents of so many codes of a kind; those to expire do so once the clock is moved."""
    codes = [issue(world) for _ in range(count)]
    if kind == "unknown":
        stem = codes[0].qr_payload.rsplit("/", 1)[0]
        return [f"{stem}/{base64url(random.randbytes(16))}" for _ in codes]
    for code in codes:
        if kind == "cancelled":
            world.qr.CancelSession(pb.CancelSessionRequest(device_code=code.device_code), timeout=20)
        elif kind == "claimed":
            owner.scan(code.qr_payload)
    return [code.qr_payload for code in codes]


def scan(device, kind, payload):
    """Nanoseconds until the refusal."""
    begun = time.perf_counter_ns()
    try:
        device.scan(payload)
    except grpc.RpcError as error:
        took = time.perf_counter_ns() - begun
        assert error.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.NOT_FOUND), error
        return took
    raise AssertionError(f"a code that is {kind} was taken")


def round_of(world, clock, accounts, owner, costs, times):
    """Adds to the CPU of each kind where there are `costs`, and to the times of its answers otherwise."""
    count = EACH * len(accounts)
    expiring = payloads(world, "expired", owner, count)
    clock.move(125)
    for device in [owner, *accounts]:
        device.refresh()
    codes = {"expired": expiring} | {kind: payloads(world, kind, owner, count) for kind in KINDS if kind != "expired"}
    pid = world.fleet["qr"].process.pid
    # What a new session's first scan costs is no matter of its code.
    for device in accounts:
        with contextlib.suppress(grpc.RpcError):
            device.scan(codes["unknown"][0])
    if costs is None:
        mixed = [(kind, payload) for kind in KINDS for payload in codes[kind]]
        random.shuffle(mixed)
        for number, (kind, payload) in enumerate(mixed):
            times[kind].append(scan(accounts[number % len(accounts)], kind, payload) / 1000)
        return
    for kind in random.sample(KINDS, len(KINDS)):
        begun = machine.cpu_ns(pid)
        for number, payload in enumerate(codes[kind]):
            scan(accounts[number % len(accounts)], kind, payload)
        costs[kind].append((machine.cpu_ns(pid) - begun) / count / 1000)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--accounts", type=int, default=20)
    given = parser.parse_args()
    costs, times = ({kind: [] for kind in KINDS} for _ in range(2))
    with tempfile.TemporaryDirectory() as folder:
        clock = MovedClock(folder)
        few = {"qr": [*UNTHROTTLED["qr"], "--limits-outstanding-codes", "1000000", "--limits-decisions-per-minute", "0"]}
        fleet = services.Fleet(conftest._binaries(), folder, arguments=few)
        fleet.environment = clock.environment
        with fleet:
            world = World(fleet)
            owner, accounts = world.account(), [world.account() for _ in range(given.accounts)]
            round_of(world, clock, accounts, owner, {kind: [] for kind in KINDS}, times)
            for number in range(given.rounds):
                round_of(world, clock, accounts, owner, costs if number % 2 else None, times)
            world.close()
    print(f"{given.rounds} rounds of {EACH * given.accounts} scans of each kind; microseconds")
    print(f"{'':>10} {'to the answer: median':>22} {'p10':>6} {'p90':>6} {'CPU of the service':>20}")
    for kind in KINDS:
        tenths = statistics.quantiles(times[kind], n=10)
        middle, cost = statistics.median(times[kind]), statistics.median(costs[kind])
        print(f"{kind:>10} {middle:>22.0f} {tenths[0]:>6.0f} {tenths[-1]:>6.0f} {cost:>20.0f}")
    middles = [statistics.median(times[kind]) for kind in KINDS]
    ratio = max(middles) / min(middles)
    print(f"slowest answer to fastest {ratio:.3f}")
    return 1 if ratio > MOST else 0


if __name__ == "__main__":
    sys.exit(main())
