"""What the QR service spends on a scan that comes to nothing, by what is wrong with the code (S30).

    python Tests/Benchmarks/scans.py [--rounds 12] [--accounts 20]

Unknown codes, cancelled ones, those that somebody else claimed and those that expired are scanned in turns, in an order that
changes with each round, by accounts that may each be wrong so often a minute: the services' clock is moved in between. Printed
are CPU microseconds of the service a scan, the median of rounds. Ends with status 1 where the dearest kind costs a tenth more
than the cheapest. $BINARIES names the folder of the executables.
"""

import argparse
import contextlib
import pathlib
import random
import statistics
import sys
import tempfile

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
        pb.IssueSessionRequest(
            client_id=CLIENT_ID, purpose=pb.PURPOSE_LOGIN, code_challenge=CHALLENGE, code_challenge_method="S256"
        ),
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


def round_of(world, clock, accounts, owner, costs):
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
    for kind in random.sample(KINDS, len(KINDS)):
        begun = machine.cpu_ns(pid)
        for number, payload in enumerate(codes[kind]):
            try:
                accounts[number % len(accounts)].scan(payload)
            except grpc.RpcError as error:
                assert error.code() == grpc.StatusCode.UNAUTHENTICATED or error.code() == grpc.StatusCode.NOT_FOUND, error
            else:
                raise AssertionError(f"a code that is {kind} was taken")
        costs[kind].append((machine.cpu_ns(pid) - begun) / count / 1000)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--accounts", type=int, default=20)
    given = parser.parse_args()
    costs = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as folder:
        clock = MovedClock(folder)
        few = {"qr": [*UNTHROTTLED["qr"], "--limits-outstanding-codes", "1000000", "--limits-decisions-per-minute", "0"]}
        fleet = services.Fleet(conftest._binaries(), folder, arguments=few)
        fleet.environment = clock.environment
        with fleet:
            world = World(fleet)
            owner, accounts = world.account(), [world.account() for _ in range(given.accounts)]
            for number in range(given.rounds + 1):
                round_of(world, clock, accounts, owner, costs)
                if number == 0:
                    costs = {kind: [] for kind in KINDS}
            world.close()
    middle = {kind: statistics.median(costs[kind]) for kind in KINDS}
    print(f"{given.rounds} rounds of {EACH * given.accounts} scans of each kind; CPU microseconds of the service a scan")
    for kind in KINDS:
        print(f"{kind:>10} {middle[kind]:>8.0f}   ({min(costs[kind]):.0f} to {max(costs[kind]):.0f})")
    ratio = max(middle.values()) / min(middle.values())
    print(f"dearest to cheapest {ratio:.3f}")
    return 1 if ratio > MOST else 0


if __name__ == "__main__":
    sys.exit(main())
