"""Random chains of what an owner and a thief do with an account, over the real services, each judged by a model.

    python Tests/EndToEnd/chains.py [--chains 20000] [--seed N] [--batch 25]
    python Tests/EndToEnd/chains.py --only 'N/BATCH/CHAIN'

A chain is up to eight steps: codes, bound devices, transfers, keys, step-ups, revocations, stolen tokens, and moves of the
services' clock. Every answer has to be the model's (chain_model.py); beyond it no token may hold more than its source's,
no thief whom nobody stood by may change who gets in, and what the owner revoked must be over. A chain that is wrong is cut
down to the steps that it takes, and printed with what replays it. Ends with status 1 if any is. $BINARIES names the folder
of the executables.
"""

import argparse
import asyncio
import itertools
import json
import pathlib
import random
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import conftest  # noqa: E402  (makes the stubs)
import services  # noqa: E402
from chain_actor import Chain  # noqa: E402
from chain_model import RULES, disagreement  # noqa: E402
from fast_client import FastClient  # noqa: E402
from moved_clock import MovedClock  # noqa: E402
from world import UNTHROTTLED  # noqa: E402

# Steps of a chain at most, and how its clock may move, in seconds: past a step-up, an access token, a refresh token's
# parent, and what a code began.
STEPS, MINUTES, LONGER, DAY, HALF = 8, 120, 1200, 26 * 3600, 16 * 86_400
MOVES = [
    [], [], [MINUTES], [MINUTES], [LONGER], [MINUTES, MINUTES, MINUTES], [LONGER, MINUTES], [DAY], [DAY, LONGER], [HALF],
    [HALF, HALF], [HALF, HALF, MINUTES],
]  # fmt: skip
CONNECTIONS = 8
SCOPES = ["basic", "basic profile", "basic payments", "account basic profile", "account basic payments profile"]

# How often each step is taken.
WEIGHTS = {
    "login": 4, "bind": 3, "move": 3, "offer": 3, "redeem": 4, "enrol": 5, "key": 5, "step-up": 5, "say": 5, "revoke": 5,
    "others": 2, "logout": 2, "everywhere": 1, "report": 4, "refresh": 2, "replay": 3, "steal": 2, "password": 2, "probe": 1,
    "rotate": 2,
}  # fmt: skip
# How somebody is let in.
WAYS = [["login"], ["bind"], ["move"], ["offer", "redeem"]]
# How many chains go on; each step is who, what, and for whom. In between comes whatever comes.
OWNER, THIEF = "owner", "thief"
COURSES = [
    [(OWNER, "say"), (THIEF, "enrol"), (THIEF, "key"), (OWNER, "revoke"), (THIEF, "key")],
    [(OWNER, "say"), (THIEF, "login"), (OWNER, "report")],
    [(OWNER, "say"), (THIEF, "bind"), (OWNER, "revoke"), (THIEF, "key")],
    [(THIEF, "rotate"), (THIEF, "key"), (OWNER, "report"), (THIEF, "key")],
    [(OWNER, "say"), (THIEF, "bind"), (THIEF, "rotate"), (OWNER, "revoke"), (THIEF, "key")],
    [(OWNER, "say"), (THIEF, "enrol"), (THIEF, "step-up")],
    [(OWNER, "say"), (THIEF, "login"), (THIEF, "refresh"), (THIEF, "refresh"), (THIEF, "replay")],
    [(OWNER, "step-up"), (OWNER, "say"), (THIEF, "move"), (THIEF, "revoke")],
    [(OWNER, "steal"), (OWNER, "step-up"), (THIEF, "refresh")],
    [(OWNER, "steal"), (OWNER, "step-up"), (THIEF, "login")],
    [(OWNER, "steal"), (OWNER, "step-up"), (THIEF, "offer")],
    [(OWNER, "offer"), (OWNER, "step-up"), (THIEF, "redeem")],
    [(OWNER, "offer"), (OWNER, "offer"), (THIEF, "redeem"), (THIEF, "redeem")],
    [(OWNER, "offer"), (OWNER, "revoke"), (THIEF, "redeem")],
    [(OWNER, "enrol"), (OWNER, "everywhere"), (OWNER, "key")],
    [(OWNER, "password"), (OWNER, "others"), (OWNER, "key")],
    [(THIEF, "step-up"), (THIEF, "enrol"), (OWNER, "password"), (OWNER, "revoke")],
    [(OWNER, "login", OWNER), (OWNER, "step-up"), (OWNER, "probe")],
    [(OWNER, "move", OWNER), (OWNER, "step-up"), (OWNER, "bind", THIEF), (OWNER, "report")],
]  # fmt: skip


