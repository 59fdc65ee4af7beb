"""The command-line tool as a script uses it."""

import json
import re
import shutil
import subprocess

import pytest
from services import clean_environment
from world import unique_identifier

PASSWORD = "a good long password\n"


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_guest_to_account(world, cli):
    """G1: guest, account, guest again, as the tool tells it"""
    assert cli(world, "phone", "session")["state"] == "unknown"
    guest = cli(world, "phone", "guest")
    assert guest["created"] and cli(world, "phone", "session")["state"] == "guest"
    account = cli(world, "phone", "register", unique_identifier(), "--password-file", "-", stdin=PASSWORD)
    assert account["account_change"]["promoted"]
    assert account["session"]["sub"] == guest["session"]["sub"]
    assert cli(world, "phone", "session", "introspect")["active"]
    cli(world, "phone", "session", "refresh")
    assert cli(world, "phone", "session", "introspect")["active"]
    cli(world, "phone", "logout")
    assert cli(world, "phone", "session")["state"] == "unknown"
    cli(world, "phone", "session", "introspect", status=77)


def test_records(world, cli):
    """G6: records as lines of JSON, in and out"""
    cli(world, "phone", "guest")
    row = {"collection": "cart", "key": "k/1 ü", "value": 'é"\n', "number": -5, "updated_at": "2024-02-29T23:59:59.250Z"}
    other = {"collection": "cart", "key": "k2", "value_base64url": "_wA", "updated_at": "1969-12-31T23:00:00-01:30"}
    assert cli(world, "phone", "record", "put", stdin=lines(row, other))["written"] == 2
    stored = cli(world, "phone", "record", "get", "cart", "k/1 ü")
    assert {name: stored[name] for name in row} == row and stored["revision"] >= 1
    assert cli(world, "phone", "record", "get", "cart", "k2")["value_base64url"] == "_wA"
    assert cli(world, "phone", "record", "get", "cart", "k2")["updated_at"] == "1970-01-01T00:30:00Z"
    listed = cli(world, "phone", "record", "list", "cart", "--limit", "1")
    assert [record["key"] for record in listed["records"]] == ["k/1 ü"] and listed["more"]
    assert cli(world, "phone", "record", "delete", "cart", "k2")["deleted"]
    assert not cli(world, "phone", "record", "delete", "cart", "k2")["deleted"]
    assert cli(world, "phone", "record", "collections")["collections"][0]["count"] == 1


@pytest.mark.parametrize(
    "line",
    ["{", "[]", '{"collection":"cart"}', '{"collection":"cart","key":"k"}', '{"collection":"cart","key":"k","value":1}',
     '{"collection":"cart","key":"k","value":"v","updated_at":"2023-02-29T00:00:00Z"}',
     '{"collection":"cart","key":"k","value":"v","extra":1}'],
)  # fmt: skip
def test_bad_line(world, cli, line):
    """G6: a line that is no record is named, and nothing is stored"""
    cli(world, "phone", "guest")
    answer = cli(world, "phone", "record", "put", status=65, stdin=lines({"collection": "cart", "key": "a", "value": ""}) + line)
    assert "line 2" in answer["error"]["message"]
    assert cli(world, "phone", "record", "collections")["collections"] == []


def test_merge_by_plan(world, cli):
    """G17: sign in and leave the guest's data behind, then plan and start its merge by hand"""
    identifier = unique_identifier()
    cli(world, "first", "register", identifier, "--password-file", "-", stdin=PASSWORD)
    cli(world, "first", "record", "put", stdin=lines({"collection": "cart", "key": "a", "value": "1", "number": 1}))
    cli(world, "phone", "guest")
    cli(world, "phone", "record", "put", stdin=lines(
        {"collection": "cart", "key": "a", "value": "2", "number": 2},
        {"collection": "cart", "key": "b", "value": "3", "number": 3},
    ))  # fmt: skip
    # A conflict does not wait for a migrator that is late, and tells of no rows then.
    for _ in range(5):
        conflict = cli(world, "phone", "login", identifier, "--password-file", "-", status=2, stdin=PASSWORD)["conflict"]
        if conflict["guest_rows"]:
            break
    assert conflict["guest_rows"] == {"cart": 2}
    cli(world, "phone", "login", "--ticket", conflict["link_ticket"], "--on-conflict", "switch")
    plan = cli(world, "phone", "migrate", "plan", "--policy", "cart=max")
    assert plan["collections"] == [
        {"name": "cart", "source_count": 2, "target_count": 1, "conflicts": 1, "policy": "max", "refused": 0}
    ]
    cli(world, "phone", "migrate", "start")
    merge = cli(world, "phone", "migrate", "watch")
    assert merge["state"] == "done" and merge["report"][0]["moved"] == 1
    assert cli(world, "phone", "record", "get", "cart", "a")["number"] == 2
    assert cli(world, "first", "record", "collections")["collections"][0]["count"] == 2
    assert cli(world, "phone", "migrate", "status")["state"] == "done"


def test_errors_say_what_to_do(world, cli):
    """G25: an error has its code, reason, field and exit status"""
    identifier = unique_identifier()
    cli(world, "phone", "register", identifier, "--password-file", "-", stdin=PASSWORD)
    taken = cli(world, "other", "register", identifier, "--password-file", "-", status=1, stdin=PASSWORD)["error"]
    assert (taken["code"], taken["reason"]) == ("ALREADY_EXISTS", "IDENTITY_IN_USE") and taken["hint"]
    wrong = cli(world, "other", "login", identifier, "--password-file", "-", status=77, stdin="not it at all\n")["error"]
    assert wrong["code"] == "UNAUTHENTICATED"
    short = cli(world, "other", "register", "x@example.com", "--password-file", "-", status=65, stdin="short\n")["error"]
    assert short["fields"][0]["path"] == "password.password"
    assert cli(world, "other", "record", "list", "cart", status=77)["error"]["hint"]
    assert cli(world, "phone", "qr", "scan", "https://evil.test/q/1/x", status=65)["error"]["code"] is None


