"""What storing records, merging them and taking a merge back cost two builds of the migrator, side by side.

    python Tests/Benchmarks/beside_merges.py OLD NEW [--records 1000] [--merges 3]

OLD and NEW are folders with the executables of the three services. Counted are the migrator's instructions between two
moments, by callgrind: they come out nearly the same on any day. A merge finds half of a guest's records in the account
already, with other values. Ends with status 1 if any step costs the new build more than 5 % more.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "EndToEnd"))

import conftest  # noqa: E402, F401  (makes the stubs)
import services  # noqa: E402
from beside import MOST, callgrind_instructions  # noqa: E402
from latchkey.identity.v1 import auth_service_pb2 as auth  # noqa: E402
from latchkey.migration.v1 import migration_service_pb2 as migration  # noqa: E402
from world import TRUSTING, UNTHROTTLED, World, record, unique_identifier  # noqa: E402

STEPS = ("put", "merge", "undo")


def executables(folder, counts, target):
    """A folder of the services in which the migrator runs under callgrind."""
    target.mkdir()
    for name in ("latchkey-identity", "latchkey-qr"):
        (target / name).symlink_to(folder / name)
    binary = counts / "latchkey-migrator"
    # Not every valgrind knows all forms of the debug information.
    subprocess.run(["strip", "-g", "-o", binary, folder / "latchkey-migrator"], check=True)
    wrapper = target / "latchkey-migrator"
    wrapper.write_text(
        f'#!/bin/sh\nexec valgrind --tool=callgrind --callgrind-out-file="{counts}/counts" "{binary}" "$@"\n'
    )  # fmt: skip
    wrapper.chmod(0o755)
    return target


class Build:
    """The services of one build over a folder of their own."""

    def __init__(self, folder, scratch):
        scratch.mkdir()
        self.counts = scratch / "counts"
        self.counts.mkdir()
        arguments = UNTHROTTLED | {"*": TRUSTING}
        binaries = executables(folder, self.counts, scratch / "executables")
        self.fleet = services.Fleet(binaries, scratch / "fleet", arguments=arguments)
        self.fleet.start(seconds=300)
        self.world = World(self.fleet)

    def instructions(self):
        return callgrind_instructions(self.fleet["migrator"].process.pid, self.counts)

    def measure(self, records):
        """Instructions a record of the guest's, by step."""
        world, identifier = self.world, unique_identifier()
        owner, guest = world.device(), world.device()
        owner.start_as_guest()
        owner.register(identifier)
        owner.put([record("cart", f"k{number}", b"account" * 20, 1) for number in range(records // 2)])
        guest.start_as_guest()
        rows = [record("cart", f"k{number}", b"guest" * 20, number) for number in range(records)]
        costs = {}
        self.instructions()
        guest.put(rows)
        costs["put"] = self.instructions() / records
        ticket = guest.authenticate(identifier).conflict.link_ticket
        merge = guest.choose(ticket, auth.ON_CONFLICT_MERGE).account_change.migration_id
        assert guest.watch_merge(merge, seconds=600)[-1].state == migration.MIGRATION_STATE_DONE
        costs["merge"] = self.instructions() / records
        world.migrations.UndoMigration(
            migration.UndoMigrationRequest(migration_id=merge), metadata=guest.metadata, timeout=60
        )
        assert guest.watch_merge(merge, seconds=600)[-1].state == migration.MIGRATION_STATE_UNDONE
        costs["undo"] = self.instructions() / records
        return costs

    def stop(self):
        self.world.close()
        self.fleet.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--merges", type=int, default=3)
    given = parser.parse_args()
    costs = []
    with tempfile.TemporaryDirectory() as scratch:
        for name, folder in (("old", given.old), ("new", given.new)):
            build = Build(folder.resolve(), pathlib.Path(scratch, name))
            try:
                # The first is a warm-up.
                rounds = [build.measure(given.records) for _ in range(given.merges + 1)][1:]
            finally:
                build.stop()
            costs.append({step: statistics.median(round[step] for round in rounds) for step in STEPS})
    print(f"{'instructions a record':<22} {'old':>10} {'new':>10} {'ratio':>7}")
    for step in STEPS:
        old, new = costs[0][step], costs[1][step]
        print(f"{step:<22} {old:>10,.0f} {new:>10,.0f} {new / old:>7.3f}")
    return 1 if any(costs[1][step] > MOST * costs[0][step] for step in STEPS) else 0


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main())
