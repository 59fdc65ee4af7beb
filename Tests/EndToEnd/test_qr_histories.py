"""Histories of QR sessions under concurrent pollers and kills have to be those of one session, one step at a time."""

import concurrent.futures
import math
import os
import pathlib
import random
import subprocess
import sys
import threading
import time

import grpc
import pytest
from histories import LOST, Operation, is_linearizable
from latchkey.qr.v1 import qr_session_service_pb2 as pb
from world import is_overloaded

ROOT = pathlib.Path(__file__).resolve().parents[2]
SESSIONS = 24
KILLS = 3
UNANSWERED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)


def planted(*rows):
    """A history from rows of (operation, call, return, input, output)."""
    return [Operation("p", op, call, end, given, said) for op, call, end, given, said in rows]


SCANNED = ("scan", 0, 1, None, "ticket 1")
CONFIRMED = [SCANNED, ("confirm", 2, 3, "ticket 1", "ok")]
REDEEMED = [*CONFIRMED, ("redeem", 4, 5, None, "token A 3")]


@pytest.mark.parametrize(
    "rows",
    [
        [*REDEEMED, ("redeem", 6, 7, None, "token B 3")],
        [*CONFIRMED, ("redeem", 4, 9, None, "token A 3"), ("redeem", 5, 8, None, "token B 3")],
        [*CONFIRMED, ("redeem", 4, 5, None, "scanned 2")],
        [*CONFIRMED, ("kill", 4, 5, None, None), ("redeem", 6, 7, None, "pending 1")],
        [*CONFIRMED, ("kill", 4, 5, None, None), ("redeem", 6, 7, None, "NOT_FOUND: no such code")],
        [*REDEEMED, ("kill", 6, 7, None, None), ("poll", 8, 9, None, "confirmed 3")],
        [*CONFIRMED, ("deny", 4, 5, "ticket 1", "ok")],
        [SCANNED, ("deny", 2, 3, "ticket 1", "ok"), ("redeem", 4, 5, None, "token A 3")],
        [SCANNED, ("deny", 2, 3, "ticket 1", "ok"), ("kill", 4, 5, None, None), ("poll", 6, 7, None, "scanned 2")],
        [SCANNED, ("redeem", 2, 3, None, "token A 2"), ("confirm", 4, 5, "ticket 1", "ok")],
        [SCANNED, ("scan", 2, 3, None, "ticket 2"), ("confirm", 4, 5, "ticket 1", "ok")],
        [*REDEEMED, ("poll", 6, 7, None, "confirmed 3")],
        [*REDEEMED, ("redeem", 6, 7, None, "token A 4")],
        [SCANNED, ("scan", 2, 3, None, "ticket 2"), ("poll", 4, 5, None, "scanned 2")],
        [SCANNED, ("poll", 2, 3, None, "scanned 2"), ("poll", 4, 5, None, "pending 1")],
        [SCANNED, ("cancel", 2, 3, None, "ok"), ("confirm", 4, 5, "ticket 1", "ok")],
        [*CONFIRMED, ("cancel", 4, 5, None, "ok"), ("redeem", 6, 7, None, "token A 3")],
        [SCANNED, ("confirm", 2, math.inf, "ticket 1", LOST), ("redeem", 4, 5, None, "token A 3"),
         ("redeem", 6, 7, None, "scanned 2")],
    ],
    ids=[
        "two-tokens", "two-tokens-at-once", "lost-confirmation", "lost-in-a-kill", "code-lost-in-a-kill",
        "redemption-lost-in-a-kill", "denied-after-confirmed", "token-after-denied", "denial-lost-in-a-kill",
        "token-before-confirmation", "void-ticket", "stale-state", "wrong-version", "stale-version", "back-to-pending",
        "confirmed-after-cancelled", "token-after-cancelled", "undone",
    ],
)  # fmt: skip
def test_checker_finds_violations(rows):
    """S5: the checker finds each planted violation, so the test below can fail"""
    assert not is_linearizable(planted(*rows))


