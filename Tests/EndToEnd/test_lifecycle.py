"""Guests and accounts that move, leave and are looked after, with the command-line tool and the real services."""

import json
import urllib.error
import urllib.request

import grpc
import stored
from latchkey.identity.v1 import guest_service_pb2
from waiting import eventually
from world import record, refused, unique_identifier

PASSWORD = "a good long password\n"


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def register(cli, world, profile):
    identifier = unique_identifier()
    cli(world, profile, "guest")
    cli(world, profile, "register", identifier, "--password-file", "-", stdin=PASSWORD)
    return identifier


def test_transfer_guest(world, cli):
    """D8: a guest moves to a new phone with its records; the old phone becomes somebody else's"""
    old = cli(world, "old", "guest", "--label", "old phone")
    cli(world, "old", "record", "put", stdin=lines({"collection": "cart", "key": "a", "value": "1"}))
    offer = cli(world, "old", "transfer", "create")
    seen = cli(world, "new", "transfer", "inspect", offer["code"])
    assert seen["is_guest"] and seen["device_label"] == "old phone" and seen["same_network"]
    moved = cli(world, "new", "transfer", "redeem", offer["code"])
    assert moved["session"]["sub"] == old["session"]["sub"]
    assert cli(world, "new", "record", "collections")["collections"][0]["count"] == 1
    cli(world, "old", "session", "refresh", status=77)
    assert cli(world, "old", "guest")["session"]["sub"] != old["session"]["sub"]
    assert cli(world, "new", "guest")["session"]["sub"] == old["session"]["sub"]
    cli(world, "third", "transfer", "redeem", offer["code"], status=1)


def test_transfer_account(world, cli):
    """D8: an account moves by the QR code's content with the old phone kept, and the new one is listed"""
    register(cli, world, "old")
    offer = cli(world, "old", "transfer", "create", "--old-device", "kept")
    cli(world, "new", "transfer", "redeem", offer["qr_payload"], status=77)
    moved = cli(world, "new", "transfer", "redeem", offer["qr_payload"], "--keep-old", "--label", "new phone")
    assert not moved["session"]["is_guest"]
    sessions = cli(world, "old", "session", "list")["sessions"]
    assert [session["method"] for session in sessions] == ["transfer", "password"]
    assert not sessions[0]["confirmed"] and sessions[1]["current"]
    cli(world, "new", "session", "end-others", status=77)
    cli(world, "old", "session", "confirm", sessions[0]["sid"])
    assert cli(world, "new", "session", "end-others")["sessions_ended"] == 1
    offer = cli(world, "new", "transfer", "create")
    assert cli(world, "new", "transfer", "cancel", offer["transfer_id"])["cancelled"]
    cli(world, "old", "transfer", "redeem", offer["code"], status=1)


def test_devices(world, cli):
    """R16: devices are listed, renamed, given a new key and removed"""
    register(cli, world, "phone")
    device = cli(world, "phone", "device", "list")["devices"][0]
    assert device["current"] and device["sessions"] == 1
    cli(world, "phone", "device", "rename", device["key_thumbprint"], "Ada's phone")
    key = cli(world, "phone", "device", "rotate-key")["key_thumbprint"]
    assert key != device["key_thumbprint"]
    assert cli(world, "phone", "device", "list")["devices"][0]["key_thumbprint"] == key
    assert cli(world, "phone", "device", "remove", key)["sessions_ended"] == 1
    cli(world, "phone", "session", "refresh", status=77)


def test_rotated_guest(world, cli):
    """D3: a guest keeps its id and its records over a new key"""
    guest = cli(world, "phone", "guest")
    cli(world, "phone", "device", "rotate-key")
    again = cli(world, "phone", "guest")
    assert not again["created"] and again["session"]["sub"] == guest["session"]["sub"]


