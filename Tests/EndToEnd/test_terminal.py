"""The command-line tool at a terminal, in a pipe, and where nothing more can be written."""

import json
import os
import pty
import select
import signal
import subprocess
import termios
import time

import pytest
from services import clean_environment
from world import unique_identifier

PASSWORD = "a good long password\n"


def people(cli, world, profile, *words):
    """The command as a person types it, without --json."""
    return [word for word in cli.command(world, profile, *words) if word != "--json"]


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=clean_environment(), **options)


@pytest.mark.parametrize(
    "words", [["guest"], ["--help"], ["--version"], ["record", "list", "cart"], ["guest", "export"]], ids=" ".join
)
@pytest.mark.parametrize("form", ["people", "json"])
def test_full_output(world, cli, words, form):
    """G25: an answer that cannot be written is a failure with a status of its own, and said on standard error"""
    cli(world, "phone", "guest")
    cli(world, "phone", "record", "put", stdin='{"collection":"cart","key":"a","value":"1"}\n')
    command = cli.command(world, "phone", *words) if form == "json" else people(cli, world, "phone", *words)
    if words[0].startswith("--"):
        command = [str(cli.executable), *words]
    with open("/dev/full", "w") as full:
        finished = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, env=clean_environment()
        )
    assert finished.returncode == 74
    assert "cannot write to standard output: No space left on device" in finished.stderr


def silent_prompt(cli, world):
    """`latchkey login` at a terminal of its own, asking for the password; the process, the terminal's two ends"""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        people(cli, world, "phone", "login", unique_identifier()),
        stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment(),
    )  # fmt: skip
    assert process.stderr.readline() == b"Password:\n"
    end = time.monotonic() + 30
    while echoes(theirs):
        assert time.monotonic() < end and process.poll() is None, "the terminal goes on showing what is typed"
        time.sleep(0.01)
    return process, ours, theirs


def echoes(terminal):
    return bool(termios.tcgetattr(terminal)[3] & termios.ECHO)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_interrupted_prompt(world, cli, number):
    """G25: a prompt for a password that is interrupted leaves the terminal as it was, and dies of the signal"""
    process, ours, theirs = silent_prompt(cli, world)
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == -number and echoes(theirs)
    os.close(ours)
    os.close(theirs)


def test_typed_password(world, cli):
    """G25: a password that is typed is not shown, and the terminal shows again what comes after it"""
    process, ours, theirs = silent_prompt(cli, world)
    os.write(ours, b"not it at all\n")
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 77 and b"UNAUTHENTICATED" in stderr and echoes(theirs)
    shown = b""
    while select.select([ours], [], [], 0)[0]:
        shown += os.read(ours, 1024)
    assert b"not it" not in shown
    os.close(ours)
    os.close(theirs)


ESCAPES = "\x1b]0;pwned\x07\x9b2J\u202etxt\u2066\x7f\rline"


def test_escapes_of_others(world, cli):
    """S8: what somebody else wrote cannot steer the terminal: control characters are replaced, and escaped in JSON"""
    cli(world, "phone", "guest")
    row = {"collection": "cart", "key": "a", "value": ESCAPES + "\nsecond line"}
    cli(world, "phone", "record", "put", stdin=json.dumps(row) + "\n")
    for words in (["record", "get", "cart", "a"], ["record", "list", "cart"], ["guest", "export"]):
        for command in (cli.command(world, "phone", *words), people(cli, world, "phone", *words)):
            printed = run(command).stdout
            assert printed.count("\n") == len(printed.splitlines())
            assert all(character.isprintable() or character == "\n" for character in printed), repr(printed)
    assert cli(world, "phone", "record", "get", "cart", "a")["value"] == row["value"]
    failed = run([*people(cli, world, "phone", "record", "get", "cart"), ESCAPES])
    assert failed.returncode != 0 and all(character.isprintable() or character == "\n" for character in failed.stderr)


def test_tables(world, cli):
    """G25: a table's text stands at the left, its numbers at the right"""
    cli(world, "phone", "guest")
    rows = [{"collection": name, "key": str(key), "value": ""} for name in ("cart", "favourites") for key in range(12)]
    cli(world, "phone", "record", "put", stdin="".join(json.dumps(row) + "\n" for row in rows[:13]))
    printed = run(people(cli, world, "phone", "record", "collections")).stdout.splitlines()
    assert printed == [
        "collection  policy        records",
        "cart        sum                12",
        "favourites  union-by-key        1",
    ]


def test_one_document_a_line(world, cli):
    """Q2: qr issue --wait --json prints one document a line: the code, and then how it ended"""
    cli(world, "phone", "register", unique_identifier(), "--password-file", "-", stdin=PASSWORD)
    waiting = cli.start(world, "desktop", "qr", "issue", "--wait")
    offer = json.loads(waiting.stdout.readline())
    cli(world, "phone", "qr", "scan", offer["qr_payload"])
    cli(world, "phone", "qr", "confirm")
    end = waiting.communicate(timeout=60)[0].splitlines()
    assert [json.loads(line)["state"] for line in end] == ["signed-in"] and waiting.returncode == 0


def test_spent_ticket(world, cli):
    """Q2: a code whose end `qr status` has told is forgotten; one that is still open is not"""
    cli(world, "phone", "register", unique_identifier(), "--password-file", "-", stdin=PASSWORD)
    offer = cli(world, "desktop", "qr", "issue")
    assert cli(world, "desktop", "qr", "status")["state"] == "pending"
    cli(world, "phone", "qr", "scan", offer["qr_payload"])
    cli(world, "phone", "qr", "confirm")
    assert cli(world, "desktop", "qr", "status")["state"] == "signed-in"
    assert "shows no code" in cli(world, "desktop", "qr", "status", status=64)["error"]["message"]
    cli(world, "desktop", "qr", "issue")
    cli(world, "desktop", "qr", "cancel")
    cli(world, "desktop", "qr", "status", status=64)


@pytest.mark.parametrize(
    "words, named",
    [
        (["qr", "issue", "--amount", "1.00"], "--amount"),
        (["qr", "issue", "--currency", "EUR"], "--currency"),
        (["qr", "issue", "--reference", "7"], "--reference"),
        (["qr", "issue", "--wait", "--again"], "--again"),
        (["login", "ada", "--send-code", "--password-file", "-"], "--password-file"),
        (["login", "ada", "--code", "1", "--password-file", "-"], "--password-file"),
        (["login", "--device-key", "--password-file", "-"], "--password-file"),
        (["login", "--ticket", "t", "--on-conflict", "merge", "--password-file", "-"], "--password-file"),
        (["login", "ada", "--send-code", "--on-conflict", "merge"], "--on-conflict"),
        (["login", "ada", "--send-code", "--label", "x"], "--label"),
        (["admin", "keys", "rotate", "--certificate-key", "x"], "--certificate-key"),
        (["admin", "keys", "rotate", "--certificate", "x", "--service-token-file", "y"], "--service-token-file"),
        (["record", "list", "cart", "--limit", "-1"], "--limit"),
        (["migrate", "plan", "--policy", "cart=most"], "keep-target, keep-source"),
        (["migrate", "plan", "--policy", "cart=max", "--policy", "cart=sum"], "twice"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_flags_that_would_be_ignored(world, cli, words, named):
    """G25: a flag that would be ignored, or means nothing, is refused by its name"""
    finished = run(people(cli, world, "phone", *words))
    assert finished.returncode == 64 and named in finished.stderr, finished.stderr