def step_of(chance, op, who=None, to=None):
    """A step as plain values."""
    step = {"op": op, "who": who or chance.choice([OWNER, OWNER, THIEF])}
    step |= {"to": to or chance.choice([OWNER, THIEF, THIEF]), "pick": chance.randrange(64), "other": chance.randrange(64)}
    if op in ("login", "bind", "move"):
        step["scope"] = chance.choices(SCOPES, [1, 1, 1, 6, 2])[0]
        step["signed"], step["bound"] = chance.random() < 0.25, chance.random() < 0.5
    if op == "redeem":
        step["keep"] = chance.random() < 0.6
    if op == "steal":
        step["whole"] = chance.random() < 0.5
    return step


def steps_of(chance, moves):
    """A chain's steps, with the batch's moves of the clock at places of its own. Most let somebody in to begin with."""
    count = chance.randint(max(3, len(moves)), STEPS) - len(moves)
    steps = []
    if chance.random() < 0.7:
        steps += [step_of(chance, op, OWNER, THIEF) for op in chance.choice(WAYS)]
    if chance.random() < 0.6:
        for who, op, *to in chance.choice(COURSES):
            if chance.random() < 0.15:
                steps.append(step_of(chance, *chance.choices(list(WEIGHTS), WEIGHTS.values())))
            steps.append(step_of(chance, op, who, *to))
            if op == "step-up" and who == OWNER and steps[-2:-1] and steps[-2]["op"] == "steal":
                # In the session that the thief has a token of.
                steps[-1]["pick"], steps[-2]["whole"] = steps[-2]["pick"], steps[-2]["whole"] and chance.random() < 0.5
    while len(steps) < count:
        steps.append(step_of(chance, *chance.choices(list(WEIGHTS), WEIGHTS.values())))
    steps = steps[: STEPS - len(moves)]
    places = chance.choices(range(len(steps) + 1), k=len(moves))
    stolen = [place for place, step in enumerate(steps, 1) if step["op"] == "steal"]
    if stolen and places and chance.random() < 0.5:
        # What was stolen is used later.
        places[0] = stolen[0]
    for place, move in zip(sorted(places, reverse=True), reversed(moves)):
        steps.insert(place, {"op": "clock", "seconds": move})
    return steps


def batch_of(seed, batch, size):
    """The steps of each chain of a batch: they share the moves of the one clock that the services have."""
    chance = random.Random(f"{seed}/{batch}")
    moves = MOVES[(batch + random.Random(seed).randrange(len(MOVES))) % len(MOVES)]
    return [steps_of(chance, moves) for _ in range(size)]


class Lab:
    """The services with a clock that is moved, and ways to call them."""

    def __init__(self, binaries, directory, fleet=services.Fleet):
        self.clock = MovedClock(directory)
        arguments = {name: list(flags) for name, flags in UNTHROTTLED.items()}
        arguments["qr"] += ["--limits-decisions-per-minute", "0", "--limits-outstanding-codes", "1000000"]
        # What is tried here is not how hard a password is to guess.
        arguments["identity"] = ["--password-memory-kib", "8192", "--password-passes", "1", "--password-threads", "2"]
        self.fleet = fleet(binaries, directory, arguments=arguments)
        self.fleet.environment = self.clock.environment

    def __enter__(self):
        self.fleet.start()
        self.service_token = (self.fleet.data_directory / "service-token").read_text().strip()
        return self

    def __exit__(self, *_):
        self.fleet.stop()

    def open(self):
        self.nonces = {}
        self.clients = {
            name: FastClient(self.fleet.host, self.fleet.ports[name][0], CONNECTIONS) for name in services.NAMES
        }

    def close(self):
        for client in self.clients.values():
            client.close()

    async def move(self, seconds):
        """The clock goes on by that."""
        self.clock.move(seconds)
        # Over PostgreSQL identity looks first which keys sign.
        await asyncio.to_thread(self.fleet["identity"].wait_until_ready)

    async def run(self, chains):
        """The chains of a batch side by side, each waiting for the others where the clock moves."""
        actors = [Chain(self) for _ in chains]
        moves = [step["seconds"] for step in chains[0] if step["op"] == "clock"] if chains else []
        pieces = [[list(piece) for _, piece in pieces_of(steps)] for steps in chains]
        for number in range(len(moves) + 1):
            await asyncio.gather(*(actor.take(piece[number]) for actor, piece in zip(actors, pieces)))
            if number < len(moves):
                await self.move(moves[number])
        await asyncio.gather(*(actor.look() for actor in actors))
        return actors


