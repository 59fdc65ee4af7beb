"""The long form of test_qr_histories: a hundred pollers of each of ten thousand codes, while the service is killed.

    python Tests/EndToEnd/full_histories.py [--codes 10000] [--pollers 100] [--kill-every 15] [--seed N]
    python Tests/EndToEnd/full_histories.py --judge FILE

Every code is judged as soon as its life is over: its history has to have an explanation, a confirmed code has to bring
tokens, and of two that a kill made it bring, only the last may be good for anything. All histories are written as JSON
lines, which --judge judges again. Ends with status 1 if anything is wrong. What is interrupted tells its verdict so
far. $BINARIES names the folder of the executables.
"""

import argparse
import asyncio
import collections
import functools
import hashlib
import itertools
import math
import multiprocessing
import os
import pathlib
import queue
import random
import signal
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import conftest  # noqa: E402  (makes the stubs)
import services  # noqa: E402
from fast_client import FastClient, Refused, Unanswered  # noqa: E402
from histories import LOST, Operation, is_linearizable, token_of  # noqa: E402
from latchkey.identity.v1 import auth_service_pb2 as auth  # noqa: E402
from latchkey.qr.v1 import qr_session_service_pb2 as pb  # noqa: E402
from world import CLIENT_ID, UNTHROTTLED, World, base64url, bearer  # noqa: E402

# Processes that make the load.
WORKERS = 2
# Connections of each, and codes that each has under way at a time.
CONNECTIONS, AT_A_TIME = 16, 10
# Of the pollers of a code, those that wait for a change; the service lets so many wait at once.
WAITING = 4
PERMISSION_DENIED, FAILED_PRECONDITION, NOT_FOUND = 7, 9, 5
# After these nobody knows what became of the call: CANCELLED, DEADLINE_EXCEEDED and UNAVAILABLE.
UNANSWERED = (1, 4, 14)


def is_to_be_asked_again(error):
    """Whether nobody knows what became of the call, or it was turned away because the service had too much to do."""
    return isinstance(error, Unanswered) or error.status in UNANSWERED or error.reason == "OVERLOADED"


class Kills:
    """When the service was killed and was back, seen by every process at once."""

    def __init__(self, context):
        self.times = context.Array("q", 2 * 10_000)

    def begin(self, number):
        # Written down before it happens, and as not over: calls are answered again before we know that it is.
        self.times[2 * number] = time.monotonic_ns()

    def end(self, number):
        self.times[2 * number + 1] = time.monotonic_ns()

    def since(self, begin):
        """As operations, those that were not over at `begin`."""
        found = []
        for number in itertools.count():
            start, end = self.times[2 * number : 2 * number + 2]
            if not start:
                return found
            if not end or end > begin:
                found.append(Operation("killer", "kill", start, end or math.inf, None, None))


