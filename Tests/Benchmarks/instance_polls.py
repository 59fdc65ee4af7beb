"""What a poll costs on two instances over one PostgreSQL, each of which serves the other's codes, and on a single one.

    .venv/bin/python Tests/Benchmarks/instance_polls.py [--polls 20000] [--rounds 5]

CPU time of the QR processes for each poll, without what they take while nothing is asked, which is said beside it; rounds of the
one and the other in turn, the median of each. Fails when two instances take more than 1.15 times what one takes, or when polls
reach the database: transactions of it, without those while nothing is asked.
"""

import argparse
import asyncio
import pathlib
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "Tests" / "EndToEnd"), str(ROOT / "Tests" / "Story")]

import conftest  # noqa: E402  (makes the stubs)
import grpc  # noqa: E402
import postgresql  # noqa: E402
from latchkey.qr.v1 import qr_session_service_pb2 as pb  # noqa: E402
from latchkey.qr.v1 import qr_session_service_pb2_grpc as stubs  # noqa: E402
from world import UNTHROTTLED, World  # noqa: E402

MOST = 1.15
# A poll: none at all, but the services' own come when they come.
MOST_TRANSACTIONS = 0.005
CODES = 100


def processor_time(service):
    """Seconds that the process has had a processor, to the nanosecond."""
    total = 0
    for task in pathlib.Path(f"/proc/{service.process.pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


async def poll(targets, codes, count):
    """Polls every code in turn, each time at the next target."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.aio.insecure_channel(target, options) for target in targets]
    made = [stubs.QrSessionServiceStub(channel) for channel in channels]
    polls = iter(range(count))

    async def client():
        for number in polls:
            stub = made[number % len(made)]
            code = codes[number // len(made) % len(codes)]
            answer = await stub.PollSession(pb.PollSessionRequest(device_code=code))
            assert answer.state == pb.SESSION_STATE_PENDING

    await asyncio.gather(*(client() for _ in range(32)))
    for channel in channels:
        await channel.close()


def reading(services, server):
    """When, CPU time, and transactions that are over."""
    # A session tells of its transactions when it has been idle, at the latest after a second or so.
    time.sleep(2)
    ended = server.query("SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database", database="postgres")
    return time.monotonic(), sum(map(processor_time, services)), int(ended)


def measure(fleet, server, codes, count):
    services = [service for service in fleet.services.values() if service.kind == "qr"]
    # As many connections as two instances have.
    targets = [service.address for service in services] * (2 // len(services))
    asyncio.run(poll(targets, codes, len(codes) * len(targets)))
    start, first, transactions = reading(services, server)
    middle, second, own = reading(services, server)
    asyncio.run(poll(targets, codes, count))
    end, third, all_told = reading(services, server)
    idle, idle_transactions = (second - first) / (middle - start), (own - transactions) / (middle - start)
    asked = all_told - own - idle_transactions * (end - middle)
    return (third - second - idle * (end - middle)) / count, idle / len(services), asked / count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--polls", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    arguments = {**UNTHROTTLED, "qr": [*UNTHROTTLED["qr"], "--code-lifetime", "600s"]}
    servers = [postgresql.PostgreSQL() for _ in range(2)]
    costs = {1: [], 2: []}
    folder = pathlib.Path(tempfile.mkdtemp())
    try:
        one = postgresql.fleet(conftest._binaries(), folder / "one", servers[0], arguments)
        two = postgresql.fleet(conftest._binaries(), folder / "two", servers[1], arguments, instances=2)
        with one, two:
            fleets = {1: one, 2: two}
            codes = {instances: [World(fleet).device().issue_qr().device_code for _ in range(CODES)] for instances, fleet in fleets.items()}
            for _ in range(options.rounds):
                for instances, fleet in fleets.items():
                    server = servers[instances - 1]
                    costs[instances].append(measure(fleet, server, codes[instances], options.polls))
    finally:
        for server in servers:
            server.stop()
    medians = {instances: statistics.median(cost for cost, _, _ in values) for instances, values in costs.items()}
    for instances, median in medians.items():
        idle = statistics.median(idle for _, idle, _ in costs[instances])
        print(f"{instances} instance(s): {median * 1e6:.1f} µs of CPU a poll; without calls {idle * 1000:.1f} ms a second each")
    ratio = medians[2] / medians[1]
    print(f"ratio {ratio:.3f}, at most {MOST}: {'met' if ratio <= MOST else 'MISSED'}")
    asked = max(statistics.median(asked for _, _, asked in values) for values in costs.values())
    is_silent = asked <= MOST_TRANSACTIONS
    print(f"transactions of the database a poll: {asked:.4f}, at most {MOST_TRANSACTIONS}: {'met' if is_silent else 'MISSED'}")
    return 0 if ratio <= MOST and is_silent else 1


if __name__ == "__main__":
    sys.exit(main())
