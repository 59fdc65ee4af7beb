"""What the command-line tool says and asks at a terminal, and the commands that it offers to paste."""

import json
import os
import pty
import re
import select
import shlex
import subprocess
import time

import pytest
from services import clean_environment
from test_terminal import PASSWORD, echoes, people, run
from waiting import eventually
from world import unique_identifier


class Terminal:
    """A command at a terminal of its own."""

    def __init__(self, command):
        self.ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=clean_environment() | {"NO_COLOR": "1"}
        )
        os.close(theirs)
        self.text = ""

    def until(self, words, seconds=30):
        """Reads up to the words, and gives what is new."""
        end = time.monotonic() + seconds
        start = len(self.text)
        while words not in self.text[start:]:
            assert time.monotonic() < end, f"{words!r} does not come: {self.text!r}"
            if select.select([self.ours], [], [], 0.1)[0]:
                try:
                    self.text += os.read(self.ours, 4096).decode(errors="replace")
                except OSError:
                    assert words in self.text[start:], f"{words!r} does not come: {self.text!r}"
        return self.text[start:]

    def until_silent(self, prompt):
        """Reads up to the prompt, and waits until what is typed is not shown."""
        self.until(prompt)
        eventually(lambda: not echoes(self.ours), "the terminal goes on showing what is typed")

    def type(self, line):
        os.write(self.ours, f"{line}\n".encode())

    def end(self):
        """The exit status, and all that was shown."""
        while True:
            try:
                part = os.read(self.ours, 4096)
            except OSError:
                break
            if not part:
                break
            self.text += part.decode(errors="replace")
        os.close(self.ours)
        return self.process.wait(timeout=30), self.text


def offered(cli, text):
    """The commands that a text offers, each as words to run."""
    lines = re.findall(r"latchkey (?:qr|login|migrate|guest|register|session|health|device) .*", text)
    return [[str(cli.executable), *shlex.split(line)[1:]] for line in lines]


def register(world, cli, profile="phone"):
    name = unique_identifier()
    cli(world, profile, "register", name, "--password-file", "-", stdin=PASSWORD)
    return name


def put(world, cli, profile, rows=1):
    text = "".join(json.dumps({"collection": "cart", "key": str(key), "value": "x"}) + "\n" for key in range(rows))
    cli(world, profile, "record", "put", stdin=text)


def test_scan_offers_commands(world, cli):
    """the commands that qr scan offers work as they stand: for the same profile, and the same services"""
    register(world, cli)
    for verb, state in (("confirm", "signed-in"), ("deny", "denied")):
        offer = cli(world, "desktop", "qr", "issue")
        said = run(people(cli, world, "phone", "qr", "scan", offer["qr_payload"])).stdout
        command = next(command for command in offered(cli, said) if verb in command)
        assert run(command).returncode == 0
        assert cli(world, "desktop", "qr", "wait", status=0 if verb == "confirm" else 2)["state"] == state


def test_conflict_offers_both_choices(world, cli):
    """a conflict offers a command for each choice, and either works as it stands"""
    for choice in ("merge", "switch"):
        name = register(world, cli, f"old-{choice}")
        profile = f"new-{choice}"
        cli(world, profile, "guest")
        put(world, cli, profile)
        conflict = run(people(cli, world, profile, "login", name, "--password-file", "-"), input=PASSWORD)
        assert conflict.returncode == 2
        command = next(command for command in offered(cli, conflict.stdout) if choice in command)
        assert run(command).returncode == 0
        assert cli(world, profile, "session")["state"] == "user"


def test_hints_of_failures(world, cli):
    """a failure's hint names commands for the same profile"""
    failed = run(people(cli, world, "nobody", "record", "list", "cart"))
    assert failed.returncode == 77
    assert "--profile nobody" in failed.stderr and f"--state-dir {cli.state_directory}" in failed.stderr


def test_profile_of_the_environment(world, cli):
    """LATCHKEY_PROFILE names the profile, and --profile wins"""
    for variable, flags, used in (("tv", [], "tv"), ("tv", ["--profile", "phone"], "phone"), ("", [], "default")):
        finished = subprocess.run(
            [str(cli.executable), "config", "--json", "--state-dir", str(cli.state_directory), *flags],
            capture_output=True, text=True, env=clean_environment() | {"LATCHKEY_PROFILE": variable},
        )  # fmt: skip
        assert json.loads(finished.stdout)["profile_directory"].endswith(f"/{used}")


