"""How the command-line tool looks: in colours or without, and in terminals of 40 columns."""

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading

import pytest
import services

import guides
from test_prompts import put, register
from test_terminal import PASSWORD, people
from world import unique_identifier

COMMAND = re.compile(r"\x1b\[1m(latchkey .*?)\x1b\[0m")


def shown(command, columns=40, lines=60, stdin=None, **environment):
    """What a command writes to a terminal of that size, with its escape sequences; nobody types anything."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=theirs, stderr=theirs, env=services.clean_environment() | {"TERM": "xterm"} | environment
    )  # fmt: skip
    os.close(theirs)
    process.stdin.write((stdin or "").encode())
    process.stdin.close()
    text = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:
            break
        if not part:
            break
        text += part
    os.close(ours)
    process.wait(timeout=60)
    return text.decode().replace("\r\n", "\n")


def too_wide(text, columns=40):
    """The lines that a terminal would break somewhere; commands to paste and ids are in one piece whatever its width."""
    text = COMMAND.sub("", text)
    wide = []
    for line in text.splitlines():
        # A live line begins anew behind each return.
        for part in line.split("\r"):
            plain = re.sub(r"\x1b\[[0-9;]*[mK]", "", part).rstrip()
            if len(plain) > columns and len(plain.split()) > 1 and not plain.startswith("{"):
                wide.append(plain)
    return wide


def test_nothing_wraps_at_40_columns(world, cli):
    """the commands that people use most break between words in a terminal of 40 columns, and tables become blocks"""
    name = register(world, cli, "owner")
    put(world, cli, "owner")
    cli(world, "phone", "guest")
    put(world, cli, "phone")
    lines = [
        (["guest", "start"], "tv", None),
        (["register", unique_identifier(), "--password-file", "-"], "tv", PASSWORD),
        (["session"], "tv", None),
        (["session", "list"], "tv", None),
        (["device", "list"], "tv", None),
        (["link"], "tv", None),
        (["record", "put"], "tv", '{"collection":"cart","key":"a","value":"1"}\n'),
        (["record", "collections"], "tv", None),
        (["login", name, "--password-file", "-"], "phone", PASSWORD),
        (["login", name, "--password-file", "-", "--on-conflict", "merge"], "phone", PASSWORD),
        (["migrate", "watch"], "phone", None),
        (["migrate", "list"], "phone", None),
        (["qr", "issue"], "desktop", None),
        (["qr", "scan", "--user-code", "BCDF-GHJK"], "tv", None),
        (["transfer", "create"], "tv", None),
        (["health"], "tv", None),
        (["config"], "tv", None),
        (["record", "list", "cart"], "nobody", None),
        (["recrod", "put"], "tv", None),
    ]
    for words, profile, stdin in lines:
        said = shown(people(cli, world, profile, *words), stdin=stdin)
        assert not too_wide(said), f"{words}: {too_wide(said)}"
        assert said.strip(), words


@pytest.mark.parametrize("columns", [40, 80])
def test_load_report_fits(world, cli, columns):
    """a load test's table has a line for each step, in the columns that the terminal has room for"""
    words = [str(cli.executable), "load", "--mode", "full", "--duration", "500ms", "--accounts", "1"]
    for name in ("identity", "qr"):
        words += [f"--{name}", world.fleet[name].address]
    said = shown(words, columns=columns)
    assert not too_wide(said, columns)
    rows = [line.split()[0] for line in said.splitlines() if line.startswith("  ") and " ms" in line]
    assert rows == ["flow", "flow,", "issue", "scan", "confirm", "redeem"], said


def test_scan_at_40_columns(world, cli):
    """what a scan asks to agree to is read to its end in a terminal of 40 columns"""
    register(world, cli)
    offer = cli(world, "desktop", "qr", "issue", "--label", "The television in the living room upstairs")
    said = shown(people(cli, world, "phone", "qr", "scan", offer["qr_payload"]))
    assert not too_wide(said), too_wide(said)
    assert "The television in the living room" in said and "qr confirm" in said


def test_code_that_does_not_fit(world, cli):
    """a code that a terminal has no room for is a sentence, with the letters to type instead"""
    said = shown(people(cli, world, "desktop", "qr", "issue"), columns=30)
    assert "█" not in said and "The code does not fit" in said and "No camera?" in said
    assert "█" in shown(people(cli, world, "desktop", "qr", "issue"), columns=80)


def test_wide_terminals_get_tables(world, cli):
    """a terminal with room for a table gets one"""
    cli(world, "phone", "guest")
    said = shown(people(cli, world, "phone", "health"), columns=100)
    assert re.search(r"service +address +state +answered in", said)