def test_links(world, cli):
    """R16: identities are linked, listed and unlinked, but not the last"""
    register(cli, world, "phone")
    added = cli(world, "phone", "link", "add", unique_identifier(), "--password-file", "-", stdin=PASSWORD)
    identities = cli(world, "phone", "link", "list")["identities"]
    assert len(identities) == 2 and added["identity"] in identities
    cli(world, "phone", "link", "remove", identities[0]["identity_id"], "--password-file", "-", stdin=PASSWORD)
    last = cli(world, "phone", "link", "list")["identities"][0]["identity_id"]
    answer = cli(world, "phone", "link", "remove", last, "--password-file", "-", stdin=PASSWORD, status=1)
    assert answer["error"]["reason"] == "LAST_IDENTITY"


def test_export_and_delete(world, cli):
    """R10: a guest exports all it has and is deleted; the records go, and the key gets a new guest"""
    guest = cli(world, "phone", "guest")
    rows = [{"collection": "cart", "key": f"k{number}", "value": "v"} for number in range(1200)]
    cli(world, "phone", "record", "put", stdin=lines(*rows))
    export = cli(world, "phone", "guest", "export")["export"]
    assert export[0]["type"] == "subject" and export[0]["sub"] == guest["session"]["sub"]
    assert export[-1] == {"type": "complete", "records": 1200}
    assert {row["key"] for row in export if row["type"] == "record"} == {row["key"] for row in rows}
    assert cli(world, "phone", "guest", "delete")["records_deleted"]
    assert cli(world, "phone", "session")["state"] == "unknown"
    again = cli(world, "phone", "guest")
    assert again["created"] and again["session"]["sub"] != guest["session"]["sub"]
    assert cli(world, "phone", "record", "collections")["collections"] == []


def test_deletion_survives_kills(own_world):
    """R10: a guest that is deleted while the migrator is dead has no records when it is back, whoever was killed"""
    device = own_world.device()
    device.start_as_guest()
    device.put([record("cart", f"k{number}") for number in range(500)])
    own_world.fleet.services["migrator"].kill()
    answer = own_world.guests.DeleteGuest(
        guest_service_pb2.DeleteGuestRequest(), metadata=device.metadata, timeout=20
    )
    assert not answer.records_deleted
    assert stored.number(own_world.fleet, "migrator", "SELECT count(*) FROM records") == 500
    own_world.fleet.services["identity"].kill()
    own_world.fleet.services["identity"].start()
    own_world.fleet.services["migrator"].start()
    own_world.open()
    with refused(grpc.StatusCode.UNAUTHENTICATED, "SESSION_REVOKED"):
        device.introspect()
    left = lambda: stored.number(own_world.fleet, "migrator", "SELECT count(*) FROM records")  # noqa: E731
    eventually(lambda: left() == 0, "records are left")


def visit(world, cookie):
    request = urllib.request.Request(f"{world.fleet.issuer}/web-session", headers={"cookie": cookie})
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_web_session(world, cli):
    """P14: a browser acts by the cookie until its session ends"""
    register(cli, world, "phone")
    cookie = cli(world, "phone", "session", "web")
    assert cookie["max_age_ms"] == 3600_000 and cookie["path"] == "/" and cookie["http_only"]
    status, answer = visit(world, f"{cookie['name']}={cookie['value']}")
    assert status == 200 and answer["sub"] == cli(world, "phone", "session")["session"]["sub"]
    assert visit(world, "")[0] == 401
    cli(world, "phone", "logout")
    assert visit(world, f"{cookie['name']}={cookie['value']}") == (401, {"active": False})


def test_screen_namespace(world):
    """G5: a screen that a phone signed in keeps what belongs to the account where the phone does"""
    phone, screen = world.device(), world.device()
    phone.start_as_guest()
    account = phone.register(unique_identifier(), as_guest=False)
    screen.issue_qr()
    scan = phone.scan(screen.code.qr_payload)
    phone.confirm(scan, screen.code.check_code)
    answer = screen.poll()
    assert answer.tokens.access_token and answer.storage_namespace == account.storage_namespace != ""
