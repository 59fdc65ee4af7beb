"""Counts the instructions and allocations of a poll, under valgrind. Started by Tests/Benchmarks/run instructions.

Unlike times they come out nearly the same on any day: what changes them is the code. The counts are of the process, so
those of a short run are taken from those of a longer one. What a service does by the clock is counted with them, and is
more the longer a run takes: the least of three counts is taken, and a busy machine still says some per cent too much.
Where the processor's own instructions for SHA-256 are used, a poll takes some 1,800 fewer than valgrind, which has none,
counts.
"""

import argparse
import re
import subprocess

import loads
import machine
import polls
import servers

# More calls in one read take longer than a turn under valgrind, and only there: then it is turns that are counted.
SHAPES = [(1, 8), (50, 1)]
SHORT, LONG = 5_000, 25_000
ROUNDS = 3
# What valgrind's tools say at the end, and where.
TOOLS = {
    "callgrind": ("--callgrind-out-file=/dev/null", r"Collected : ([\d,]+)"),
    "dhat": ("--dhat-out-file=/dev/null", r"Total: .* in ([\d,]+) blocks"),
}


def strip():
    """Leaves the debug information out, of which not every valgrind knows all forms."""
    folder = machine.OUT / "stripped"
    folder.mkdir(exist_ok=True)
    subprocess.run(["strip", "-g", "-o", folder / "latchkey-qr", machine.RELEASE / "latchkey-qr"], check=True)
    machine.RELEASE = folder


def count(tool, shape, polls_sent):
    """What the tool counted of a service that was polled so often."""
    option, pattern = TOOLS[tool]
    server = servers.latchkey_qr(False, servers.fresh_directory("instructions"))
    server.under("valgrind", f"--tool={tool}", option)
    with server:
        # One after the other: under valgrind a service is so slow that it refuses some of many at once.
        codes = polls.issue_sessions(server, 100, connections=1, streams=1)
        loads.own("poll", server, "--in", codes, connections=shape[0], streams=shape[1], requests=polls_sent)
    found = re.search(pattern, server.log.read_text())
    if not found:
        raise SystemExit(f"instructions: {tool} said no count; see {server.log}")
    return int(found[1].replace(",", ""))


def least(tool, shape, polls_sent):
    return min(count(tool, shape, polls_sent) for _ in range(ROUNDS))


def main():
    argparse.ArgumentParser(prog="Tests/Benchmarks/run instructions", description=__doc__).parse_args()
    machine.pin_self()
    machine.OUT.mkdir(parents=True, exist_ok=True)
    strip()
    print(f"{'a poll at':>10} {'instructions':>13} {'allocations':>12}")
    for shape in SHAPES:
        each = [
            (least(tool, shape, LONG) - least(tool, shape, SHORT)) / (LONG - SHORT) for tool in TOOLS
        ]
        print(f"{shape[0]:>6}×{shape[1]:<3} {each[0]:>13,.0f} {each[1]:>12.2f}", flush=True)


if __name__ == "__main__":
    main()
