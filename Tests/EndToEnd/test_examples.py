"""The examples in each command's help, run as they stand against real services."""

import json
import os
import pathlib
import re
import secrets
import shutil
import subprocess

import postgresql
import pytest
import services

import guides
from world import UNTHROTTLED

# What stands before an example: somebody with an account on this device, unless the command is named here.
ACCOUNT = "latchkey guest; latchkey register ada@example.com --password-file password"
# A code that the desktop shows, and this device's look at it.
SHOWN = f"{ACCOUNT}; latchkey qr issue --profile desktop --json >offer; PAYLOAD=$(get qr_payload <offer)"
SCANNED = f'{SHOWN}; latchkey qr scan "$PAYLOAD"'
# A code that moves this device to another.
MOVING = f"{ACCOUNT}; latchkey transfer create --json >offer; CODE=$(get code <offer); TRANSFER=$(get transfer_id <offer)"
# The account on a tablet whose guest's records were left behind, and a merge of them.
LEFT = (
    "latchkey register ada@example.com --password-file password --profile phone; latchkey record put records.jsonl --profile phone;"
    "latchkey guest; latchkey record put more-records.jsonl;"
    "latchkey login ada@example.com --password-file password --on-conflict switch"
)
PLANNED = f"{LEFT}; latchkey migrate plan --policy cart=ask"
MERGED = f"{PLANNED}; latchkey migrate start; latchkey migrate watch"
SECOND = f"{ACCOUNT}; latchkey login ada@example.com --password-file password --profile tablet"
VERIFIED = f"{ACCOUNT}; latchkey account verify ada@example.com; latchkey account verify ada@example.com --code $(sent)"
WRITTEN = "latchkey admin guides set guides.json"
APPLIED = "latchkey admin schema apply --to $DATABASE --database-password-file database-password"
PREPARED = {
    "": "true",
    "account recover": VERIFIED,
    "admin policies set": "latchkey admin policies gate comment --no-login; latchkey admin policies get | raised >policies.json",
    "admin audit list": f"{ACCOUNT}; SUBJECT=$(latchkey session --json | get session sub)",
    "admin export": f"{ACCOUNT}; {APPLIED}",
    "admin schema": APPLIED,
    "admin schema status": APPLIED,
    "admin user delete": f"{ACCOUNT}; SUBJECT=$(latchkey session --json | get session sub)",
    "device remove": f"{SECOND}; DEVICE=$(latchkey device list --json | get devices 0 key_thumbprint)",
    "device rename": f"{ACCOUNT}; DEVICE=$(latchkey device list --json | get devices 0 key_thumbprint)",
    "device resolve-clone": "latchkey guest; cp -r $XDG_STATE_HOME/latchkey/default $XDG_STATE_HOME/latchkey/copy;"
    "latchkey guest; latchkey guest --profile copy || latchkey guest || true",
    "guest": "latchkey guest --profile phone",
    "guest export": "latchkey guest",
    "guide": f"{WRITTEN}; {ACCOUNT}",
    "guide report": f"{WRITTEN}; {ACCOUNT}; latchkey guide report first-steps search shown",
    "link remove": f"{ACCOUNT}; latchkey link add ada@example.org --password-file password;"
    "IDENTITY=$(latchkey link list --json | get identities 1 identity_id)",
    "load compare": "latchkey load --mode poll --duration 500ms --json before.json; cp before.json after.json",
    "login": f"{VERIFIED}; latchkey logout",
    "migrate": LEFT,
    "migrate plan": LEFT,
    "migrate start": PLANNED,
    "migrate status": MERGED,
    "migrate watch": MERGED,
    "migrate list": MERGED,
    "migrate undo": MERGED,
    "migrate conflicts": MERGED,
    "migrate resolve": MERGED,
    "qr": ACCOUNT,
    "qr wait": f"{SCANNED}; latchkey qr confirm",
    "qr watch": f"{SCANNED}; latchkey qr deny",
    "qr status": SHOWN,
    "qr cancel": SHOWN,
    "qr scan": f"{SHOWN}; LETTERS=$(latchkey qr issue --profile tv --json | get user_code)",
    "qr confirm": SCANNED,
    "qr deny": SCANNED,
    "record": "latchkey guest; latchkey record put records.jsonl",
    "register": "latchkey guest",
    "session confirm": f"{SCANNED}; latchkey qr confirm; latchkey qr wait --profile desktop;"
    "SESSION=$(latchkey session --profile desktop --json | get session sid)",
    "session end": f"{SECOND}; SESSION=$(latchkey session --profile tablet --json | get session sid)",
    "transfer": ACCOUNT,
    "transfer inspect": MOVING,
    "transfer redeem": MOVING,
    "transfer cancel": MOVING,
}

