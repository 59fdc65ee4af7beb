"""A terminal that can be looked at: xterm on a display of its own, and what stands on it as a picture."""

import contextlib
import os
import pathlib
import select
import struct
import subprocess
import time

from services import clean_environment


@contextlib.contextmanager
def display(directory, width=1280, height=1024):
    """An X server that draws into memory; the file of its pixels, and what it is called.

    It does not reset when its last client leaves: while it does, the next one finds no display.
    """
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    reader, writer = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(writer), "-screen", "0", f"{width}x{height}x24", "-fbdir", str(directory),
         "-nolisten", "tcp", "-noreset"],
        pass_fds=[writer], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(writer)
    try:
        assert select.select([reader], [], [], 60)[0], "the X server does not start"
        number = os.read(reader, 16).decode().strip()
        assert number, "the X server ended"
        yield directory / "Xvfb_screen0", f":{number}"
    finally:
        os.close(reader)
        server.terminate()
        server.wait()


def picture(pixels):
    """The screen as a grey picture (PGM), of the X window dump that the server keeps."""
    data = pathlib.Path(pixels).read_bytes()
    size, version, _, _, width, height = struct.unpack(">6I", data[:24])
    assert version == 7
    (line,) = struct.unpack(">I", data[48:52])
    (colours,) = struct.unpack(">I", data[76:80])
    rows = data[size + 12 * colours :]
    # Four bytes a pixel; black and white are the same in each of them, so that one of them says it all.
    grey = b"".join(rows[line * row : line * row + 4 * width : 4] for row in range(height))
    return b"P5\n%d %d\n255\n" % (width, height) + grey


@contextlib.contextmanager
def terminal(name, command, *options, geometry="90x32"):
    """xterm on that display, with `command` run in it; it stays until the end."""
    process = subprocess.Popen(
        ["xterm", *options, "-geometry", f"{geometry}+0+0", "-e", *command],
        env=clean_environment() | {"DISPLAY": name, "LANG": "C.UTF-8"}, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def codes(pixels, directory):
    """What zbarimg reads from the screen, as a phone's camera would."""
    path = pathlib.Path(directory) / "screen.pgm"
    path.write_bytes(picture(pixels))
    read = subprocess.run(["zbarimg", "-q", "--raw", str(path)], capture_output=True, text=True)
    return read.stdout.splitlines()


def wait_until(is_so, seconds=60):
    """Looks again and again; whether it became so."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if is_so():
            return True
        time.sleep(0.1)
    return False
