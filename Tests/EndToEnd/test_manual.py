"""The command-line tool's manual pages."""

import re
import subprocess
import sys

import pytest

import guides


@pytest.fixture(scope="module")
def pages(binaries, tmp_path_factory):
    folder = tmp_path_factory.mktemp("manual")
    command = [sys.executable, guides.ROOT / "deploy" / "manual", folder, binaries / "latchkey"]
    written = subprocess.run(command, capture_output=True, text=True)
    assert written.returncode == 0, written.stderr
    return sorted(folder.glob("*.1"))


def test_manual_is_well_formed(pages):
    """mandoc has nothing to warn of in any page of the manual"""
    assert len(pages) > 15
    # Pages that one names are looked for in the working folder.
    command = ["mandoc", "-T", "lint", "-W", "style", *(page.name for page in pages)]
    checked = subprocess.run(command, cwd=pages[0].parent, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


def test_manual_shows_every_command(pages):
    """the manual says of each command what --help says: the tool's page names all, and an example stands as it is typed"""
    plain = {}
    for page in pages:
        shown = subprocess.run(["mandoc", "-T", "ascii", "-O", "width=200", page], capture_output=True, text=True).stdout
        # Bold letters are printed over themselves.
        plain[page.stem] = re.sub(".\x08", "", shown)
    for name in plain:
        assert f"{name}(1)" in plain["latchkey"] or name == "latchkey"
    assert "$ latchkey qr issue --profile desktop --no-draw --png code.png" in plain["latchkey-qr"]
    assert "--action-text" in plain["latchkey-qr"] and "What is to be agreed to" in plain["latchkey-qr"]
    assert "$ latchkey admin user disable ada@example.com" in plain["latchkey-admin"]