@pytest.mark.parametrize(
    "rows",
    [
        [*REDEEMED, ("redeem", 6, 7, None, "token A 3"), ("poll", 8, 9, None, "consumed 4")],
        [
            *REDEEMED, ("kill", 6, 7, None, None),
            ("redeem", 8, 9, None, "token B 3"), ("redeem", 10, 11, None, "token B 3"),
        ],
        [SCANNED, ("confirm", 2, math.inf, "ticket 1", LOST), ("redeem", 4, 5, None, "scanned 2")],
        [SCANNED, ("confirm", 2, math.inf, "ticket 1", LOST), ("redeem", 4, 5, None, "token A 3")],
        [SCANNED, ("confirm", 2, 9, "ticket 1", "refused"), ("deny", 3, 8, "ticket 1", "ok")],
        [("scan", 0, math.inf, None, LOST), ("scan", 2, 3, None, "ticket 2"), ("poll", 4, 5, None, "scanned 3")],
        [("scan", 0, math.inf, None, LOST), ("scan", 2, 3, None, "ticket 2"), ("poll", 4, 5, None, "scanned 2")],
    ],
    ids=[
        "repeated", "reissued-after-a-kill", "lost-and-undone", "lost-and-done", "one-decision-wins", "scan-lost-and-done",
        "scan-lost-and-undone",
    ],
)  # fmt: skip
def test_checker_accepts_what_is_right(rows):
    """S5: the checker accepts histories of a correct service"""
    assert is_linearizable(planted(*rows))


def test_a_history_survives_being_written():
    """S5: a history that was written as JSON lines is judged as before"""
    history = planted(*REDEEMED, ("redeem", 6, math.inf, None, LOST))
    assert [Operation.from_line(one.line(code=7)) for one in history] == [(one, {"code": 7}) for one in history]


class Recorder:
    """Drives one session from several threads and writes down every call."""

    def __init__(self, world, phone):
        self.world, self.phone, self.screen = world, phone, world.device()
        self.history = []
        self.code = self.screen.issue_qr()

    def record(self, process, op, call, given=None):
        began = time.monotonic_ns()
        end = None
        try:
            output = call()
        except grpc.RpcError as error:
            # Who was turned away before anything was done may as well have had no answer.
            if error.code() in UNANSWERED or is_overloaded(error):
                output, end = LOST, math.inf
            elif error.code() == grpc.StatusCode.PERMISSION_DENIED and op in ("poll", "redeem"):
                output = "denied"
            elif error.code() == grpc.StatusCode.FAILED_PRECONDITION and op in ("poll", "redeem"):
                output = "cancelled"
            elif error.code() == grpc.StatusCode.NOT_FOUND and op in ("scan", "confirm", "deny"):
                output = "refused"
            else:
                output = f"{error.code().name}: {error.details()}"
        self.history.append(Operation(process, op, began, end or time.monotonic_ns(), given, output))
        return output

    def scan(self, process):
        return self.record(process, "scan", lambda: self.phone.scan(self.code.qr_payload).confirm_ticket)

    def decide(self, process, op, ticket):
        message = {"confirm": pb.ConfirmSessionRequest, "deny": pb.DenySessionRequest}[op](confirm_ticket=ticket)
        method = {"confirm": self.world.qr.ConfirmSession, "deny": self.world.qr.DenySession}[op]
        self.record(process, op, lambda: method(message, metadata=self.phone.metadata, timeout=8) and "ok", ticket)

    def poll(self, process, op):
        def call():
            verifier = self.screen.verifier if op == "redeem" else ""
            request = pb.PollSessionRequest(device_code=self.code.device_code, code_verifier=verifier)
            answer = self.world.qr.PollSession(request, timeout=8)
            if answer.HasField("tokens"):
                return f"token {answer.tokens.access_token[-16:]} {answer.version}"
            return f"{pb.SessionState.Name(answer.state).removeprefix('SESSION_STATE_').lower()} {answer.version}"

        self.record(process, op, call)

    def cancel(self, process):
        request = pb.CancelSessionRequest(device_code=self.code.device_code)
        self.record(process, "cancel", lambda: self.world.qr.CancelSession(request, timeout=8) and "ok")


