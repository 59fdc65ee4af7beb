"""What `deploy/cluster/run` shows a person."""

import os
import pathlib
import re
import shutil
import subprocess

import history
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


def found(pattern, said):
    """What stands in a line of this form, which must be there."""
    match = re.search(rf"^ *{pattern}$", said, re.MULTILINE)
    assert match, f"nothing says {pattern}:\n{said}"
    return match.groups()


@pytest.mark.cluster
def test_demonstration(binaries, bar):
    """C4: who tries the installation that fails over reads that the story was played, who led and was killed, for how long nobody
    wrote, and that nothing was lost, and it leaves nothing running"""
    process = subprocess.Popen(
        [str(ROOT / "deploy" / "cluster" / "run"), "--kills", "1"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=os.environ | {"BINARIES": str(binaries.resolve())},
    )  # fmt: skip
    try:
        said, _ = process.communicate(timeout=400)
    finally:
        # Before its time it stops what it started.
        process.terminate()
        process.wait()
    print(said)
    assert process.returncode == 0
    (steps,) = found(r"all (\d+) steps are as they should be", said)
    killed, successor = found(r"1\. (pg\d) led and was killed; (pg\d) leads now\.", said)
    (gap,) = found(rf"writers' gap: ([\d.]+) s in the median, at most {history.GAP_BAR} s: (?:met|MISSED)", said)
    *writes, lost, doubled, stale = found(
        r"acknowledged writes: identity (\d+), migrator (\d+), qr (\d+); lost (\d+), doubled (\d+), stale (\d+)", said
    )
    redeemed, violations = found(
        r"sign-ins of `latchkey load`: (\d+) confirmed .* exactly once; lost or handed over twice (\d+); errors .*", said
    )
    found(r"All is as it must be\.", said)
    bar("steps of the story", int(steps), least=1)
    bar("writers' gap of one kill", float(gap), unit="s")
    bar("acknowledged writes of the service with fewest", min(map(int, writes)), least=1)
    bar("of what was acknowledged, lost", int(lost), most=0)
    bar("sign-ins of `latchkey load`", int(redeemed), least=1)
    assert int(steps) > 0 and killed != successor
    assert min(map(int, writes)) > 0 and int(redeemed) > 0
    assert {lost, doubled, stale, violations} == {"0"}
    (logs,) = found(r"Logs: (.+)", said)
    left = subprocess.run(["pgrep", "-f", logs], capture_output=True, text=True).stdout
    assert not left, left
    # They are of use to who looks for what went wrong.
    shutil.rmtree(logs)