# What a script begins with. `get` finds a value of a JSON document, `sent` is the code that was sent since it was last asked,
# for which it waits, and `raised` gives a document its next version.
FUNCTIONS = r"""
set -e -o pipefail
get() { python3 -c 'import json, sys
value = json.load(sys.stdin)
for name in sys.argv[1:]: value = value[int(name) if name.isdigit() else name]
print(value)' "$@"; }
codes() { cat "$LATCHKEY_DATA_DIR/otp-outbox.jsonl" 2>/dev/null | grep '"code"' || true; }
codes | wc -l >"$HOME/codes-taken"
sent() {
  for ((i = 0; i < 300 && $(codes | wc -l) <= $(<"$HOME/codes-taken"); i++)); do sleep 0.1; done
  codes | wc -l >"$HOME/codes-taken"
  codes | tail -n 1 | get code
}
raised() { python3 -c 'import json, sys
document = json.load(sys.stdin)
print(json.dumps(document | {"version": document["version"] + 1}))'; }
"""


def discussions():
    """{the command's words: what its help says at length}, for every command that there is"""
    executable = pathlib.Path(os.environ.get("BINARIES", guides.ROOT / ".build" / "debug")) / "latchkey"
    if not executable.exists():
        return {}
    dump = subprocess.run([executable, "--experimental-dump-help"], capture_output=True, check=True).stdout
    found = {}

    def visit(command, words):
        found[" ".join(words)] = command.get("discussion", "")
        for child in command.get("subcommands", []):
            if child["commandName"] != "help":
                visit(child, [*words, child["commandName"]])

    visit(json.loads(dump)["command"], [])
    return found


DISCUSSIONS = discussions()


def examples(command):
    return re.findall(r"^  \$ (.+)$", DISCUSSIONS[command], re.M)


@pytest.fixture(scope="module")
def fleet(binaries, tmp_path_factory):
    with services.Fleet(binaries, tmp_path_factory.mktemp("examples"), arguments=UNTHROTTLED) as fleet:
        yield fleet


def environment(fleet, home, binaries):
    path = f"{pathlib.Path(binaries).resolve()}:{os.environ['PATH']}"
    found = services.clean_environment() | {
        "PATH": path, "HOME": str(home), "XDG_STATE_HOME": str(home / "state"), "LATCHKEY_DATA_DIR": str(fleet.data_directory)
    }  # fmt: skip
    for name in services.NAMES:
        found[f"LATCHKEY_{name.upper()}_ADDRESS"] = fleet[name].address
    return found


def script(command, person):
    """What leads up to the command's examples, and then those; CODE is the last code that was sent, unless it was set."""
    prepared = PREPARED.get(command, PREPARED.get(command.split()[0] if command else "", ACCOUNT))
    lines = [FUNCTIONS, prepared, "echo '--- the examples:'"]
    for example in examples(command):
        if "$CODE" in example and "CODE=" not in prepared:
            lines.append("CODE=$(sent)")
        lines.append(example)
    return "\n".join(lines).replace("ada@", f"{person}@")


@pytest.fixture(scope="module")
def database():
    """A PostgreSQL for the examples that bring rows there."""
    server = postgresql.PostgreSQL()
    yield server
    server.stop()


@pytest.mark.sqlite
@pytest.mark.parametrize("command", DISCUSSIONS, ids=lambda command: command or "latchkey")
def test_examples_work(command, fleet, binaries, tmp_path, request):
    """Every command's help has an example of that command, and it works as it stands"""
    words = " ".join(["latchkey", *command.split()])
    assert any(words in example for example in examples(command)), f"{words} --help shows no example of it"
    for file in guides.FILES.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    for name, text in (("new", "a better password\n"), ("pattern", "0-4-8-5\n")):
        (tmp_path / name).write_text(text)
    variables = environment(fleet, tmp_path, binaries)
    if any("$DATABASE" in example for example in examples(command)):
        variables["DATABASE"] = request.getfixturevalue("database").url("import")
        (tmp_path / "database-password").write_text(postgresql.PASSWORD)
    for _ in range(3 if command == "load" else 1):
        finished = subprocess.run(
            ["bash", "-c", script(command, f"ada-{secrets.token_hex(8)}")], cwd=tmp_path, timeout=120, text=True,
            env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        # A disk that is busy with other tests makes a service refuse some of a load, and it says so.
        if "OVERLOADED" not in finished.stdout:
            break
        # The next try begins with no profile, as the first did.
        shutil.rmtree(tmp_path / "state", ignore_errors=True)
    assert finished.returncode == 0, finished.stdout
