"""What is added often touches few files: Tests/Trials has one addition of each kind, as a patch.

`make trials` applies each, generates what follows from it, builds, and takes it away again.
"""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRIALS = ROOT / "Tests/Trials"
MOST_FILES = {"rpc": 3, "sign-in-method": 3, "merge-policy": 3, "configuration-key": 2}


def test_each_kind_has_its_trial():
    """There is a trial for each kind of addition, and no other"""
    assert {path.stem for path in TRIALS.iterdir()} == set(MOST_FILES)


@pytest.mark.parametrize("name", MOST_FILES)
def test_an_addition_is_small(name):
    """The trial's patch fits the code as it is, and touches no more files than the kind may, none of them generated"""
    patch = TRIALS / f"{name}.patch"
    touched = re.findall(r"^diff --git a/(\S+) b/\1$", patch.read_text(), re.MULTILINE)
    assert 0 < len(set(touched)) <= MOST_FILES[name], touched
    assert not [file for file in touched if "Generated" in file or not file.startswith(("Sources/", "proto/"))]
    applied = subprocess.run(["git", "apply", "--check", patch], cwd=ROOT, capture_output=True, text=True)
    assert applied.returncode == 0, applied.stderr
