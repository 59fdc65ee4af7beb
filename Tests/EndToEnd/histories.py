"""Recorded histories of one QR session, and a search for an order of them that a correct service could have answered in.

A small linearizability checker: every operation takes effect at one moment between its call and its answer; one that
was never answered may take effect at any later moment or not at all. Histories are short, so plain search is enough.
"""

import dataclasses
import json
import math

# What a session is in the model: (state, ticket, token). Tickets and tokens that nobody has seen are None: a lost
# answer gave them out. `FORGOTTEN` in place of a token: a kill lost the answer that a repeated poll would have got, so
# the next one may bring new tokens (and ends those of before).
START = ("pending", None, None)
FORGOTTEN = "forgotten"
LOST = "lost"


@dataclasses.dataclass(frozen=True)
class Operation:
    process: str
    op: str
    call_ns: int
    return_ns: float
    input: str | None
    output: str | None

    def line(self):
        fields = dataclasses.asdict(self)
        if math.isinf(self.return_ns):
            fields["return_ns"] = None
        return json.dumps(fields)


def step(state, operation):
    """Every state that the operation may leave behind, given what it answered; none if it cannot have answered that."""
    name, ticket, token = state
    output, lost = operation.output, operation.output == LOST
    match operation.op:
        case "kill":
            return [(name, ticket, FORGOTTEN if name == "consumed" else token)]
        case "scan":
            if name in ("pending", "scanned"):
                return [] if output == "refused" else [("scanned", None if lost else output, None)]
            return [state] if lost or output == "refused" else []
        case "confirm" | "deny":
            target = "confirmed" if operation.op == "confirm" else "denied"
            done = ("confirmed", "consumed") if operation.op == "confirm" else ("denied",)
            # A ticket whose scan lost its answer is known to nobody, so nobody brings it.
            if ticket == operation.input and name == "scanned":
                return [] if output == "refused" else [(target, ticket, None)]
            said = "ok" if ticket == operation.input and name in done else "refused"
            return [state] if lost or output == said else []
        case "cancel":
            return [] if output == "refused" else [state if name in ("denied", "consumed") else ("cancelled", ticket, None)]
        case "poll":
            return [state] if lost or output == name else []
        case "redeem":
            if name == "confirmed":
                return [("consumed", ticket, None)] if lost else [("consumed", ticket, output)] if is_token(output) else []
            if name == "consumed":
                if lost:
                    # It may have brought new tokens if the old ones were forgotten.
                    return [state, (name, ticket, None)] if token == FORGOTTEN else [state]
                known = token not in (None, FORGOTTEN)
                return [("consumed", ticket, output)] if is_token(output) and (not known or token == output) else []
            return [state] if lost or output == name else []
    raise AssertionError(f"the model does not know {operation.op}")


def is_poll(operation):
    return operation.op in ("poll", "redeem") and operation.output != LOST


def is_token(output):
    return output is not None and output.startswith("token ")


def is_linearizable(history):
    """Whether some order of the operations, true to their times, explains every answer."""
    operations = sorted(history, key=lambda operation: operation.call_ns)
    answered = frozenset(i for i, operation in enumerate(operations) if not math.isinf(operation.return_ns))
    seen = set()
    stack = [(frozenset(range(len(operations))), START)]
    while stack:
        left, state = stack.pop()
        if not left & answered:
            return True
        if (left, state) in seen:
            continue
        seen.add((left, state))
        # What was answered before another was called comes before it.
        first_answer = min(operations[i].return_ns for i in left)
        ready = [i for i in left if operations[i].call_ns <= first_answer]
        # An answered poll that changes nothing now may as well come now: whatever could follow still can. Without this
        # a hundred concurrent polls would have as many orders as there are subsets of them.
        idle = next((i for i in ready if is_poll(operations[i]) and step(state, operations[i]) == [state]), None)
        # Of calls that were never answered, all that have begun are as good as each other: one of a kind is enough.
        kinds = {(operations[i].op, operations[i].input, i if i in answered else None): i for i in ready}
        for i in kinds.values() if idle is None else [idle]:
            stack.extend((left - {i}, after) for after in step(state, operations[i]))
    return False
