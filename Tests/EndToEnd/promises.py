"""Which promises, such as C4 or S5, the tests that ran are about, and how these ended.

A test is about the promises whose ids its title begins with. The unit tests, and each run of pytest, add theirs to the file
$PROMISES, so that a run of several parts can be looked at as a whole: `Tests/Tools/promises`.
"""

import collections
import json
import os
import re

FILE = "PROMISES"


def ids(title):
    """Those that a title begins with."""
    begins = re.match(r"((?:[A-Z]\d+(?:, ?| and )?)+):", title)
    return re.findall(r"[A-Z]\d+", begins[1]) if begins else []


def outcome(reports):
    """Of one test, of which there are up to three reports: its start, its own and its end."""
    outcomes = [report.outcome for report in reports]
    return next((said for said in ("failed", "skipped") if said in outcomes), "passed")


def note(title, test, ended):
    """Adds a test to the file, if there is one."""
    if (path := os.environ.get(FILE)) and ids(title):
        with open(path, "a") as file:
            file.write(json.dumps({"title": title, "test": test, "outcome": ended}) + "\n")


def counted(tests):
    """{id: {outcome: how many}} of pairs of a title and an outcome, in order."""
    found = collections.defaultdict(collections.Counter)
    for title, ended in tests:
        for promise in ids(title):
            found[promise][ended] += 1
    return dict(sorted(found.items(), key=lambda pair: (pair[0][0], int(pair[0][1:]))))


def said(outcomes):
    return ", ".join(f"{count} {ended}" for ended, count in sorted(outcomes.items()))
