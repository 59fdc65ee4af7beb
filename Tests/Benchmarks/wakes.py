"""How long after its answer a confirmation on one instance reaches who waits on another: two instances over PostgreSQL.

    .venv/bin/python Tests/Benchmarks/wakes.py [--waiters 2000] [--confirmations 500] [--rate 100]

Prints the median and the 99th percentile, with the instances telling one another and without, when only the database
says so. This process is both sides: what it takes to notice is in the figures.
"""

import argparse
import asyncio
import pathlib
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


async def watch(stub, code, heard):
    async for answer in stub.WatchSession(pb.WatchSessionRequest(device_code=code.device_code)):
        heard[answer.state, code.device_code] = time.monotonic()
        if answer.state == pb.SESSION_STATE_CONFIRMED:
            return


async def measure(world, waiters, confirmations, rate):
    """Seconds from a confirmation's answer on one instance to its watch's message on the other."""
    screen, phone = world.device(), world.account()
    codes = [screen.issue_qr() for _ in range(waiters)]
    heard = {}
    async with Stubs(world) as (first, second):
        watches = []
        for number, code in enumerate(codes):
            watches.append(asyncio.create_task(watch(second[number % len(second)], code, heard)))
            await asyncio.sleep(0.01)
        while sum(state == pb.SESSION_STATE_PENDING for state, _ in heard) < waiters:
            for task in watches:
                if task.done():
                    task.result()
            await asyncio.sleep(0.05)
        answered = {}

        async def confirm(code):
            scan = await first[0].ScanSession(pb.ScanSessionRequest(qr_payload=code.qr_payload), metadata=phone.metadata)
            digits = code.check_code if scan.needs_check_code else ""
            request = pb.ConfirmSessionRequest(confirm_ticket=scan.confirm_ticket, check_code=digits)
            await first[0].ConfirmSession(request, metadata=phone.metadata)
            answered[code.device_code] = time.monotonic()

        tasks = []
        for code in codes[:confirmations]:
            tasks.append(asyncio.create_task(confirm(code)))
            await asyncio.sleep(1 / rate)
        await asyncio.gather(*tasks, *watches[:confirmations])
        for task in watches[confirmations:]:
            task.cancel()
    return sorted(heard[pb.SESSION_STATE_CONFIRMED, code] - at for code, at in answered.items())


class Stubs:
    """Stubs to both instances: several connections to the one where thousands wait."""

    def __init__(self, world):
        self.targets = [world.target("qr"), *[world.at(2).target("qr")] * 40]

    async def __aenter__(self):
        options = [("grpc.use_local_subchannel_pool", 1)]
        self.channels = [grpc.aio.insecure_channel(target, options) for target in self.targets]
        made = [stubs.QrSessionServiceStub(channel) for channel in self.channels]
        return made[:1], made[1:]

    async def __aexit__(self, *_):
        for channel in self.channels:
            await channel.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--waiters", type=int, default=2000)
    parser.add_argument("--confirmations", type=int, default=500)
    parser.add_argument("--rate", type=float, default=100)
    options = parser.parse_args()
    for how, peers in (("told by the other instance", True), ("read from the database", False)):
        server = postgresql.PostgreSQL()
        try:
            arguments = {**UNTHROTTLED, "qr": [*UNTHROTTLED["qr"], "--limits-outstanding-codes", "0", "--code-lifetime", "600s"]}
            folder = pathlib.Path(tempfile.mkdtemp())
            with postgresql.fleet(conftest._binaries(), folder / "fleet", server, arguments, instances=2, peers=peers) as fleet:
                delays = asyncio.run(measure(World(fleet), options.waiters, options.confirmations, options.rate))
        finally:
            server.stop()
        median, last = delays[len(delays) // 2], delays[len(delays) * 99 // 100]
        print(f"{how}: {options.waiters} wait, {len(delays)} confirmed: p50 {median * 1000:.1f} ms, p99 {last * 1000:.1f} ms")


if __name__ == "__main__":
    main()
