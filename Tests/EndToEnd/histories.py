"""Recorded histories of one QR session, and a search for an order of them that a correct service could have answered in.

A small linearizability checker: every operation takes effect at one moment between its call and its answer; one that
was never answered may take effect at any later moment or not at all. Histories are short, so plain search is enough.
"""

import collections
import dataclasses
import json
import math

# In place of an answer that never came.
LOST = "lost"
# In place of a token: a kill lost the answer that a repeated poll would have got, so the next one may bring new tokens
# (and ends those of before).
FORGOTTEN = "forgotten"

# What a session is in the model. Tickets and tokens that nobody has seen are None: a lost answer gave them out.
Session = collections.namedtuple("Session", "state version ticket token")
START = Session("pending", 1, None, None)


@dataclasses.dataclass(frozen=True)
class Operation:
    """One call as its caller saw it.

    What a poll says is its state and version, such as "scanned 2"; in place of the state stands "token" and something
    to know the token by, or one word for an error.
    """

    process: str
    op: str
    call_ns: int
    return_ns: float
    input: str | None
    output: str | None

    def line(self, **also):
        """As a line of JSON, which has no infinity: null stands for an answer that never came."""
        fields = also | dataclasses.asdict(self)
        if math.isinf(self.return_ns):
            fields["return_ns"] = None
        return json.dumps(fields)

    @classmethod
    def from_line(cls, line):
        """The operation and what else the line said."""
        fields = json.loads(line)
        mine = {field.name: fields.pop(field.name) for field in dataclasses.fields(cls)}
        if mine["return_ns"] is None:
            mine["return_ns"] = math.inf
        return cls(**mine), fields


def step(session, operation):
    """Every session that the operation may leave behind, given what it answered; none if it cannot have answered that."""
    state, version, ticket, token = session
    output, lost = operation.output, operation.output == LOST

    def change(to, **also):
        return [session._replace(state=to, version=version + 1, **also)]

    match operation.op:
        case "kill":
            return [session._replace(token=FORGOTTEN) if state == "consumed" else session]
        case "scan":
            if state in ("pending", "scanned"):
                return [] if output == "refused" else change("scanned", ticket=None if lost else output)
            return [session] if lost or output == "refused" else []
        case "confirm" | "deny":
            target = "confirmed" if operation.op == "confirm" else "denied"
            done = ("confirmed", "consumed") if operation.op == "confirm" else ("denied",)
            # A ticket whose scan lost its answer is known to nobody, so nobody brings it.
            if ticket == operation.input and state == "scanned":
                return change(target) if lost or output == "ok" else []
            said = "ok" if ticket == operation.input and state in done else "refused"
            return [session] if lost or output == said else []
        case "cancel":
            if not lost and output != "ok":
                return []
            return [session] if state in ("denied", "consumed", "cancelled") else change("cancelled")
        case "poll":
            return [session] if lost or output == shown(session) else []
        case "redeem":
            if state == "confirmed":
                if lost:
                    return change("consumed")
                return change("consumed", token=token_of(output)) if is_token(output, version) else []
            if state == "consumed":
                if lost:
                    # It may have brought new tokens if the old ones were forgotten.
                    return [session, session._replace(token=None)] if token == FORGOTTEN else [session]
                # Tokens come with the version that they were confirmed in, also when they come again.
                is_new = token in (None, FORGOTTEN)
                is_right = is_token(output, version - 1) and (is_new or token == token_of(output))
                return [session._replace(token=token_of(output))] if is_right else []
            return [session] if lost or output == shown(session) else []
    raise AssertionError(f"the model does not know {operation.op}")


def shown(session):
    """What a poll says that redeems nothing."""
    return session.state if session.state in ("denied", "cancelled") else f"{session.state} {session.version}"


def is_token(output, version):
    return output.startswith("token ") and output.endswith(f" {version}")


def token_of(output):
    """What the token is known by, or None if the answer brought none."""
    return output.split()[1] if output is not None and output.startswith("token ") else None


def is_linearizable(history):
    """Whether some order of the operations, true to their times, explains every answer."""
    operations = sorted(history, key=lambda operation: operation.call_ns)
    everything = range(len(operations))
    ends = sorted((i for i in everything if not math.isinf(operations[i].return_ns)), key=lambda i: operations[i].return_ns)
    answered = sum(1 << i for i in ends)
    # An answered poll that changes nothing where it is looked at may as well come there: whatever could follow still
    # can. Without this a hundred concurrent polls would have as many orders as there are subsets of them.
    polls = {i for i in ends if operations[i].op in ("poll", "redeem")}
    seen = set()
    # A set of operations is an integer with a bit for each.
    stack = [((1 << len(operations)) - 1, START)]
    while stack:
        left, session = stack.pop()
        while True:
            if not left & answered:
                return True
            # What was answered before another was called comes before it.
            first_answer = next(operations[i].return_ns for i in ends if left >> i & 1)
            ready = []
            for i in everything:
                if operations[i].call_ns > first_answer:
                    break
                if left >> i & 1:
                    ready.append(i)
            idle = sum(1 << i for i in ready if i in polls and step(session, operations[i]) == [session])
            if not idle:
                break
            left &= ~idle
        if (left, session) in seen:
            continue
        seen.add((left, session))
        # Of calls that were never answered, all that have begun are as good as each other: one of a kind is enough.
        kinds = {(operations[i].op, operations[i].input, i if answered >> i & 1 else None): i for i in ready}
        for i in kinds.values():
            afters = step(session, operations[i])
            if not answered >> i & 1:
                # What changes nothing may as well never have come to anything.
                afters = [after for after in afters if after != session]
            stack.extend((left & ~(1 << i), after) for after in afters)
    return False
