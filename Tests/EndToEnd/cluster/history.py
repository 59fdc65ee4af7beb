"""What clients did to an installation and what they were told, call by call, and what may not be in such a history.

Every attempt is an operation of its own: one that was not answered, or was answered by an error, may have happened or not.
What it is about (`key`) has one writer, so that plain rules do in place of a search for an order.
"""

import collections
import dataclasses
import re

# Operations that change something, by the service that takes them.
WRITES = {
    "guest": "identity", "refresh": "identity", "revoke": "identity",
    "issue": "qr", "scan": "qr", "confirm": "qr",
    "put": "migrator",
}  # fmt: skip
SECOND = 1_000_000_000
# When an instance that does not hear of ended sessions lets nobody in any more, and a second to hear of them before.
# That hearing takes less than one is C6's.
DEAF_NS = 6 * SECOND
# For how long a scan lets its code be confirmed, and a hand-over is repeated to the poller that did not hear the answer: longer
# than a failover takes, and shorter than an outage may. Who comes later is refused, and has lost nothing that was promised.
CONFIRM_NS = 60 * SECOND
REPEAT_NS = 30 * SECOND
# The median of the writers' gaps of several kills, in seconds: what an operator of such a cluster counts on.
GAP_BAR = 6


@dataclasses.dataclass(frozen=True)
class Operation:
    """One attempt. Times are nanoseconds of time.monotonic_ns().

    guest: key a device, output its subject, and "new" or "known". refresh: key a session, input and output tokens.
    revoke: key a session. issue, scan, confirm: key a code. redeem: key a code, output a token. introspect: key a session
    or a code, input a token, output "active" or "ended". use: key a session, output "let in" or "refused". put: key a
    record, input a number. read: key a record, output its number or None. A refusal that is an answer is "refused".
    """

    process: str
    op: str
    key: str
    begin: int
    end: int
    input: object = None
    output: object = None
    # Of an attempt that ended with an error: the status, whether RetryInfo was there, and what it said.
    error: str | None = None
    retry_info: bool = False
    message: str = ""


class History(list):
    """Operations as they ended."""

    def answered(self, *names):
        return [operation for operation in self if operation.error is None and operation.op in names]

    def acknowledged(self):
        """How many writes were, by service."""
        counts = collections.Counter(WRITES[write.op] for write in self.answered(*WRITES) if write.output != "refused")
        return {service: counts[service] for service in sorted(set(WRITES.values()))}

    def errors(self):
        """How many attempts ended with an error, by status and whether RetryInfo came with it."""
        return collections.Counter((operation.error, operation.retry_info) for operation in self if operation.error)

    def gaps(self, moment, seconds=60):
        """For how many seconds nothing was written around `moment` (nanoseconds), by service."""
        found = {}
        for service in sorted(set(WRITES.values())):
            names = [name for name, of in WRITES.items() if of == service]
            ends = sorted(operation.end for operation in self.answered(*names))
            pairs = zip(ends, ends[1:])
            found[service] = max(
                ((later - earlier) / SECOND for earlier, later in pairs if later > moment and earlier < moment + seconds * SECOND),
                default=float("inf"),
            )
        return found

    def first_write(self, service, moment):
        """How many seconds after `moment` (nanoseconds) a service's first write was acknowledged."""
        names = [name for name, of in WRITES.items() if of == service]
        ends = [operation.end for operation in self.answered(*names) if operation.end > moment]
        return (min(ends, default=float("inf")) - moment) / SECOND

    def gap(self, moment):
        """The writers' gap: of the service whose writers had the longest."""
        return max(self.gaps(moment).values())


def grouped(operations):
    groups = collections.defaultdict(list)
    for operation in operations:
        groups[operation.key].append(operation)
    return groups


def violations(history):
    """Everything in a history that may not be, in words; `lost`, `doubled` or `stale` is the first of them."""
    return [found for rule in RULES for found in rule(history)]


def counted(found):
    """How many violations there are of each kind."""
    return {kind: sum(text.startswith(f"{kind}: ") for text in found) for kind in ("lost", "doubled", "stale")}


def guests(history):
    """A device has one subject, and it is new once."""
    for device, starts in grouped(history.answered("guest")).items():
        if len({start.output[0] for start in starts}) > 1:
            yield f"lost: the guest of device {device} is another one now"
        if sum(start.output[1] == "new" for start in starts) > 1:
            yield f"doubled: device {device} was new twice"


def refreshes(history):
    """The newest token is good for another one, each token has one child, and none is good once its child was used."""
    revoked = {operation.key for operation in history if operation.op == "revoke"}
    for session, uses in grouped(history.answered("refresh")).items():
        children, used = {}, {}
        for use in sorted(uses, key=lambda use: use.begin):
            if use.output == "refused":
                if session not in revoked:
                    yield f"lost: the newest refresh token of session {session} is refused"
                continue
            if children.setdefault(use.input, use.output) != use.output:
                yield f"doubled: a refresh token of session {session} has two children"
            if used.get(children[use.input], use.begin) < use.begin:
                yield f"doubled: a refresh token of session {session} is good although its child was used"
            used[use.input] = min(used.get(use.input, use.end), use.end)