class Life:
    """One code from its issue to its end: a screen with many pollers, and a phone."""

    def __init__(self, run, number):
        self.run, self.number = run, number
        self.chance = random.Random(f"{run.seed}/{number}")
        self.phone = bearer(self.chance.choice(run.phones))
        self.verifier = base64url(self.chance.randbytes(32))
        self.history = []
        self.tokens = {}

    async def record(self, process, op, call, given=None):
        began, end = time.monotonic_ns(), None
        try:
            output = await call
        except (Unanswered, Refused) as error:
            if is_to_be_asked_again(error):
                output, end = LOST, math.inf
            elif error.status == PERMISSION_DENIED and op in ("poll", "redeem"):
                output = "denied"
            elif error.status == FAILED_PRECONDITION and op in ("poll", "redeem"):
                output = "cancelled"
            elif error.status == NOT_FOUND and op in ("scan", "confirm", "deny"):
                output = "refused"
            else:
                output = f"status {error}"
        self.history.append(Operation(process, op, began, end or time.monotonic_ns(), given, output))
        return output

    async def answered(self, make):
        """As `make()` says once it is not LOST: a person or a device tries again."""
        while (output := await make()) == LOST:
            await asyncio.sleep(0.1)
        return output

    async def issue(self):
        request = pb.IssueSessionRequest(
            client_id=CLIENT_ID, purpose=pb.PURPOSE_LOGIN, code_challenge_method="S256",
            code_challenge=base64url(hashlib.sha256(self.verifier.encode()).digest()),
        )  # fmt: skip
        while True:
            try:
                return await self.run.qr("IssueSession", request, pb.IssueSessionResponse)
            except (Unanswered, Refused) as error:
                if not is_to_be_asked_again(error):
                    raise
                await asyncio.sleep(0.1)

    async def scan(self):
        async def call():
            request = pb.ScanSessionRequest(qr_payload=self.code.qr_payload)
            return (await self.run.qr("ScanSession", request, pb.ScanSessionResponse, self.phone)).confirm_ticket

        return await self.record("phone", "scan", call())

    async def decide(self, process, op, ticket):
        method, request, answer = {
            "confirm": ("ConfirmSession", pb.ConfirmSessionRequest, pb.ConfirmSessionResponse),
            "deny": ("DenySession", pb.DenySessionRequest, pb.DenySessionResponse),
        }[op]

        async def call():
            await self.run.qr(method, request(confirm_ticket=ticket), answer, self.phone)
            return "ok"

        return await self.record(process, op, call(), ticket)

    async def cancel(self):
        async def call():
            request = pb.CancelSessionRequest(device_code=self.code.device_code)
            await self.run.qr("CancelSession", request, pb.CancelSessionResponse)
            return "ok"

        return await self.record("screen", "cancel", call())

    async def poll(self, process, op="redeem", version=0, wait_ms=0):
        async def call():
            request = pb.PollSessionRequest(
                device_code=self.code.device_code, code_verifier=self.verifier if op == "redeem" else "",
                last_version=version, wait_ms=wait_ms,
            )  # fmt: skip
            answer = await self.run.qr("PollSession", request, pb.PollSessionResponse)
            if answer.HasField("tokens"):
                name = answer.tokens.access_token[-16:]
                self.tokens[name] = answer.tokens.access_token
                return f"token {name} {answer.version}"
            return f"{pb.SessionState.Name(answer.state).removeprefix('SESSION_STATE_').lower()} {answer.version}"

        return await self.record(process, op, call())

    async def wait_for_change(self, process):
        version = 0
        for _ in range(10):
            said = await self.poll(process, version=version, wait_ms=2000)
            if said.split()[0] not in ("pending", "scanned", LOST):
                return
            if said == LOST:
                await asyncio.sleep(0.1)
            else:
                version = int(said.split()[1])

    async def live(self):
        chance = self.chance
        self.code = await self.issue()

        async def poller(number):
            pause, op = chance.random() * 0.4, "redeem" if chance.random() < 0.8 else "poll"
            if number < WAITING:
                await self.wait_for_change(f"poller {number}")
            else:
                await asyncio.sleep(pause)
                await self.poll(f"poller {number}", op)

        async def phone():
            ticket = await self.answered(self.scan)
            await asyncio.sleep(chance.random() * 0.1)
            if chance.random() < 0.1:
                ticket = await self.answered(self.scan)
            if ticket == "refused":
                return
            await asyncio.sleep(chance.random() * 0.2)
            # Most confirm, some with two hands, of which one may refuse.
            hands = chance.choice([["confirm"]] * 7 + [["confirm"] * 2, ["confirm", "deny"], ["deny"]])
            names = ("phone", "other hand")
            await asyncio.gather(
                *(
                    self.answered(functools.partial(self.decide, name, hand, ticket))
                    for name, hand in zip(names, hands)
                )
            )

        async def screen():
            if chance.random() < 0.05:
                await asyncio.sleep(chance.random() * 0.4)
                await self.answered(self.cancel)

        await asyncio.gather(phone(), screen(), *(poller(number) for number in range(self.run.pollers)))
        # What was confirmed is there to be had, and that twice.
        await self.answered(lambda: self.poll("end"))
        return await self.answered(lambda: self.poll("end"))