def drive(recorder, seed, pool):
    """One session's life: a phone that scans and decides from two hands, and pollers that race."""
    chance = random.Random(seed)
    plans = [[chance.random() * 0.15 for _ in range(3)] for _ in range(5)]
    decisions = [chance.choice(["confirm", "confirm", "deny"]) for _ in range(2)]
    scans = chance.randrange(1, 3)
    cancels = chance.random() < 0.15

    def poller(number):
        for pause in plans[number]:
            time.sleep(pause)
            recorder.poll(f"poller {number}", "redeem" if number else "poll")

    def phone():
        ticket = None
        for _ in range(scans):
            said = recorder.scan("phone")
            ticket = said if said not in ("refused", LOST) else ticket
        # A kill may have taken every answer; the person scans again.
        for _ in range(5):
            if ticket is None and said == LOST:
                time.sleep(0.3)
                said = recorder.scan("phone")
                ticket = said if said not in ("refused", LOST) else None
        if ticket is None:
            return
        time.sleep(plans[4][0])
        hand = threading.Thread(target=recorder.decide, args=("other hand", decisions[0], ticket))
        hand.start()
        recorder.decide("phone", decisions[1], ticket)
        hand.join()

    def canceller():
        time.sleep(plans[4][1])
        recorder.cancel("screen")

    tasks = [pool.submit(poller, number) for number in range(4)] + [pool.submit(phone)]
    return tasks + ([pool.submit(canceller)] if cancels else [])


def test_histories(own_world):
    """S5: under racing pollers, two-handed phones and kills every session behaves as one, and loses nothing"""
    world = own_world
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    phone = world.account()
    recorders = [Recorder(world, phone) for _ in range(SESSIONS)]
    kills = []
    with concurrent.futures.ThreadPoolExecutor(SESSIONS * 6) as pool:
        tasks = [task for recorder in recorders for task in drive(recorder, chance.randrange(1 << 32), pool)]
        for _ in range(KILLS):
            time.sleep(chance.random() * 0.3)
            began = time.monotonic_ns()
            world.fleet["qr"].restart()
            kills.append(Operation("killer", "kill", began, time.monotonic_ns(), None, None))
        for task in tasks:
            task.result(60)
    world.open()
    wrong = 0
    for recorder in recorders:
        # Everything that was confirmed is still there to be had, and that twice.
        recorder.poll("end", "redeem")
        recorder.poll("end", "redeem")
        history = recorder.history + kills
        if not is_linearizable(history):
            wrong += 1
            print(*(operation.line() for operation in sorted(history, key=lambda o: o.call_ns)), sep="\n")
            print()
    ends = [recorder.history[-1].output.split()[0] for recorder in recorders]
    print({end: ends.count(end) for end in set(ends)})
    assert "token" in ends, f"seed {seed}: nothing was redeemed, so nothing was tested"
    assert not wrong, f"seed {seed}: {wrong} histories have no explanation"


def full_histories(binaries, *arguments):
    """Its exit status and what it printed."""
    program = pathlib.Path(__file__).parent / "full_histories.py"
    # The stubs are made already; a second set keeps the program from writing over those that this process reads.
    environment = os.environ | {"BINARIES": str(binaries), "STUBS": str(ROOT / ".build" / "histories" / "stubs")}
    done = subprocess.run([sys.executable, program, *arguments], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, done.stdout + done.stderr


def test_full_histories_in_small(binaries):
    """S5: a hundred pollers of each code, through kills: each grant handed over once, nothing confirmed is lost"""
    seed = random.randrange(1 << 32)
    status, said = full_histories(binaries, "--codes", "30", "--kill-every", "0.7", "--seed", str(seed))
    assert status == 0 and "30 of 30 codes" in said and "; 0 wrong" in said, said
    status, said = full_histories(binaries, "--judge", str(ROOT / ".build" / "histories" / f"{seed}.jsonl"))
    assert status == 0 and said == "30 codes; 0 wrong\n", said


def test_full_histories_find_what_is_wrong(binaries, tmp_path):
    """S5: judging written histories finds a grant that was handed over twice, and a confirmed code that was lost"""
    end = [Operation("end", "redeem", 8, 9, None, "pending 1")]
    twice = [Operation("end", "redeem", 6, 7, None, "token B 3")]
    histories = [planted(*REDEEMED) + twice, planted(*CONFIRMED) + end]
    lines = [operation.line(code=code) for code, history in enumerate(histories) for operation in history]
    file = tmp_path / "histories.jsonl"
    file.write_text("\n".join(lines) + "\n")
    status, said = full_histories(binaries, "--judge", str(file))
    assert status == 1
    assert said.splitlines() == [
        "code 0: no order of the operations explains the answers",
        "code 0: tokens were handed over twice",
        "code 1: no order of the operations explains the answers",
        "code 1: a confirmed code brings no token",
        "2 codes; 4 wrong",
    ]