@pytest.mark.parametrize("answer, status, guests", [("n", 2, 1), ("", 2, 1), ("y", 0, 0)])
def test_deletes_are_asked_about(world, cli, answer, status, guests):
    """what cannot be taken back is asked about at a terminal, and only a yes does it"""
    cli(world, "phone", "guest")
    terminal = Terminal(people(cli, world, "phone", "guest", "delete"))
    terminal.until("[y/N]")
    terminal.type(answer)
    assert terminal.end()[0] == status
    assert cli(world, "phone", "session")["state"] == ("guest" if guests else "unknown")


def test_an_account_is_deleted_after_a_question(world, cli, tmp_path):
    """an account is deleted after a yes at a terminal, and by a script that says --yes alone"""
    register(world, cli)
    (tmp_path / "password").write_text(PASSWORD)
    words = ["account", "delete", "--password-file", str(tmp_path / "password")]
    for answer, state in (("n", "user"), ("y", "unknown")):
        terminal = Terminal(people(cli, world, "phone", *words))
        terminal.until("[y/N]")
        terminal.type(answer)
        assert terminal.end()[0] == (2 if answer == "n" else 0)
        assert cli(world, "phone", "session")["state"] == state
    register(world, cli, "other")
    refused = run(people(cli, world, "other", *words))
    assert refused.returncode == 64 and "--yes" in refused.stderr
    assert cli(world, "other", "account", "delete", "--yes", "--password-file", str(tmp_path / "password"))["deleted"]


def test_a_record_and_a_user_are_deleted_after_a_question(world, cli):
    """a record, and somebody whom an administrator deletes, go after a yes alone where somebody sits at a terminal"""
    sub = cli(world, "phone", "guest")["session"]["sub"]
    put(world, cli, "phone")
    secret = ["--service-token-file", str(world.fleet.data_directory / "service-token")]
    for words in (["record", "delete", "cart", "0"], ["admin", "user", "delete", *secret, "--", sub]):
        command = people(cli, world, "phone", *words)
        if "--" in words:
            # What follows it is no flag.
            command = [command[0], *words[:-2], *command[1 + len(words) :], *words[-2:]]
        terminal = Terminal(command)
        terminal.until("[y/N]")
        terminal.type("n")
        assert terminal.end()[0] == 2
    assert cli(world, "phone", "record", "get", "cart", "0")["value"] == "x"


def test_switching_says_where_the_data_is(world, cli):
    """who leaves a guest's data behind is told so, with the command that takes it along after all"""
    name = register(world, cli, "old")
    cli(world, "new", "guest")
    put(world, cli, "new")
    words = ["login", name, "--password-file", "-", "--on-conflict", "switch"]
    said = run(people(cli, world, "new", *words), input=PASSWORD).stdout
    command = next(command for command in offered(cli, said) if "plan" in command)
    assert run(command).returncode == 0


def test_yes_asks_nothing(world, cli):
    """--yes deletes without a question"""
    cli(world, "phone", "guest")
    status, text = Terminal(people(cli, world, "phone", "guest", "delete", "--yes")).end()
    assert status == 0 and "[y/N]" not in text


def test_scan_asks(world, cli):
    """qr scan asks at a terminal whether to agree: a yes signs the screen in, anything else refuses"""
    register(world, cli)
    for answer, state in (("y", "signed-in"), ("", "denied")):
        offer = cli(world, "desktop", "qr", "issue")
        terminal = Terminal(people(cli, world, "phone", "qr", "scan", offer["qr_payload"]))
        terminal.until("Agree? [y/N]")
        terminal.type(answer)
        assert terminal.end()[0] == (0 if answer else 2)
        assert cli(world, "desktop", "qr", "wait", status=0 if answer else 2)["state"] == state


def test_conflict_asks(world, cli):
    """a conflict asks at a terminal what becomes of the guest's data"""
    name = register(world, cli, "old")
    cli(world, "new", "guest")
    put(world, cli, "new")
    terminal = Terminal(people(cli, world, "new", "login", name))
    terminal.until_silent("Password:")
    terminal.type(PASSWORD.strip())
    terminal.until("[merge/switch]")
    terminal.type("m")
    status, text = terminal.end()
    assert status == 0
    # A merge that the migrator was late for begins by itself, and the profile has not been told of it.
    late = "will follow" in text and eventually(lambda: cli(world, "new", "migrate", "list")["merges"])
    assert cli(world, "new", "migrate", "watch", *(merge["migration_id"] for merge in late or []))["state"] == "done"


