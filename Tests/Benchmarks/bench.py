"""Measures the services against their peers and their bars. Started by Tests/Benchmarks/run, which builds first.

Every server is pinned to one core and its load to another. Figures are of the steady middle of each run, CPU time is
the scheduler's own count, and comparisons are medians of ratios within one round, so that a busy machine disturbs both
sides alike.
"""

import argparse
import signal
import sys
import time

import accounts
import engines
import identity
import idle
import machine
import polls
import report
import standby

PARTS = {
    "poll": polls, "idle": idle, "identity": identity, "accounts": accounts, "engines": engines, "standby": standby,
}  # fmt: skip


def shape(text):
    connections, _, streams = text.partition("x")
    pair = (int(connections), int(streams))
    if pair not in polls.SHAPES:
        raise argparse.ArgumentTypeError(f"is none of {', '.join(f'{c}x{s}' for c, s in polls.SHAPES)}")
    return pair


def arguments():
    parser = argparse.ArgumentParser(prog="Tests/Benchmarks/run", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="these parts; default: all")
    parser.add_argument("--report", action="store_true", help="measure nothing: show what results.json holds")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds; default: 5")
    parser.add_argument(
        "--sessions", type=int, default=1_000_000, help="live QR sessions while polling; default: 1,000,000"
    )
    parser.add_argument("--shapes", nargs="+", type=shape, default=list(polls.SHAPES), help="such as 50x100 500x1")
    parser.add_argument("--idle", type=int, default=14_000, help="idle TLS connections; default: 14,000")
    parser.add_argument(
        "--accounts", type=int, default=1_000_000, help="accounts that a sign-in is measured with; default: 1,000,000"
    )
    parser.add_argument("--tls", choices=["both", "on", "off"], default="both")
    options = parser.parse_args()
    options.modes = {"both": [False, True], "on": [True], "off": [False]}[options.tls]
    return options


def main():
    options = arguments()
    # However it is ended, the servers end with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    machine.pin_self()
    machine.OUT.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    measured = report.Results()
    if not options.report:
        for name in options.only:
            PARTS[name].run(options, measured)
            # Whatever becomes of the parts after it, this one is kept.
            measured.with_others().write()
    results = measured.with_others()
    pictures = report.draw_polls(results)
    report.print_table(results)
    idle.table(results)
    report.print_bars([bar for part in PARTS.values() for bar in part.bars(results)])
    print(f"\n{time.monotonic() - began:.0f} s; written to {machine.OUT}: results.json, bars.md, "
          f"{', '.join(path.name for path in pictures)}")  # fmt: skip


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
