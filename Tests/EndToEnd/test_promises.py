"""The list of what Latchkey promises and the titles of the tests agree.

    .venv/bin/python Tests/EndToEnd/test_promises.py --missing    lists the promises that no test's title names
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = [
    ROOT / "Sources" / "LatchkeyModel" / "LatchkeyModel.docc" / "Promises.md",
    ROOT / "Sources" / "QRSessionService" / "QRSessionService.docc" / "QRThreatModel.md",
]
PROMISE = r"[CDGMPQRSU]\d+"


def promises():
    """Every id with a row, and the row's text."""
    found = {}
    for document in DOCUMENTS:
        for promise, text in re.findall(rf"^\| ({PROMISE}) \| ([^|]+)\|", document.read_text(), re.MULTILINE):
            assert promise not in found, f"{promise} has two rows"
            found[promise] = text.strip()
    return found


def named():
    """Every id that a title begins with, and the files with such titles."""
    found = {}
    for path in sorted((ROOT / "Tests").rglob("*")):
        if path.suffix == ".swift":
            titles = re.findall(r'@(?:Test|Suite)\(\s*"([^"]+)"', path.read_text())
        elif path.suffix == ".py":
            titles = re.findall(r'^ *(?:async )?def test_[^\n]*(?:\n[^\n]*)*?:\n *"""([^"\n]+)', path.read_text(), re.MULTILINE)
        else:
            continue
        for title in titles:
            if begins := re.match(rf"((?:{PROMISE}(?:, ?| and )?)+):", title):
                for promise in re.findall(PROMISE, begins[1]):
                    found.setdefault(promise, set()).add(path.relative_to(ROOT).as_posix())
    return found


def test_titles_name_promises_that_are_explained():
    """Every id in a test's title is explained in the documentation"""
    known = promises()
    assert len(known) > 150, "the documents' tables could not be read"
    titles = named()
    assert len(titles) > 100, "the tests' titles could not be read"
    unknown = {promise: sorted(paths) for promise, paths in titles.items() if promise not in known}
    assert not unknown, f"titles begin with ids that no document explains: {unknown}"


if __name__ == "__main__":
    if sys.argv[1:] != ["--missing"]:
        sys.exit(__doc__)
    titles = named()
    for promise, text in promises().items():
        if promise not in titles:
            print(f"{promise:4} {text}")
