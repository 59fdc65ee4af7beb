"""README and the guides, followed to the letter."""

import re
import subprocess
import sys

import pytest

import guides
from world import UNTHROTTLED

# What is said where a processor or a disk is busy with other tests: some of a load is refused, or slow, and identity did not
# wait any longer for the migrator.
BUSY = ("OVERLOADED", "failed  p99>2s", "none in the built-in store", "as soon as the migrator can be reached")


@pytest.mark.sqlite
@pytest.mark.parametrize("page", [page for page in guides.PAGES if guides.blocks(page)], ids=lambda page: page.stem)
def test_commands_print_what_the_page_shows(page, binaries, tmp_path):
    """Every command block of README and of the guides runs, and prints what the page shows"""
    for attempt in range(3):
        wrong = differences(page, binaries, tmp_path / str(attempt))
        if not any(words in text for text in wrong for words in BUSY):
            break
    assert not wrong, "\n".join(wrong)


def differences(page, binaries, folder):
    """What a page's commands print otherwise than it shows."""
    folder.mkdir()
    wrong = []
    with guides.Reader(binaries, folder, arguments=UNTHROTTLED) as reader:
        for block, shown, printed in guides.follow(page, reader):
            for (command, old), (_, new) in zip(shown, printed, strict=True):
                if not guides.matches(old, new):
                    wrong.append("\n    ".join([f"{block}: $ {command}", "shows:", *old, "prints:", *new]))
    return wrong


def test_shapes_tell_answers_apart():
    """A page that shows other words than a command prints is noticed"""
    assert guides.matches(["You are signed in."], ["You are signed in."])
    assert not guides.matches(["You are signed in."], ["You are signed out."])
    assert not guides.matches(["one"], ["one", "two"])
    assert guides.matches(["one", "…", "three 3"], ["one", "two", "2", "three 4"])
    assert not guides.matches(["one", "…", "three"], ["one", "two"])
    assert guides.matches(["code WXKX-CJJT in 120 s"], ["code BCDF-GHJK in 119 s"])
    assert not guides.matches(["[exit 2]"], [])


def test_few_blocks_are_left_out():
    """A block that is not run says why, and there are few of them"""
    left_out = [block for page in guides.PAGES for block in guides.blocks(page) if block.reason]
    assert len(left_out) <= 8, [str(block) for block in left_out]


def test_every_reason_is_explained():
    """Every reason that a service gives is in the table of errors"""
    told = (guides.CATALOG / "Guides" / "Troubleshooting.md").read_text()
    given = set()
    for path in (guides.ROOT / "Sources").rglob("*.swift"):
        given.update(re.findall(r'reason: "(\w+)"', path.read_text()))
    assert len(given) > 80, "the reasons could not be read"
    assert not {reason for reason in given if f"`{reason}`" not in told}


def test_links_lead_somewhere():
    """No page links to a file or a guide that is not there"""
    dead = []
    for page in [*guides.ROOT.glob("*.md"), *(guides.ROOT / "Sources").rglob("*.md")]:
        text = page.read_text()
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            if not re.match(r"[a-z]+:", link) and not (page.parent / link).exists():
                dead.append(f"{page.relative_to(guides.ROOT)}: {link}")
        for link in re.findall(r"<doc:([\w-]+)>", text):
            if not list((guides.ROOT / "Sources").rglob(f"*.docc/**/{link}.md")):
                dead.append(f"{page.relative_to(guides.ROOT)}: <doc:{link}>")
    assert not dead, "\n".join(dead)


def test_documentation_renders(tmp_path):
    """The documentation becomes one site, and docc finds nothing to warn of"""
    finished = subprocess.run(
        [sys.executable, guides.ROOT / "Tests" / "Documentation" / "render", tmp_path / "site"], capture_output=True, text=True
    )
    assert finished.returncode == 0, finished.stderr
    pages = {path.stem for path in (tmp_path / "site" / "data").rglob("*.json")}
    assert {"firstlaunch", "authservice", "promises", "qrthreatmodel"} <= pages


def test_readme_is_short():
    """README stays a first page"""
    assert len((guides.ROOT / "README.md").read_bytes()) <= 7000


def test_names_of_code_exist():
    """Every member of DeviceClient and every method of a service that a page names is there"""
    client = "\n".join(path.read_text() for path in (guides.ROOT / "Sources" / "LatchkeyClient").rglob("*.swift"))
    protos = "\n".join(path.read_text() for path in (guides.ROOT / "proto" / "latchkey").rglob("*.proto"))
    for page in [*guides.PAGES, *guides.CATALOG.glob("*.md")]:
        for member in re.findall(r"`DeviceClient\.(\w+)", page.read_text()):
            assert re.search(rf"public (?:func|var|let) {member}\b", client), f"{page.name}: DeviceClient.{member}"
        for service, method in re.findall(r"`(\w+Service)\.(\w+)", page.read_text()):
            assert f"service {service} " in protos and f"rpc {method}(" in protos, f"{page.name}: {service}.{method}"


def test_swift_code_is_compiled():
    """Every line of Swift that README and the guides show is in a file that the unit tests compile"""
    compiled = {line.strip() for line in (guides.ROOT / "Tests/LatchkeyClientTests/DocumentedCode.swift").read_text().splitlines()}
    for page in guides.PAGES:
        for body in re.findall(r"^```swift\n(.*?)^```$", page.read_text(), re.M | re.S):
            missing = [line for line in body.splitlines() if line.strip() not in compiled]
            assert not missing, f"{page.name}: {missing}"
