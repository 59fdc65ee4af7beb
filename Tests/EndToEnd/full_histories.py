"""The long form of test_qr_histories: a hundred pollers of each of ten thousand codes, while the service is killed.

    python Tests/EndToEnd/full_histories.py [--codes 10000] [--pollers 100] [--kill-every 15] [--seed N]

Prints what came of it, and every history that has no explanation, as JSON lines. Ends with status 1 if there is one, if a
confirmed code was lost, or if one was handed over twice. $BINARIES names the folder of the executables.
"""

import argparse
import asyncio
import collections
import hashlib
import math
import pathlib
import random
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import conftest  # noqa: E402  (makes the stubs)
import grpc  # noqa: E402
import services  # noqa: E402
from histories import LOST, Operation, is_linearizable  # noqa: E402
from latchkey.qr.v1 import qr_session_service_pb2 as pb  # noqa: E402
from latchkey.qr.v1 import qr_session_service_pb2_grpc as pb_grpc  # noqa: E402
from world import CLIENT_ID, UNTHROTTLED, World, base64url  # noqa: E402

CHANNELS = 8
# Codes under way at a time: with a hundred pollers each, what one Python process keeps up with.
AT_A_TIME = 20
UNANSWERED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)


class Run:
    def __init__(self, options, stubs, phones):
        self.options, self.stubs, self.phones = options, stubs, phones
        self.ends = collections.Counter()
        self.wrong = []
        self.calls = 0
        self.kills = []

    async def record(self, history, process, op, call, given=None):
        self.calls += 1
        began, end = time.monotonic_ns(), None
        try:
            output = await call
        except grpc.aio.AioRpcError as error:
            if error.code() in UNANSWERED:
                output, end = LOST, math.inf
            elif error.code() == grpc.StatusCode.PERMISSION_DENIED and op == "redeem":
                output = "denied"
            elif error.code() == grpc.StatusCode.FAILED_PRECONDITION and op == "redeem":
                output = "cancelled"
            elif error.code() == grpc.StatusCode.NOT_FOUND and op != "redeem":
                output = "refused"
            else:
                output = f"{error.code().name}: {error.details()}"
        history.append(Operation(process, op, began, end or time.monotonic_ns(), given, output))
        return output

    async def patiently(self, make):
        """What has to be answered: the same call again while the service is away."""
        for _ in range(200):
            try:
                return await make()
            except grpc.aio.AioRpcError as error:
                if error.code() not in UNANSWERED:
                    raise
                await asyncio.sleep(0.1)
        raise AssertionError("the service did not come back")

    async def code(self, number):
        chance = random.Random(f"{self.options.seed}/{number}")
        phone = chance.choice(self.phones)
        stub = lambda: chance.choice(self.stubs)  # noqa: E731
        verifier = base64url(chance.randbytes(32))
        issue = pb.IssueSessionRequest(
            client_id=CLIENT_ID, purpose=pb.PURPOSE_LOGIN, code_challenge_method="S256",
            code_challenge=base64url(hashlib.sha256(verifier.encode()).digest()),
        )  # fmt: skip
        issued = await self.patiently(lambda: stub().IssueSession(issue, timeout=8))
        history = []

        async def scan():
            request = pb.ScanSessionRequest(qr_payload=issued.qr_payload)
            return (await stub().ScanSession(request, metadata=phone.metadata, timeout=8)).confirm_ticket

        ticket = LOST
        for _ in range(50):
            ticket = await self.record(history, "phone", "scan", scan())
            if ticket not in (LOST,):
                break
            await asyncio.sleep(0.2)

        async def poll(process, pause):
            await asyncio.sleep(pause)

            async def call():
                request = pb.PollSessionRequest(device_code=issued.device_code, code_verifier=verifier)
                answer = await stub().PollSession(request, timeout=8)
                if answer.HasField("tokens"):
                    return f"token {answer.tokens.access_token[-16:]}"
                return pb.SessionState.Name(answer.state).removeprefix("SESSION_STATE_").lower()

            return await self.record(history, process, "redeem", call())

        async def confirm():
            await asyncio.sleep(0.2)

            async def call():
                request = pb.ConfirmSessionRequest(confirm_ticket=ticket)
                await stub().ConfirmSession(request, metadata=phone.metadata, timeout=8)
                return "ok"

            for _ in range(50):
                if await self.record(history, "phone", "confirm", call(), ticket) != LOST:
                    return
                await asyncio.sleep(0.2)

        pollers = [poll(f"poller {n}", chance.random() * 0.4) for n in range(self.options.pollers)]
        await asyncio.gather(confirm(), *pollers)
        for _ in range(50):
            end = await poll("end", 0.05)
            if end != LOST:
                break
        again = LOST
        while again == LOST:
            again = await poll("end", 0.05)
        self.ends[end.split()[0]] += 1
        kills = [kill for kill in self.kills if kill.return_ns > history[0].call_ns]
        if not is_linearizable(history + kills):
            self.wrong.append(history + kills)
        confirmed = any(one.op == "confirm" and one.output == "ok" for one in history)
        if confirmed and not end.startswith("token"):
            self.ends["LOST"] += 1
        if not kills and len({one.output for one in history if one.output.startswith("token")}) > 1:
            self.ends["TWICE"] += 1


async def main(options):
    with tempfile.TemporaryDirectory() as folder, services.Fleet(
        conftest._binaries(), folder, arguments=UNTHROTTLED
    ) as fleet:
        world = World(fleet)
        phones = [world.account() for _ in range(20)]
        channels = [
            grpc.aio.insecure_channel(
                world.target("qr"),
                [("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 200),
                 ("grpc.initial_reconnect_backoff_ms", 50), ("grpc.min_reconnect_backoff_ms", 50)],
            )
            for _ in range(CHANNELS)
        ]  # fmt: skip
        run = Run(options, [pb_grpc.QrSessionServiceStub(channel) for channel in channels], phones)
        began = time.monotonic()

        async def killer():
            chance = random.Random(options.seed)
            while True:
                await asyncio.sleep(chance.uniform(0.5, 1.5) * options.kill_every)
                at = time.monotonic_ns()
                # Written down before it is over: calls may be answered again before we know that it is.
                run.kills.append(Operation("killer", "kill", at, math.inf, None, None))
                await asyncio.to_thread(fleet["qr"].restart)
                run.kills[-1] = Operation("killer", "kill", at, time.monotonic_ns(), None, None)

        killing = asyncio.create_task(killer())
        numbers = iter(range(options.codes))

        async def worker():
            for number in numbers:
                await run.code(number)
                if number and number % 500 == 0:
                    print(f"{number} codes, {run.calls} calls, {time.monotonic() - began:.0f} s", flush=True)

        await asyncio.gather(*(worker() for _ in range(AT_A_TIME)))
        killing.cancel()
        for channel in channels:
            await channel.close()
        world.close()
    for history in run.wrong:
        print(*(one.line() for one in sorted(history, key=lambda one: one.call_ns)), sep="\n")
        print()
    print(
        f"seed {options.seed}: {options.codes} codes, {run.calls} calls, {len(run.kills)} kills, "
        f"{time.monotonic() - began:.0f} s; ends {dict(run.ends)}; {len(run.wrong)} histories without an explanation"
    )
    return 1 if run.wrong or run.ends["LOST"] or run.ends["TWICE"] or not run.ends["token"] else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--codes", type=int, default=10_000)
    parser.add_argument("--pollers", type=int, default=100)
    parser.add_argument("--kill-every", type=float, default=15, help="seconds, on average")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    sys.exit(asyncio.run(main(parser.parse_args())))
