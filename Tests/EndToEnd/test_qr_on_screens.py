"""Codes as a terminal shows them, read back from screenshots."""

import fcntl
import os
import pty
import struct
import subprocess
import termios

import pytest
import screen
from services import clean_environment

PAYLOAD = "https://login.example.test/q/1/Tz3Rb8esxhSLmmSc6Jm9ew"
DARK = ("-bg", "black", "-fg", "grey")
LIGHT = ("-bg", "white", "-fg", "black")


@pytest.fixture(scope="module")
def display(tmp_path_factory):
    with screen.display(tmp_path_factory.mktemp("display")) as shown:
        yield shown


@pytest.mark.parametrize("colours", [DARK, LIGHT], ids=["dark", "light"])
@pytest.mark.parametrize("size", [7, 8, 10, 12, 14, 17])
def test_code_on_screen(display, binaries, tmp_path, size, colours):
    """Q1: a code drawn in a terminal is read from its screen, at each size of letters, on dark and on light"""
    pixels, name = display
    drawn = [str(binaries / "latchkey"), "qr", "draw", PAYLOAD]
    shell = ["sh", "-c", '"$@"; sleep 60', "sh", *drawn]
    with screen.terminal(name, shell, "-fa", "DejaVu Sans Mono", "-fs", str(size), *colours):
        assert screen.wait_until(lambda: screen.codes(pixels, tmp_path) == [PAYLOAD]), "no code is read from the screen"


def drawn(binaries, columns, lines, payload=PAYLOAD):
    """What `qr draw` writes to a terminal of that size."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", lines, columns, 0, 0))
    process = subprocess.Popen(
        [str(binaries / "latchkey"), "qr", "draw", payload], stdin=theirs, stdout=theirs, stderr=theirs,
        env=clean_environment(),
    )  # fmt: skip
    os.close(theirs)
    written = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the last of the other end is closed
            break
        if not part:
            break
        written += part
    os.close(ours)
    assert process.wait(timeout=30) == 0
    return written.decode()


def test_code_on_narrow_screen(display, binaries, tmp_path):
    """Q1: forty columns hold a sign-in code, with a narrower border, and it is read from there"""
    pixels, name = display
    shell = ["sh", "-c", '"$@"; sleep 60', "sh", str(binaries / "latchkey"), "qr", "draw", PAYLOAD]
    with screen.terminal(name, shell, "-fa", "DejaVu Sans Mono", "-fs", "12", *DARK, geometry="40x24"):
        assert screen.wait_until(lambda: screen.codes(pixels, tmp_path) == [PAYLOAD]), "no code is read from the screen"


@pytest.mark.parametrize("columns, lines", [(36, 40), (80, 18), (1, 1)])
def test_code_that_does_not_fit(binaries, columns, lines):
    """Q1: a code that its terminal is too small for is not drawn in pieces: what it needs is said"""
    written = drawn(binaries, columns, lines)
    assert "\x1b" not in written and "█" not in written
    assert "needs 37 columns and 19 lines" in written
    assert f"has {columns} and {lines}" in written


def test_code_that_fits(binaries):
    """Q1: a code is drawn where its lines are no longer than the terminal's"""
    for columns, lines in [(37, 19), (80, 24)]:
        assert "█" in drawn(binaries, columns, lines)