def codes(history):
    """A code that was issued can be scanned and confirmed; one that was confirmed hands over one live sign-in."""
    for code, attempts in grouped(operation for operation in history if operation.op in CODE_STEPS).items():
        steps = [attempt for attempt in attempts if attempt.error is None]
        late = [step for step in steps if step.output == "refused" and is_late(step, attempts)]
        for step in steps:
            if step.output == "refused" and step.op in ("scan", "confirm", "redeem") and step not in late:
                yield f"lost: code {code}, which was issued, is refused to {step.op}"
        tokens = {step.output for step in steps if step.op == "redeem" and step.output not in ("refused", None)}
        is_confirmed = any(step.op == "confirm" and step.output != "refused" for step in steps)
        # Whoever asks for the hand-over again too late ends it.
        is_ended = any(step.op == "redeem" for step in late)
        if is_confirmed and not tokens and not is_ended:
            yield f"lost: code {code} was confirmed and brings no token"
        handed_over = max((step.end for step in steps if step.op == "redeem"), default=0)
        seen = {
            step.input for step in steps
            if step.op == "introspect" and step.output == "active" and step.begin > handed_over and step.input in tokens
        }  # fmt: skip
        if len(seen) > 1:
            yield f"doubled: code {code} was handed over {len(seen)} times"
        if tokens and not seen and not is_ended and any(step.op == "introspect" for step in steps):
            yield f"lost: the sign-in of code {code} is over"


CODE_STEPS = ("issue", "scan", "confirm", "redeem", "introspect")


def is_late(refusal, attempts):
    """Whether a code's confirmation or hand-over was refused when its time may have been over: from the last scan on, and from the
    first attempt on that may have handed it over."""
    if refusal.op == "confirm":
        answered = [step for step in attempts if step.op == "scan" and step.error is None and step.output != "refused"]
        scans = [scan.begin for scan in answered if scan.end <= refusal.begin]
        return bool(scans) and refusal.end >= max(scans) + CONFIRM_NS
    if refusal.op == "redeem":
        may_have = [step.begin for step in attempts if step.op == "redeem" and (step.error or step.output not in ("refused", None))]
        return bool(may_have) and refusal.end >= min(may_have) + REPEAT_NS
    return False


def records(history):
    """A read finds what was acknowledged before it began, or what was tried since."""
    puts = grouped(operation for operation in history if operation.op == "put")
    for record, reads in grouped(history.answered("read")).items():
        for read in reads:
            tried = [put for put in puts[record] if put.begin < read.end]
            kept = max((put.input for put in tried if put.error is None and put.end < read.begin), default=None)
            if kept is not None and (read.output is None or read.output < kept):
                yield f"lost: record {record} is {read.output} after {kept} was stored"
            if read.output is not None and read.output not in {put.input for put in tried}:
                yield f"lost: record {record} is {read.output}, which nobody stored"


def revocations(history):
    """A session that was revoked is over for whoever asks from then on."""
    for session, uses in grouped(history.answered("revoke", "refresh", "introspect", "use")).items():
        ended = min((use.end for use in uses if use.op == "revoke"), default=None)
        if ended is None:
            continue
        for use in uses:
            if use.op == "refresh" and use.output != "refused" and use.begin > ended:
                yield f"stale: session {session} was refreshed after it was revoked"
            if use.op == "introspect" and use.output == "active" and use.begin > ended:
                yield f"stale: session {session} is active after it was revoked"
            if use.op == "use" and use.output == "let in" and use.begin > ended + DEAF_NS:
                yield f"stale: session {session} is let in {(use.begin - ended) / SECOND:.1f} s after it was revoked"


RULES = (guests, refreshes, codes, records, revocations)


# How an attempt may end while a database fails over: the service cannot now, or more waits than it can do in time.
ERRORS = {("UNAVAILABLE", True), ("RESOURCE_EXHAUSTED", True)}


def unexpected(history):
    """Attempts that ended otherwise: with another status, or without RetryInfo."""
    return [operation for operation in history if operation.error and (operation.error, operation.retry_info) not in ERRORS]


# How a client's library says that its connection ended, or that none came about.
UNANSWERED = re.compile("failed to connect to all addresses|Socket closed|Connection reset|Broken pipe|GOAWAY")


def unexpected_answers(history):
    """Those of them that a service answered. Where an instance goes away behind a balancer, connections may end without a word, and
    the client's own library says UNAVAILABLE."""

    def is_answer(operation):
        return operation.error != "UNAVAILABLE" or not UNANSWERED.search(operation.message)

    return [operation for operation in unexpected(history) if is_answer(operation)]