class Worker:
    """Lives its share of the codes, judges them and tells of each."""

    def __init__(self, seed, pollers, numbers, path, kills, tell):
        self.seed, self.pollers, self.path, self.kills, self.tell = seed, pollers, path, kills, tell
        self.numbers = iter(numbers)

    def start(self, ports, phones, service_token):
        # A Ctrl-C is for the process that gathers the verdicts.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self.phones, self.service = phones, bearer(service_token)
        asyncio.run(self.work(ports))

    async def work(self, ports):
        self.qr_client = FastClient("127.0.0.1", ports["qr"], CONNECTIONS)
        self.identity = FastClient("127.0.0.1", ports["identity"], 1)
        with open(self.path, "ab", buffering=0) as self.file:
            await asyncio.gather(*(self.live_and_judge() for _ in range(AT_A_TIME)))
        self.qr_client.close()
        self.identity.close()

    async def qr(self, method, request, answer, metadata=()):
        return await self.qr_client.call(f"/latchkey.qr.v1.QrSessionService/{method}", request, answer, metadata)

    async def is_active(self, token):
        path, request = "/latchkey.identity.v1.AuthService/Introspect", auth.IntrospectRequest(token=token)
        while True:
            try:
                return (await self.identity.call(path, request, auth.IntrospectResponse, self.service)).active
            except (Unanswered, Refused) as error:
                if not is_to_be_asked_again(error):
                    raise
                await asyncio.sleep(0.1)

    async def live_and_judge(self):
        for number in self.numbers:
            life = Life(self, number)
            try:
                end = await life.live()
                history = life.history + self.kills.since(life.history[0].call_ns)
                wrongs = judge(history)
                if len(life.tokens) > 1:
                    good = {name for name, token in life.tokens.items() if await self.is_active(token)}
                    if good != {token_of(end)}:
                        wrongs.append("tokens of before are still good")
            except Exception as error:  # noqa: BLE001
                end, history, wrongs = "error", life.history, [f"the test itself failed: {error!r}"]
            # One write, so that no two processes' lines mix.
            self.file.write(lines(history, code=number))
            self.tell.put((number, end.split()[0], len(life.tokens), len(life.history), wrongs))


def lines(history, **also):
    ordered = sorted(history, key=lambda operation: operation.call_ns)
    return "".join(operation.line(**also) + "\n" for operation in ordered).encode()


def judge(history):
    """What is wrong with a whole history."""
    wrongs = []
    if not is_linearizable(history):
        wrongs.append("no order of the operations explains the answers")
    # The two promises again, in as few words as they have, without the model.
    kills = sum(1 for one in history if one.op == "kill")
    said = {(one.op, one.output) for one in history}
    end = max((one for one in history if one.process == "end"), key=lambda one: one.call_ns)
    if ("confirm", "ok") in said and ("cancel", "ok") not in said and token_of(end.output) is None:
        wrongs.append("a confirmed code brings no token")
    if len({token_of(one.output) for one in history} - {None}) > 1 + kills:
        wrongs.append("tokens were handed over twice")
    return wrongs


class Verdict:
    """What came of all codes so far."""

    def __init__(self, codes):
        self.codes = codes
        self.done = self.calls = self.reissued = 0
        self.ends = collections.Counter()
        self.wrongs = []
        self.began = time.monotonic()

    def add(self, number, end, tokens, calls, wrongs):
        self.done += 1
        self.calls += calls
        self.ends[end] += 1
        self.reissued += tokens > 1
        self.wrongs += [(number, wrong) for wrong in wrongs]
        for wrong in wrongs:
            print(f"code {number}: {wrong}", flush=True)

    def __str__(self):
        ends = ", ".join(f"{count} {end}" for end, count in self.ends.most_common())
        return (
            f"{self.done} of {self.codes} codes, {self.calls} calls, {time.monotonic() - self.began:.0f} s; ends: {ends}; "
            f"{self.reissued} handed over anew after a kill; {len(self.wrongs)} wrong"
        )

    @property
    def is_good(self):
        return self.done == self.codes and not self.wrongs and self.ends["token"] > 0