def pieces_of(steps):
    """The steps between moves of the clock, numbered."""
    piece, number = [], 0
    for step in steps:
        if step["op"] == "clock":
            yield number, piece
            piece, number = [], number + 1
        else:
            piece.append(step)
    yield number, piece


def wrong_with(actor):
    """What is wrong with a chain that was run, or None."""
    if actor.violations:
        return actor.violations[0]
    found = disagreement(actor.events)
    return found and f"step {found[0]}: the model says {found[1]}"


async def shortest(lab, steps):
    """The chain without every step that is not needed to make it wrong, and how it ran."""
    [actor] = await lab.run([steps])
    if not wrong_with(actor):
        return steps, None
    number = 0
    while number < len(steps):
        fewer = steps[:number] + steps[number + 1 :]
        [again] = await lab.run([fewer])
        if wrong_with(again):
            steps, actor = fewer, again
        else:
            number += 1
    return steps, actor


def described(lab, steps, actor, name):
    """What to print of a chain that is wrong."""
    lines = [f"chain {name}: {wrong_with(actor)}"]
    lines += [f"  {event}" for event in actor.events]
    lines += [f"  steps: {json.dumps(steps)}", f"  again: python Tests/EndToEnd/chains.py --only '{name}'"]
    return "\n".join(lines)


async def explore(lab, seed, chains, size=25, report=print):
    """Runs so many chains. Returns the events of each, and descriptions of those that are wrong."""
    lab.open()
    histories, wrong, started = [], [], time.monotonic()
    try:
        for batch in itertools.count():
            left = chains - len(histories)
            if left <= 0 or len(wrong) >= 5:
                return histories, wrong
            planned = batch_of(seed, batch, min(size, left))
            actors = await lab.run(planned)
            histories += [actor.events for actor in actors]
            for number, (steps, actor) in enumerate(zip(planned, actors)):
                if wrong_with(actor) and len(wrong) < 5:
                    name = f"{seed}/{batch}/{number}"
                    fewer, again = await shortest(lab, steps)
                    wrong.append(described(lab, fewer, again or actor, name))
                    report(wrong[-1])
            if len(histories) % 1000 < size:
                report(f"{len(histories)} chains, {time.monotonic() - started:.0f} s, {len(wrong)} wrong")
    finally:
        lab.close()


def unnoticed(histories):
    """How many chains it takes to notice that a rule is missing, by rule; None where nothing notices."""
    right = [(number, events) for number, events in enumerate(histories, 1) if not disagreement(events)]
    return {
        rule: next((number for number, events in right if disagreement(events, {rule})), None) for rule in RULES
    }


async def once(lab, name):
    seed, batch, number = name.rsplit("/", 2)
    lab.open()
    try:
        steps = batch_of(seed, int(batch), int(number) + 1)[int(number)]
        steps, actor = await shortest(lab, steps)
        [actor] = [actor] if actor else await lab.run([steps])
        print(described(lab, steps, actor, name))
        return 1 if wrong_with(actor) else 0
    finally:
        lab.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chains", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=25)
    parser.add_argument("--seed", default=str(random.randrange(10**9)))
    parser.add_argument("--only", metavar="SEED/BATCH/CHAIN")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, Lab(conftest._binaries(), directory) as lab:
        if given.only:
            return asyncio.run(once(lab, given.only))
        print(f"seed {given.seed}, {given.chains} chains", flush=True)
        started = time.monotonic()
        histories, wrong = asyncio.run(
            explore(lab, given.seed, given.chains, given.batch, report=lambda text: print(text, flush=True))
        )
    calls = sum(len(events) for events in histories)
    print(f"{len(histories)} chains, {calls} events, {time.monotonic() - started:.0f} s, {len(wrong)} wrong")
    for rule, chains in unnoticed(histories).items():
        print(f"  without {rule}: " + (f"noticed by chain {chains}" if chains else "NOT noticed"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
