"""The threat models and the tests agree."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "Sources" / "QRSessionService" / "QRSessionService.docc" / "QRThreatModel.md"


def titles():
    """What the tests claim: the titles of Swift tests, the first lines of Python ones."""
    found = set()
    for path in (ROOT / "Tests").rglob("*.swift"):
        found.update(re.findall(r'@Test\(\s*"([^"]+)"', path.read_text()))
    for path in (ROOT / "Tests" / "EndToEnd").rglob("test_*.py"):
        found.update(re.findall(r'^ *def test_.*\n *"""([^"\n]+)"""', path.read_text(), re.MULTILINE))
    return found


def test_rows_have_tests():
    """S1: every row of the threat model names tests that exist"""
    rows = re.findall(r"^\| (S\d+) \|(.*)\|([^|]*)\|$", DOCUMENT.read_text(), re.MULTILINE)
    assert [row for row, _, _ in rows] == [f"S{number}" for number in range(1, 31)]
    known = titles()
    for row, told, test in rows:
        assert len(told.split("|")) == 2 and all(part.strip() for part in told.split("|")), row
        title = test.strip()
        assert title in known, f"{row}: no test is called {title!r}"
        assert re.search(rf"\b{row}\b", title.split(":")[0]), f"{row}: {title!r} tries another row's attack"


@pytest.mark.parametrize("page, letter", [("IdentityThreats", "I"), ("MergeThreats", "M-"), ("WireThreats", "W")])
def test_other_models_name_tests(page, letter):
    """Every row of the threat models of identity, merges and the wire names a test that exists, and what is left"""
    text = (ROOT / "Sources" / "LatchkeyModel" / "LatchkeyModel.docc" / f"{page}.md").read_text()
    rows = re.findall(rf"^\| ({letter}\d+) \|(.*)\|([^|]*)\|$", text, re.MULTILINE)
    assert [row for row, _, _ in rows] == [f"{letter}{number}" for number in range(1, len(rows) + 1)] and len(rows) > 10
    known = titles()
    for row, told, test in rows:
        assert len(told.split("|")) == 3 and all(part.strip() for part in told.split("|")), row
        assert test.strip() in known, f"{row}: no test is called {test.strip()!r}"