@pytest.mark.parametrize("again, status", [("a good long password", 0), ("a good long passwort", 65)])
def test_new_password_is_typed_twice(world, cli, again, status):
    """a password that is being chosen is typed twice, and both have to be the same"""
    terminal = Terminal(people(cli, world, "phone", "register", unique_identifier()))
    for prompt, typed in (("Password:", "a good long password"), ("The same again:", again)):
        terminal.until_silent(prompt)
        terminal.type(typed)
    ended, text = terminal.end()
    assert ended == status and "good long" not in text


def test_a_changed_password_is_typed_twice(world, cli):
    """the password that takes another's place is typed twice as well"""
    register(world, cli)
    terminal = Terminal(people(cli, world, "phone", "account", "password"))
    for prompt, typed in (("Password:", PASSWORD.strip()), ("New password:", "a better password"), ("The same again:", "a bitter one")):
        terminal.until_silent(prompt)
        terminal.type(typed)
    assert terminal.end()[0] == 65


def test_refusing_too_late_is_said_truly(world, cli):
    """a scan that was not decided about in time says so to confirm and to deny, and not that there is no such code"""
    register(world, cli)
    for verb in ("confirm", "deny"):
        offer = cli(world, "desktop", "qr", "issue")
        cli(world, "phone", "qr", "scan", offer["qr_payload"])
        cli(world, "desktop", "qr", "cancel")
        # The device's own clock says that the time is over.
        note = cli.state_directory / "phone" / "qr-scan"
        note.write_text(json.dumps(json.loads(note.read_text()) | {"end": 1}))
        said = cli(world, "phone", "qr", verb, status=1)["error"]["message"]
        assert "the time to agree is over" in said


@pytest.mark.parametrize("words", [["guest", "delete"], ["migrate", "plan"]], ids=" ".join)
def test_no_guest_is_not_nobody(world, cli, words):
    """what takes a guest says so to an account, and not that nobody is signed in"""
    register(world, cli)
    message = cli(world, "phone", *words, status=1)["error"]["message"]
    assert "an account uses this profile" in message


def test_session_says_who(world, cli):
    """session show says who, how, since and until when, and where"""
    register(world, cli)
    said = run(people(cli, world, "phone", "session")).stdout
    for words in ("An account uses", "who ", "how ", "password", "since ", "until ", "in 1 month", "where ", "identity at"):
        assert words in said, said
    assert "just now" in run(people(cli, world, "phone", "session", "list")).stdout


def test_put_that_fails_midway(world, cli):
    """storing that fails midway says what the limit is and how much was stored before"""
    cli(world, "phone", "guest")
    text = "".join(json.dumps({"collection": "cart", "key": str(key), "value": "x"}) + "\n" for key in range(20_500))
    failed = run(people(cli, world, "phone", "record", "put"), input=text)
    assert failed.returncode != 0 and "20000" in failed.stderr.replace(",", ""), failed.stderr
    assert "10000 records were stored before" in failed.stderr or "20000 records were stored before" in failed.stderr


@pytest.mark.parametrize(
    "words, meant",
    [(["gest"], "latchkey guest"), (["recrod", "put"], "latchkey record"), (["qr", "isue"], "latchkey qr issue")],
    ids=" ".join,
)
def test_suggestions(cli, words, meant):
    """a command that there is not is answered with the one that was probably meant"""
    finished = run([str(cli.executable), *words])
    assert finished.returncode == 64 and f'did you mean "{meant}"?' in finished.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions(cli, shell):
    """completions come for each shell, and bash takes its own"""
    script = run([str(cli.executable), "completions", shell]).stdout
    assert "guest" in script and "latchkey" in script
    if shell == "bash":
        checked = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True)
        assert checked.returncode == 0, checked.stderr


def test_help_is_grouped(cli):
    """help names the commands in groups"""
    said = run([str(cli.executable), "--help"]).stdout
    for group in ("BEGIN", "SIGN IN BY CODE", "WHAT IS YOURS", "RUN AN INSTALLATION"):
        assert group in said.upper()