def test_services_away(own_world, cli):
    """P12: a service that is away has its own exit status, and costs nobody their session"""
    cli(own_world, "phone", "guest")
    assert all(service["serving"] for service in cli(own_world, "phone", "health")["services"])
    own_world.fleet["identity"].stop()
    assert cli(own_world, "phone", "session", "introspect", status=69, timeout=60)["error"]["code"] == "UNAVAILABLE"
    cli(own_world, "phone", "health", status=69)
    own_world.fleet["identity"].start()
    assert cli(own_world, "phone", "session", "introspect")["active"]


def test_tls(tls_world, cli):
    """R41: the tool speaks TLS, and trusts nobody that it was not told to"""
    assert cli(tls_world, "phone", "guest")["created"]
    command = cli.command(tls_world, "phone", "guest")
    at = command.index("--tls-ca")
    stranger = command[:at] + ["--tls"] + command[at + 2 :]
    finished = subprocess.run(stranger, capture_output=True, text=True, timeout=60, env=clean_environment())
    assert finished.returncode == 69, finished.stdout


def test_profiles_are_private(world, cli):
    """D6: what the tool keeps is readable by its owner only"""
    cli(world, "phone", "guest")
    folder = cli.state_directory / "phone"
    assert folder.stat().st_mode & 0o077 == 0
    assert {path.name for path in folder.iterdir()} == {"device", "proof-count", "session"}
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in folder.iterdir())


def test_forgetting_is_durable(world, cli, tmp_path):
    """D6: a session that was forgotten does not come back with a power cut: its folder is on disk before the answer"""
    cli(world, "phone", "guest")
    trace = tmp_path / "trace"
    finished = subprocess.run(
        ["strace", "-f", "-qq", "-y", "-e", "trace=unlink,unlinkat,fsync", "-o", str(trace), *cli.command(world, "phone", "logout")],
        capture_output=True, timeout=60, env=clean_environment(),
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr
    calls = trace.read_text()
    forgotten = calls.index(f'unlink("{cli.state_directory}/phone/session")')
    assert re.search(rf"fsync\(\d+<{cli.state_directory}/phone>\) += 0", calls[forgotten:])


def cloned_profiles(world, cli):
    """Two devices with one key, one of them a copy of the other's files from before its last start; the guest of both"""
    guest = cli(world, "phone", "guest")["session"]["sub"]
    shutil.copytree(cli.state_directory / "phone", cli.state_directory / "copy")
    assert cli(world, "phone", "guest")["session"]["sub"] == guest
    for profile in ("copy", "phone"):
        error = cli(world, profile, "guest", status=1)["error"]
        assert error["reason"] == "DEVICE_CLONED" and "resolve-clone" in error["hint"]
    return guest


def test_cloned_device_keeps_its_guest(world, cli):
    """D3: a copy of a device is noticed by its next start, and the device that is asked keeps the guest and its records"""
    guest = cloned_profiles(world, cli)
    cli(world, "phone", "record", "put", stdin=lines({"collection": "cart", "key": "a", "value": "1"}))
    answer = cli(world, "phone", "device", "resolve-clone", "transfer")
    assert not answer["created"] and answer["session"]["sub"] == guest
    assert cli(world, "phone", "record", "get", "cart", "a")["value"] == "1"
    assert cli(world, "copy", "device", "resolve-clone", "transfer", status=1)["error"]["reason"] == "DEVICE_NOT_CLONED"
    other = cli(world, "copy", "guest")
    assert other["created"] and other["session"]["sub"] != guest
    assert cli(world, "phone", "guest")["session"]["sub"] == guest


def test_cloned_device_goes_its_own_way(world, cli):
    """D3: a device that splits off is a new guest, and the other goes on as before"""
    guest = cloned_profiles(world, cli)
    answer = cli(world, "phone", "device", "resolve-clone", "split")
    assert answer["created"] and answer["session"]["sub"] != guest
    assert cli(world, "copy", "guest")["session"]["sub"] == guest
    assert cli(world, "phone", "guest")["session"]["sub"] == answer["session"]["sub"]


def test_concurrent_starts_are_no_clone(world, cli):
    """D3: starts of one profile at the same time, which overtake each other on the way, make no clone"""
    cli(world, "phone", "guest")
    for _ in range(3):
        starts = [cli.start(world, "phone", "guest") for _ in range(8)]
        assert [start.wait(timeout=60) for start in starts] == [0] * 8, [start.stdout.read() for start in starts]
    assert (cli.state_directory / "phone" / "proof-count").read_text() == "25"


def test_concurrent_first_starts(world, cli):
    """G2: several first starts of one profile make one guest"""
    starts = [cli.start(world, "phone", "guest") for _ in range(6)]
    answers = [json.loads(start.communicate(timeout=60)[0]) for start in starts]
    assert len({answer["session"]["sub"] for answer in answers}) == 1
    assert sum(answer["created"] for answer in answers) == 1


def test_keys_that_begin_with_a_hyphen(world, cli):
    """G25: a device's key is taken as it is shown, also where it begins as a flag does"""
    cli(world, "hyphen", "guest")
    assert cli(world, "hyphen", "device", "remove", "-" + "a" * 42, "--yes") == {"sessions_ended": 0}
    error = cli(world, "hyphen", "device", "rename", "--" + "b" * 41, "Ada's laptop", status=1)["error"]
    assert error["code"] == "NOT_FOUND", error
