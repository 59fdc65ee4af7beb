"""What eight cells carry, as a simulation: who lives where, what each cell does in a second, what moves when a ninth one
comes, and what is lost when one dies. The figures are those of the guide Cells; the same seed gives the same ones.

    python3 Tests/Benchmarks/cells.py
"""

import collections
import hashlib
import heapq
import random

SEED = 8
CELLS = 8
# The load that the guide works out.
ACCOUNTS = 100_000_000
SCREENS = 5_000_000
POLL_EVERY = 5
CODE_LIVES = 120
# One screen here stands for so many.
SCALE = 200
# Identifiers that are hashed to see how even the cells are.
SAMPLE = 100_000
# A screen whose code was lost asks anew after up to so long; a client takes it from RetryInfo.
SPREAD = 10


def weight(identifier, cell):
    return hashlib.sha256(f"{cell} {identifier}".encode()).digest()[:8]


def home(identifier, cells):
    """The cell of a new account: the one that weighs most for its identifier (rendezvous hashing)."""
    return max(cells, key=lambda cell: weight(identifier, cell))


def by_remainder(identifier, cells):
    return cells[int.from_bytes(hashlib.sha256(identifier.encode()).digest()[:8], "big") % len(cells)]


def percent(part, whole):
    return f"{100 * part / whole:.1f} %"


def accounts():
    """How even the cells are, and what a ninth one changes for identifiers that are looked up by their hash alone."""
    eight, nine = list(range(CELLS)), list(range(CELLS + 1))
    identifiers = [f"user-{number}@example.com" for number in range(SAMPLE)]
    homes = [home(identifier, eight) for identifier in identifiers]
    count = collections.Counter(homes)
    fewest, most = (round(pick(count.values()) * ACCOUNTS / SAMPLE / 1e6, 2) for pick in (min, max))
    later = [home(identifier, nine) for identifier in identifiers]
    moved = sum(before != after for before, after in zip(homes, later))
    elsewhere = sum(before != after and after != CELLS for before, after in zip(homes, later))
    remainder = sum(by_remainder(identifier, eight) != by_remainder(identifier, nine) for identifier in identifiers)
    yield "accounts in a cell, of 100 M", f"{fewest} M to {most} M"
    yield "identifiers with another home after a ninth cell", percent(moved, SAMPLE)
    yield "of these, to one of the first eight", str(elsewhere)
    yield "with the remainder of a hash instead", percent(remainder, SAMPLE)


class Screens:
    """Screens that show a code each and poll it. Whenever a code's time is over, its screen asks for another one, at a cell
    that the balancer chooses among those that live."""

    def __init__(self):
        self.chance = random.Random(SEED)
        self.living = list(range(CELLS))
        self.polls = collections.defaultdict(lambda: [0] * CELLS)
        self.issues = collections.defaultdict(lambda: [0] * CELLS)
        self.codes = [0] * CELLS
        self.lost = 0
        self.events = []
        for screen in range(SCREENS // SCALE):
            # As if this had gone on for long.
            heapq.heappush(self.events, (self.chance.random() * POLL_EVERY, screen, None, 0.0))

    def issue(self, now, screen, age=0.0):
        cell = self.chance.choice(self.living)
        self.codes[cell] += 1
        if not age:
            self.issues[int(now)][cell] += 1
        heapq.heappush(self.events, (now + POLL_EVERY, screen, cell, now + CODE_LIVES - age))

    def run(self, until):
        while self.events and self.events[0][0] < until:
            now, screen, cell, over = heapq.heappop(self.events)
            if cell is None:
                self.issue(now, screen, 0.0 if over else self.chance.random() * CODE_LIVES)
            elif cell not in self.living:
                self.lost += 1
                self.codes[cell] -= 1
                heapq.heappush(self.events, (now + self.chance.random() * SPREAD, screen, None, 1.0))
            elif now >= over:
                self.codes[cell] -= 1
                self.issue(now, screen)
            else:
                self.polls[int(now)][cell] += 1
                heapq.heappush(self.events, (now + POLL_EVERY, screen, cell, over))


def thousands(numbers, pick=lambda numbers: sum(numbers) / len(numbers)):
    return f"{pick(numbers) * SCALE / 1000:.1f} k"


def load():
    """A minute of eight cells, and the minute in which one of them dies."""
    screens = Screens()
    screens.run(60)
    minute = range(10, 60)
    cells = range(CELLS)
    every = [screens.polls[second][cell] for second in minute for cell in cells]
    yield "polls a second", thousands([sum(screens.polls[second]) for second in minute])
    yield "polls a second in a cell", f"{thousands(every)}, at most {thousands(every, max)}"
    issues = [screens.issues[second][cell] for second in minute for cell in cells]
    yield "codes issued a second in a cell", f"{thousands(issues)}, at most {thousands(issues, max)}"
    yield "live codes in a cell", f"{thousands(screens.codes, min)} to {thousands(screens.codes, max)}"

    screens.living.remove(CELLS - 1)
    screens.run(120)
    others = screens.living
    peak = max(screens.issues[second][cell] for second in range(60, 80) for cell in others)
    settled = [screens.polls[second][cell] for second in range(80, 120) for cell in others]
    calm = range(60, 120)
    worst = min(sum(screens.polls[second]) for second in calm)
    yield "codes lost with one cell", f"{thousands([screens.lost])}, {percent(screens.lost * SCALE, SCREENS)}"
    yield "codes issued a second in each other cell, at most", thousands([peak])
    yield "polls in the worst second", thousands([worst])
    yield "polls a second in each other cell, afterwards", thousands(settled)


def rows():
    yield from accounts()
    yield from load()


def main():
    for name, figure in rows():
        print(f"| {name} | {figure} |")


if __name__ == "__main__":
    main()
