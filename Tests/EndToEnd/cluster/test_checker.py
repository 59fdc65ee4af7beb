"""The checker of histories finds what may not be, planted into a history that is as it must be."""

import pytest
from history import DEAF_NS, SECOND, History, Operation, unexpected, violations


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