def gather(options, verdict, tell, workers, kill):
    """Kills the service now and then until all codes are judged."""
    chance = random.Random(options.seed)

    def pause():
        return time.monotonic() + chance.uniform(0.5, 1.5) * options.kill_every

    kills, next_kill, next_line = 0, pause(), time.monotonic() + 10
    # One code at least ends between two kills: a slow machine would never be done.
    done_at_kill = -1
    while verdict.done < options.codes:
        try:
            verdict.add(*tell.get(timeout=0.2))
        except queue.Empty:
            if not any(worker.is_alive() for worker in workers):
                break
        now = time.monotonic()
        if now > next_kill and verdict.done > done_at_kill:
            kills, next_kill, done_at_kill = kill(), pause(), verdict.done
        if now > next_line:
            print(f"{verdict}; {kills} kills", flush=True)
            next_line = now + 10


def main(options):
    folder = conftest.ROOT / ".build" / "histories"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{options.seed}.jsonl"
    path.unlink(missing_ok=True)
    print(f"seed {options.seed}, histories in {path}", flush=True)
    context = multiprocessing.get_context("fork")
    tell, kills, verdict = context.Queue(), Kills(context), Verdict(options.codes)
    arguments = {
        "qr": [*UNTHROTTLED["qr"], "--confirm-check-code", "never"], "identity": ["--token-access-lifetime", "1h"]
    }  # fmt: skip
    kill_count = 0
    # The workers begin as copies of this process from before it used the stock client, which would not survive that.
    starts = [context.Pipe(duplex=False) for _ in range(WORKERS)]
    workers = []
    for share, (start, _) in enumerate(starts):
        numbers = range(share, options.codes, WORKERS)
        worker = Worker(options.seed, options.pollers, numbers, path, kills, tell)
        workers.append(context.Process(target=lambda w=worker, s=start: w.start(*s.recv()), daemon=True))
        workers[-1].start()
    with tempfile.TemporaryDirectory() as data, services.Fleet(conftest._binaries(), data, arguments=arguments) as fleet:
        world = World(fleet)
        phones = [world.account().tokens.access_token for _ in range(20)]
        world.close()
        ports = {name: fleet.ports[name][0] for name in ("qr", "identity")}
        for _, begin in starts:
            begin.send((ports, phones, world.service_token()))

        def kill():
            nonlocal kill_count
            kills.begin(kill_count)
            fleet["qr"].restart()
            kills.end(kill_count)
            kill_count += 1
            return kill_count

        # Also when it was started in the background, where a shell has SIGINT ignored.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler)
        try:
            gather(options, verdict, tell, workers, kill)
        except KeyboardInterrupt:
            print("interrupted")
        finally:
            for worker in workers:
                worker.terminate()
    print(f"seed {options.seed}: {verdict}; {kill_count} kills; {os.path.getsize(path) >> 20} MiB of histories in {path}")
    return 0 if verdict.is_good else 1


def judge_file(path):
    """Judges what was written before."""
    wrongs, codes = 0, 0
    with open(path) as file:
        operations = map(Operation.from_line, file)
        for code, group in itertools.groupby(operations, key=lambda pair: pair[1]["code"]):
            codes += 1
            for wrong in judge([operation for operation, _ in group]):
                wrongs += 1
                print(f"code {code}: {wrong}")
    print(f"{codes} codes; {wrongs} wrong")
    return 1 if wrongs or not codes else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--codes", type=int, default=10_000)
    parser.add_argument("--pollers", type=int, default=100)
    parser.add_argument("--kill-every", type=float, default=15, help="seconds, on average")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--judge", metavar="FILE", help="histories of an earlier run")
    options = parser.parse_args()
    sys.exit(judge_file(options.judge) if options.judge else main(options))
