"""The checker of histories finds what may not be, planted into a history that is as it must be, and what is printed says so."""

import types

import bars
import pytest
import report
from history import DEAF_NS, SECOND, History, Operation, unexpected, unexpected_answers, violations


class Script:
    """A history written by hand, an operation a second."""

    def __init__(self):
        self.history = History()

    def add(self, op, key, input=None, output=None, seconds=1.0, **options):
        begin = (self.history[-1].end if self.history else 0) + round(seconds * SECOND)
        self.history.append(Operation("somebody", op, key, begin, begin + SECOND // 10, input, output, **options))

    def fails(self, op, key, input=None):
        self.add(op, key, input, error="UNAVAILABLE", retry_info=True)


def lawful():
    """Every kind of operation, unanswered ones too, as a correct installation may answer them."""
    script = Script()
    script.add("guest", "phone", output=("ada", "new"))
    script.fails("refresh", "phone", "t0")
    script.add("refresh", "phone", "t0", "t1")
    # A lost answer: the parent gets the same child again.
    script.add("refresh", "phone", "t0", "t1")
    script.add("refresh", "phone", "t1", "t2")
    script.add("guest", "phone", output=("ada", "known"))
    script.add("issue", "code")
    script.add("scan", "code")
    script.fails("confirm", "code")
    script.add("confirm", "code")
    script.add("redeem", "code", output=None)
    script.add("redeem", "code", output="a")
    script.add("redeem", "code", output="a")
    script.add("introspect", "code", "a", "active")
    for code in ("slow phone", "slow screen", "slow other screen"):
        script.add("issue", code)
        script.add("scan", code)
    script.add("confirm", "slow phone", output="refused", seconds=60)
    for code in ("slow screen", "slow other screen"):
        script.add("confirm", code)
    # What comes of a hand-over that nobody hears, and of one that one connection hears and the other does not.
    script.fails("redeem", "slow screen")
    script.add("redeem", "slow other screen", output="c")
    script.add("redeem", "slow screen", output="refused", seconds=30)
    script.add("redeem", "slow other screen", output="refused")
    script.add("introspect", "slow other screen", "c", "ended")
    script.add("put", "cart", 1)
    script.fails("put", "cart", 2)
    script.add("read", "cart", output=2)
    script.add("put", "cart", 3)
    script.add("read", "cart", output=3)
    script.add("guest", "tablet", output=("bob", "new"))
    script.add("introspect", "tablet", "b", "active")
    script.add("revoke", "tablet")
    script.add("use", "tablet", output="let in", seconds=0.3)
    script.add("refresh", "tablet", "r0", "refused")
    script.add("introspect", "tablet", "b", "ended")
    script.add("use", "tablet", output="refused", seconds=10)
    return script


def test_lawful_history():
    """Nothing is found in a history that is as it must be"""
    history = lawful().history
    assert violations(history) == [] and unexpected(history) == []


PLANTED = {
    "a write that is gone": (
        [("read", "cart", None, 2)], "lost: record cart is 2 after 3 was stored"),
    "a record that is gone": (
        [("read", "cart", None, None)], "lost: record cart is None after 3 was stored"),
    "a record that nobody wrote": (
        [("read", "cart", None, 9)], "lost: record cart is 9, which nobody stored"),
    "a guest that is gone": (
        [("guest", "phone", None, ("eve", "known"))], "lost: the guest of device phone is another one now"),
    "a guest made twice": (
        [("guest", "phone", None, ("ada", "new"))], "doubled: device phone was new twice"),
    "a session that is gone": (
        [("refresh", "phone", "t2", "refused")], "lost: the newest refresh token of session phone is refused"),
    "a code that is gone": (
        [("issue", "other", None, None), ("scan", "other", None, "refused")], "lost: code other, which was issued, is refused to scan"),
    "a scan that is gone": (
        [("issue", "other", None, None), ("scan", "other", None, None), ("confirm", "other", None, "refused")],
        "lost: code other, which was issued, is refused to confirm"),
    "a hand-over that is gone": (
        [("issue", "other", None, None), ("redeem", "other", None, "d"), ("redeem", "other", None, "refused", 20)],
        "lost: code other, which was issued, is refused to redeem"),
    "a hand-over that ended by itself": (
        [("introspect", "code", "a", "ended"), ("redeem", "code", None, "a"), ("introspect", "code", "a", "ended", 40)],
        "lost: the sign-in of code code is over"),
    "a confirmation that is gone": (
        [("issue", "other", None, None), ("confirm", "other", None, None), ("redeem", "other", None, None)],
        "lost: code other was confirmed and brings no token"),
    "a double hand-over": (
        [("redeem", "code", None, "b"), ("introspect", "code", "a", "active"), ("introspect", "code", "b", "active")],
        "doubled: code code was handed over 2 times"),
    "a forked chain": (
        [("refresh", "phone", "t2", "t3"), ("refresh", "phone", "t2", "t4")],
        "doubled: a refresh token of session phone has two children"),
    "an old token": (
        [("refresh", "phone", "t2", "t3"), ("refresh", "phone", "t1", "t2")],
        "doubled: a refresh token of session phone is good although its child was used"),
    "a stale read after a revocation": (
        [("introspect", "tablet", "b", "active")], "stale: session tablet is active after it was revoked"),
    "a refresh after a revocation": (
        [("refresh", "tablet", "r0", "r1")], "stale: session tablet was refreshed after it was revoked"),
    "a session let in long after its revocation": (
        [("use", "tablet", None, "let in")], "stale: session tablet is let in"),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_planted_violations(name):
    """C4: the checker of histories finds lost writes, double hand-overs, forked chains and stale reads that are planted"""
    script = lawful()
    steps, said = PLANTED[name]
    for step in steps:
        script.add(*step)
    found = violations(script.history)
    assert len(found) == 1 and found[0].startswith(said), found


def test_unexpected_errors():
    """C4: an error without RetryInfo is found, and one of another status"""
    script = lawful()
    script.add("put", "cart", 4, error="UNAVAILABLE", retry_info=False)
    script.add("put", "cart", 5, error="INTERNAL", retry_info=True)
    assert [operation.input for operation in unexpected(script.history)] == [4, 5]


def test_unexpected_answers():
    """C7: an error without RetryInfo is no service's answer where the client's library says that its connection ended"""
    script = lawful()
    ended = "Stream removed (Socket closed)"
    script.add("put", "cart", 4, error="UNAVAILABLE", message=ended)
    script.add("put", "cart", 5, error="INTERNAL", message=ended)
    script.add("put", "cart", 6, error="UNAVAILABLE", message="the service is stopping")
    assert [operation.input for operation in unexpected(script.history)] == [4, 5, 6]
    assert [operation.input for operation in unexpected_answers(script.history)] == [5, 6]


def test_gap():
    """C4: the writers' gap is the longest of the services', around the kill"""
    script = Script()
    for _ in range(3):
        for op in ("guest", "issue", "put"):
            script.add(op, "x")
    moment = script.history[-1].end + 1
    script.add("guest", "x", output=("ada", "new"))
    script.add("put", "x", 1, seconds=DEAF_NS / SECOND)
    script.add("issue", "x", seconds=0.5)
    gaps = script.history.gaps(moment)
    assert gaps["identity"] < gaps["migrator"] < gaps["qr"] == script.history.gap(moment)


# What `latchkey load` says at the end.
LOAD = {"redeemed": 3, "violation_count": 0, "error_count": 1, "operations": 4}


def killed(script, seconds=1.0):
    """The leader killed between two writes of each service, the later ones with so long a pause before each: the failover."""
    for pause in (0.1, seconds):
        moment = script.history[-1].end + 1
        for op in ("guest", "issue", "put"):
            script.add(op, f"{op} {moment}", 1, ("somebody", "known") if op == "guest" else None, pause)
    return report.Failover("pg1", "pg2", moment, whole=3 * (seconds + 0.1) + 0.1)


def test_good_verdict(capsys):
    """C4: a run whose load did something, and of which nothing was lost, is good, and its gap is printed beside its bar"""
    script = lawful()
    # The long gap of the last kill is not one of the others', which came soon before.
    failovers = [killed(script), killed(script), killed(script, 5)]
    assert report.tell(script.history, failovers, LOAD)
    said = capsys.readouterr().out
    assert "writers' gap: 3.3 s in the median, at most 6 s: met\n" in said and "lost 0, doubled 0, stale 0" in said


def test_slow_verdict(capsys):
    """C4: a gap that is longer than its bar is said to be"""
    script = lawful()
    assert report.tell(script.history, [killed(script, 5)], LOAD)
    assert "writers' gap: 15.3 s in the median, at most 6 s: MISSED\n" in capsys.readouterr().out


@pytest.mark.parametrize("idle", ["identity", "qr", "migrator", "load"])
def test_idle_verdict(idle, capsys):
    """C4: a run in which a part of the load did nothing is no success"""
    kept = {"identity": ("issue", "put"), "qr": ("guest", "put"), "migrator": ("guest", "issue")}.get(idle, ("guest", "issue", "put"))
    history = History(operation for operation in lawful().history if operation.op in kept)
    assert not report.tell(history, [], LOAD | {"redeemed": 0} if idle == "load" else LOAD)
    assert capsys.readouterr().err.count("✘") == 1


@pytest.mark.parametrize("planted", ["violation", "error", "load"])
def test_bad_verdict(planted, capsys):
    """C4: a run that lost something, that was answered otherwise than it may be, or that handed over twice is no success"""
    script = lawful()
    if planted == "violation":
        script.add("read", "cart", output=2)
    if planted == "error":
        script.add("put", "cart", 4, error="INTERNAL", retry_info=True)
    assert not report.tell(script.history, [], LOAD | {"violation_count": 1} if planted == "load" else LOAD)


def reported(title, outcome, *noted):
    """A test's reports as they come from another process, where pairs may have become lists."""
    properties = [("title", title), *(["bar", {"what": "a figure", "unit": "s"} | said] for said in noted)]
    return [types.SimpleNamespace(outcome=said, user_properties=properties) for said in ("passed", outcome, "passed")]


def test_table():
    """The table has each figure beside its bar, says which is missed, and how the tests of each promise ended"""
    reports = {
        "cluster/test_a.py::test_b": reported("C4, C12: the one", "passed", {"figure": 6, "most": 6}, {"figure": 6.5, "most": 6}),
        "cluster/test_a.py::test_c": reported("C4: the other", "failed", {"figure": 9, "least": 10}, {"figure": float("nan"), "most": 1}),
        "cluster/test_a.py::test_d": reported("of no promise", "skipped", {"figure": 1}),
    }
    table = [" ".join(line.split()) for line in bars.lines(reports, 1201, 1200)]
    assert table == [
        "test_a.py::test_b", "a figure 6 s at most 6 s met", "a figure 6.50 s at most 6 s MISSED",
        "test_a.py::test_c", "a figure 9 s at least 10 s MISSED", "a figure nan s at most 1 s MISSED",
        "test_a.py::test_d", "a figure 1 s", "",
        "the whole of these tests 20:01 min at most 20:00 min MISSED", "",
        "C4 1 failed, 1 passed", "C12 1 passed",
    ]  # fmt: skip
