"""Starts an installation of several machines' parts on one, uses it, kills the database's leader under load, and tells what
happened. Started by deploy/cluster/run, which says how."""

import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("Tests/Story", "Tests/EndToEnd", "Tests/EndToEnd/cluster")]

import stubs  # noqa: E402

stubs.generate()

import history  # noqa: E402
import installation  # noqa: E402
import people  # noqa: E402
import processes  # noqa: E402
import report  # noqa: E402
import services  # noqa: E402
import story  # noqa: E402

ARGUMENTS = {
    # Who puts the services under load does so from this machine alone.
    "*": ["--dev"],
    "migrator": [
        "--migration-collections",
        f"history=NEWEST,favourites=UNION_BY_KEY,cart=SUM,downloads=KEEP_TARGET:{story.DOWNLOADS_ALLOWED}",
    ],
}
# Sign-ins by QR code in a second, beside the people whose history is kept.
RATE = 10


def read_options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1, help="how often the leader is killed")
    parser.add_argument("--seconds", type=float, default=5, help="of load before each kill and after the last one")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--etcd", type=int, choices=(1, 3), default=1, help="members of etcd; on one machine one is enough")
    return parser.parse_args()


class Load:
    """`latchkey load` beside everything else: sign-ins by QR code, each of which is handed over exactly once."""

    def __init__(self, place, seconds):
        self.path = place.folder / "load.json"
        addresses = [f"--{name}={place.front[name].address}" for name in ("identity", "qr")]
        words = ["--mode", "full", "--rate", RATE, "--duration", f"{seconds:.0f}s", "--json", self.path, "--fail-if", "errors>100%"]
        self.process = processes.Process(
            "latchkey load", [place.fleet.binaries / "latchkey", "load", *words, *addresses], place.folder / "load.log",
            environment={"HOME": os.environ.get("HOME", "/")},
        )  # fmt: skip

    def result(self):
        """Ended before its time, it reports of the time until then."""
        self.process.stop(seconds=120)
        try:
            return json.loads(self.path.read_text())
        except (OSError, ValueError):
            raise processes.StartError(f"latchkey load said nothing:\n{self.process.log_tail()}") from None


def strike(place, crowd):
    """Kills the leader, and returns once another one leads, all write again and the old one follows."""
    node, moment = place.database.kill_leader()
    crowd.wait_for_writes(10)
    successor = place.database.leader()
    place.database.wait_until_whole()
    whole = time.monotonic() - moment
    return report.Failover(node.name, successor.name, int(moment * history.SECOND), whole)


def use(place, options):
    """The load with the kills in it: (history, failovers, what `latchkey load` says)."""
    load, crowd, failovers = Load(place, 3600), people.Crowd(place.front, options.seed), []
    try:
        with crowd:
            for _ in range(options.kills):
                crowd.wait_for_writes(10)
                time.sleep(options.seconds)
                failovers.append(strike(place, crowd))
            time.sleep(options.seconds)
    finally:
        load_result = load.result()
    with report.step("Everything that was acknowledged is looked at again") as step:
        crowd.verify()
        step.says(f"{len(crowd.history)} calls were noted")
    return crowd.history, failovers, load_result


def play(place, options):
    """The whole; true when all was as it must be."""
    report.heading("The installation")
    with report.step("Three PostgreSQL under Patroni, etcd, two instances of each service, HAProxy") as step:
        place.start()
        report.parts(place)
        step.says("ready")
    report.heading("The story, through the balancer")
    told = story.Story(place.front, place.fleet.binaries / "latchkey", place.folder)
    told.play()
    print(f"\n  all {told.steps} steps are as they should be")
    report.heading(f"A load, and the leader killed in it (seed {options.seed})")
    found, failovers, load_result = use(place, options)
    return report.tell(found, failovers, load_result)


def main():
    options = read_options()
    binaries = pathlib.Path(os.environ.get("BINARIES", ROOT / ".build" / "release")).resolve()
    folder = ROOT / ".latchkey" / time.strftime("cluster-%Y%m%d-%H%M%S")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if not (binaries / "latchkey-identity").exists():
        sys.exit(f"{binaries}: no executables are there")
    is_good = False
    place = None
    try:
        place = installation.Installation(binaries, folder, ARGUMENTS, etcd_members=options.etcd)
        is_good = play(place, options)
    except KeyboardInterrupt:
        print("\nstopped")
    except (story.StoryError, services.StartError, processes.StartError, people.Stranded, subprocess.SubprocessError) as error:
        print(f"\nThe run failed: {error}", file=sys.stderr)
    finally:
        statuses = place.stop() if place else {}
        if any(statuses.values()):
            print(f"A service did not stop as it should: {statuses}", file=sys.stderr)
            is_good = False
    print(f"\nLogs: {folder}")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