@pytest.mark.parametrize(
    "flags, environment, terminal, coloured",
    [
        ([], {}, True, True),
        ([], {"NO_COLOR": "1"}, True, False),
        ([], {"NO_COLOR": ""}, True, True),
        ([], {"TERM": "dumb"}, True, False),
        (["--color", "never"], {}, True, False),
        (["--color=always"], {"NO_COLOR": "1"}, True, True),
        ([], {}, False, False),
        (["--color=always"], {}, False, True),
    ],
)
def test_colours(world, cli, flags, environment, terminal, coloured):
    """colours come at a terminal, unless NO_COLOR or --color says otherwise; elsewhere they come when asked for"""
    command = [*people(cli, world, "nobody", "record", "list", "cart"), *flags]
    if terminal:
        said = shown(command, **environment)
    else:
        finished = subprocess.run(command, capture_output=True, text=True, env=services.clean_environment() | environment)
        said = finished.stdout + finished.stderr
    assert ("\x1b[1;31mlatchkey:\x1b[0m" in said) == coloured, said
    assert ("\x1b[" in said) == coloured and "nobody is signed in" in said


def test_colours_of_codes(cli):
    """a code without colours is drawn with letters alone"""
    draw = [str(cli.executable), "qr", "draw", "https://login.example"]
    assert "\x1b[" in shown(draw, columns=80)
    assert "\x1b[" not in shown([*draw, "--color", "never"], columns=80)


def test_marks_stay_within(world, cli):
    """what stands for colours within the tool reaches no script"""
    hint = cli(world, "nobody", "record", "list", "cart", status=77)["error"]["hint"]
    assert re.fullmatch(r"[ -~]+", hint), hint


def test_progress_of_a_put(world, cli, tmp_path):
    """at a terminal, storing says how far it is in a bar that fits; in a pipe it says nothing of it"""
    rows = "".join(json.dumps({"collection": "cart", "key": str(key), "value": "x"}) + "\n" for key in range(20_000))
    (tmp_path / "rows").write_text(rows)
    for columns in (40, 100):
        cli(world, f"phone-{columns}", "guest")
        command = people(cli, world, f"phone-{columns}", "record", "put", str(tmp_path / "rows"))
        said = shown(command, columns=columns)
        assert re.search(r"\d+ %.*[1-9]\d*000 records", said), said
        assert ("[####" in said or columns == 40) and not too_wide(said, columns)
        assert said.endswith("Records stored: 20000.\n")
    cli(world, "piped", "guest")
    piped = subprocess.run(people(cli, world, "piped", "record", "put", str(tmp_path / "rows")), capture_output=True, text=True)
    assert piped.stderr == "" and piped.stdout == "Records stored: 20000.\n"
    assert guides.shape(piped.stdout) == "Records stored: #"


@contextlib.contextmanager
def slowed(process):
    """While it lasts, the process works a fifth of the time: what shows how far it is has something to show."""
    done = threading.Event()

    def pulse():
        while not done.is_set():
            process.send_signal(signal.SIGSTOP)
            done.wait(0.08)
            process.send_signal(signal.SIGCONT)
            done.wait(0.02)

    thread = threading.Thread(target=pulse)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_progress_of_a_merge(world, cli, tmp_path):
    """at a terminal, following a merge shows in a bar that fits how far it is; in a pipe it says each state in a line"""
    rows = "".join(json.dumps({"collection": "cart", "key": str(key), "value": "x"}) + "\n" for key in range(15_000))
    (tmp_path / "rows").write_text(rows)
    for columns in (40, 100):
        # In 40 columns there is room for the numbers alone.
        bar = r"\[#+\.*\]  \d+ %  \d+ s left  \d+ records, apply  \d+ a second"
        line = r"\d+ %  \d+ s left  \d+ records, apply" if columns == 40 else bar
        # A merge may be over before it was looked at twice.
        for attempt in range(5):
            owner, phone = f"owner-{columns}-{attempt}", f"guest-{columns}-{attempt}"
            name = register(world, cli, owner)
            cli(world, phone, "guest")
            cli(world, phone, "record", "put", str(tmp_path / "rows"))
            with slowed(world.fleet["migrator"].process):
                cli(world, phone, "login", name, "--password-file", "-", "--on-conflict", "merge", stdin=PASSWORD)
                said = shown(people(cli, world, phone, "migrate", "watch"), columns=columns)
            assert not too_wide(said, columns), said
            if re.search(line, said):
                break
        else:
            raise AssertionError(said)
        piped = subprocess.run(people(cli, world, phone, "migrate", "watch"), capture_output=True, text=True)
        assert piped.returncode == 0 and piped.stderr == "" and "%" not in piped.stdout
