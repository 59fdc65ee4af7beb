"""Two cells, each with services and databases of its own: what one gave out, the other refuses by the cell's name."""

import contextlib
import json
import pathlib
import re
import secrets
import shutil
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

import authority
import grpc
import postgresql
import pytest
import services
from latchkey.identity.v1 import (
    admin_service_pb2,
    admin_service_pb2_grpc,
    auth_service_pb2,
    session_service_pb2,
    session_service_pb2_grpc,
    transfer_service_pb2,
    transfer_service_pb2_grpc,
)
from latchkey.migration.v1 import migration_service_pb2, record_service_pb2
from latchkey.qr.v1 import qr_session_service_pb2 as pb
from latchkey.qr.v1 import qr_session_service_pb2_grpc
from waiting import eventually
from world import CLIENT_ID, UNTHROTTLED, Failure, World, base64url, bearer, from_base64url, record, refused

ROOT = pathlib.Path(__file__).resolve().parents[2]
BASE = "https://login.example"
# How often each call is made, so that what it looks up shows beside what goes on anyway.
AGAIN = 10
READS = re.compile(r"^latchkey_store_(?:reads|writes)_total(?:\{[^}]*\})? (\S+)", re.M)


def cell(binaries, folder, number, **more):
    """The three services of one cell, and what codes point to the same in all."""
    own = ["--cell", str(number)] if number else []
    qr = [*UNTHROTTLED["qr"], *(["--identity-cell", str(number)] if number else []), "--verification-base", BASE]
    return services.Fleet(binaries, folder, arguments={"*": own, "qr": qr}, **more)


@pytest.fixture(scope="module")
def cells(binaries, tmp_path_factory):
    """By number."""
    folder = tmp_path_factory.mktemp("cells")
    with (
        cell(binaries, folder / "none", 0) as none,
        cell(binaries, folder / "three", 3) as three,
        cell(binaries, folder / "five", 5) as five,
    ):
        yield {0: World(none), 3: World(three), 5: World(five)}


def storage_use(world):
    """Reads and writes of each service's storage up to now."""
    used = {}
    for name, service in world.fleet.services.items():
        with urllib.request.urlopen(service.page_url("/metrics"), timeout=5) as answer:
            found = READS.findall(answer.read().decode())
        assert len(found) == 2, f"{name} counts no storage"
        used[name] = sum(float(number) for number in found)
    return used


class Things:
    """What a cell gave out: each by its kind."""

    def __init__(self, world):
        self.world = world
        self.phone = world.account()
        self.guest = world.device()
        self.guest.start_as_guest()
        self.screen = world.device()
        self.code = self.screen.issue_qr()
        self.device_code, self.user_code, self.payload = self.code.device_code, self.code.user_code, self.code.qr_payload
        spare = world.device().issue_qr()
        self.ticket = self.phone.scan(spare.qr_payload).confirm_ticket
        tokens = self.phone.tokens
        self.access, self.refresh = tokens.access_token, tokens.refresh_token
        self.sid, self.sub = tokens.sid, self.phone.subject.sub
        transfers = transfer_service_pb2_grpc.TransferServiceStub(world.channel("identity"))
        offered = transfers.CreateTransfer(
            transfer_service_pb2.CreateTransferRequest(), metadata=self.phone.metadata, timeout=10
        )
        self.transfer_code, self.transfer_id = offered.code, offered.transfer_id
        self.phone.put([record("cart", "one", b"1")])
        plan = world.migrations.PlanMigration(
            migration_service_pb2.PlanMigrationRequest(
                guest_proof=self.guest.tokens.access_token, target_proof=self.access
            ),
            metadata=self.phone.metadata,
            timeout=10,
        )  # fmt: skip
        self.plan, self.digest = plan.plan_id, plan.digest

    def all(self):
        return {name: value for name, value in vars(self).items() if isinstance(value, str) and name != "digest"}


def calls(here, things):
    """Calls to the services of `here` with what another cell gave out, by what they bring."""
    phone = here.account()
    mine = {"metadata": phone.metadata, "timeout": 10}
    theirs = {"metadata": bearer(things.access), "timeout": 10}
    service = {"metadata": bearer(here.service_token()), "timeout": 10}
    sessions = session_service_pb2_grpc.SessionServiceStub(here.channel("identity"))
    transfers = transfer_service_pb2_grpc.TransferServiceStub(here.channel("identity"))
    admin = admin_service_pb2_grpc.AdminServiceStub(here.channel("identity"))
    challenge = base64url(secrets.token_bytes(32))

    def issue(**fields):
        return here.qr.IssueSession(
            pb.IssueSessionRequest(
                client_id=CLIENT_ID, purpose=pb.PURPOSE_LOGIN, code_challenge=challenge, code_challenge_method="S256", **fields
            ),
            timeout=10,
        )

    return {
        "device code, polled": lambda: here.qr.PollSession(pb.PollSessionRequest(device_code=things.device_code), timeout=10),
        "device code, redeemed": lambda: here.qr.PollSession(
            pb.PollSessionRequest(device_code=things.device_code, code_verifier=things.screen.verifier), timeout=10
        ),
        "device code, awaited": lambda: here.qr.PollSession(
            pb.PollSessionRequest(device_code=things.device_code, wait_ms=1000), timeout=10
        ),
        "device code, watched": lambda: list(
            here.qr.WatchSession(pb.WatchSessionRequest(device_code=things.device_code), timeout=10)
        ),
        "device code, cancelled": lambda: here.qr.CancelSession(
            pb.CancelSessionRequest(device_code=things.device_code), timeout=10
        ),
        "device code, superseded": lambda: issue(supersedes=things.device_code),
        "QR code": lambda: here.qr.ScanSession(pb.ScanSessionRequest(qr_payload=things.payload), **mine),
        "user code": lambda: here.qr.ScanSession(pb.ScanSessionRequest(user_code=things.user_code), **mine),
        "ticket, confirmed": lambda: here.qr.ConfirmSession(pb.ConfirmSessionRequest(confirm_ticket=things.ticket), **mine),
        "ticket, denied": lambda: here.qr.DenySession(pb.DenySessionRequest(confirm_ticket=things.ticket), **mine),
        "access token at qr": lambda: here.qr.ScanSession(pb.ScanSessionRequest(user_code="BCDF-GHJK"), **theirs),
        "access token at identity": lambda: sessions.ListSessions(session_service_pb2.ListSessionsRequest(), **theirs),
        "access token at migrator": lambda: here.records.GetRecord(
            record_service_pb2.GetRecordRequest(collection="cart", key="one"), **theirs
        ),
        "access token, introspected": lambda: here.auth.Introspect(
            auth_service_pb2.IntrospectRequest(token=things.access), **mine
        ),
        "access token, revoked": lambda: here.auth.Revoke(auth_service_pb2.RevokeRequest(token=things.access), timeout=10),
        "access tokens, planned": lambda: here.migrations.PlanMigration(
            migration_service_pb2.PlanMigrationRequest(
                guest_proof=things.guest.tokens.access_token, target_proof=phone.tokens.access_token
            ),
            **mine,
        ),
        "refresh token": lambda: here.auth.Refresh(
            auth_service_pb2.RefreshRequest(refresh_token=things.refresh), timeout=10
        ),
        "refresh token, introspected": lambda: here.auth.Introspect(
            auth_service_pb2.IntrospectRequest(token=things.refresh), **mine
        ),
        "refresh token, revoked": lambda: here.auth.Revoke(auth_service_pb2.RevokeRequest(token=things.refresh), timeout=10),
        "session": lambda: sessions.RevokeSession(session_service_pb2.RevokeSessionRequest(sid=things.sid), **mine),
        "subject": lambda: admin.GetSubject(admin_service_pb2.GetSubjectRequest(sub=things.sub), **service),
        "subject, disabled": lambda: admin.DisableSubject(
            admin_service_pb2.DisableSubjectRequest(sub=things.sub, reason="a test"), **service
        ),
        "transfer code": lambda: transfers.InspectTransfer(
            transfer_service_pb2.InspectTransferRequest(code=things.transfer_code), timeout=10
        ),
        "transfer": lambda: transfers.CancelTransfer(
            transfer_service_pb2.CancelTransferRequest(transfer_id=things.transfer_id), **mine
        ),
        "plan": lambda: here.migrations.StartMigration(
            migration_service_pb2.StartMigrationRequest(plan_id=things.plan, digest=things.digest, idempotency_key="once"),
            **mine,
        ),
    }


def names_cell(text, number):
    """Whether an id, code or token names a cell, by what follows its kind."""
    return re.match(rf"(lk[a-z]_)?{number}[.-]" if number else r"(lk[a-z]_)?[A-Za-z0-9_-]{16,}$", text) is not None


@pytest.mark.usefixtures("engine")
def test_every_id_names_its_cell(cells):
    """C16: every id, code and token of a cell names it, and those of cell 0 are what they were before there were cells"""
    for number, world in cells.items():
        things = Things(world)
        claims = json.loads(base64_part(things.access))
        shown = things.all() | {"sub of the token": claims["sub"], "sid of the token": claims["sid"]}
        shown["payload"] = shown["payload"].removeprefix(f"{BASE}/q/1/")
        for kind, text in shown.items():
            if kind == "access":
                continue
            if kind in ("user_code", "transfer_code") and not number:
                assert re.fullmatch(r"[B-Z]{4}(-[B-Z]{4})+", text), kind
            else:
                assert names_cell(text, number), f"{kind} of cell {number}: {text}"


def base64_part(token):
    return from_base64url(token.split(".")[1])


def looks_up(here, call, there, what):
    """Whether storage was used as often as the call was made and refused."""
    before = storage_use(here)
    for _ in range(AGAIN):
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "OTHER_CELL") as failure:
            call()
        assert failure[0].info == {"cell": str(there)}, what
    after = storage_use(here)
    return any(after[name] - before[name] >= AGAIN for name in after)


# Over PostgreSQL nobody counts what is read.
@pytest.mark.sqlite
@pytest.mark.parametrize("there, here", [(3, 5), (5, 3), (3, 0), (0, 3)])
def test_refused_by_name(cells, there, here):
    """C16: what one cell gave out is refused at another, by the cell's name, with nothing looked up, and goes on working at home"""
    things = Things(cells[there])
    for what, call in calls(cells[here], things).items():
        # What the services do by themselves uses storage too, now and then; a call that does uses it each time.
        assert any(not looks_up(cells[here], call, there, what) for _ in range(3)), f"{what}: something was looked up"
    at_home(things)


@pytest.mark.sqlite
def test_lookups_are_seen(cells):
    """a look-up shows in what the test above counts: a made-up session of the cell's own is looked for"""
    here = cells[5]
    phone = here.account()
    sessions = session_service_pb2_grpc.SessionServiceStub(here.channel("identity"))
    before = storage_use(here)["identity"]
    for _ in range(AGAIN):
        sid = f"5.{base64url(secrets.token_bytes(14))}"
        with contextlib.suppress(grpc.RpcError):
            sessions.RevokeSession(session_service_pb2.RevokeSessionRequest(sid=sid), metadata=phone.metadata, timeout=10)
    assert storage_use(here)["identity"] - before >= AGAIN


def at_home(things):
    """All of it still works where it is from."""
    world, phone, screen = things.world, things.phone, things.screen
    assert phone.introspect().active
    phone.refresh()
    scan = phone.scan(things.payload)
    phone.confirm(scan, things.code.check_code)
    answer = screen.poll(wait_ms=5000)
    while not answer.tokens.access_token:
        answer = screen.poll(wait_ms=5000, last_version=answer.version)
    assert phone.introspect(answer.tokens.access_token).active
    started = world.migrations.StartMigration(
        migration_service_pb2.StartMigrationRequest(plan_id=things.plan, digest=things.digest, idempotency_key="once"),
        metadata=phone.metadata,
        timeout=10,
    )
    assert phone.watch_merge(started.migration_id)


@pytest.mark.usefixtures("engine")
def test_no_oracle(cells):
    """C16: a made-up id of another cell is refused just as a real one, also with a number that is no cell's"""
    things = Things(cells[3])
    real = calls(cells[5], things)
    shapes = {}
    for number in (3, 65_535):
        made_up = type("MadeUp", (), vars(things).copy())()
        made_up.screen, made_up.guest = things.screen, things.guest
        for name, text in things.all().items():
            if name in ("access", "payload", "user_code", "transfer_code"):
                continue
            kind, rest = re.fullmatch(r"(lk[a-z]_)?3\.(.*)", text).groups()
            fresh = secrets.token_bytes(len(rest) * 3 // 4)
            if name == "refresh":
                # Behind the session is a number that is not negative.
                fresh = number.to_bytes(2, "big") + fresh[2:16] + bytes(8) + fresh[24:]
            elif name == "ticket":
                fresh = number.to_bytes(2, "big") + fresh[2:]
            setattr(made_up, name, f"{kind or ''}{number}.{base64url(fresh)}")
        made_up.payload = f"{BASE}/q/1/{number}.{base64url(secrets.token_bytes(16))}"
        made_up.user_code, made_up.transfer_code = f"{number}-BCDF-GHJK", f"{number}-BCDF-GHJK-LMNP-QRST"
        for what, call in calls(cells[5], made_up).items():
            if "access" in what:
                continue
            with refused(grpc.StatusCode.FAILED_PRECONDITION, "OTHER_CELL") as failure:
                call()
            assert failure[0].info == {"cell": str(number)}, what
            shapes[what, number] = failure[0]
    for what, call in real.items():
        if "access" in what:
            continue
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "OTHER_CELL") as failure:
            call()
        assert vars(failure[0]) == vars(shapes[what, 3]), what


@pytest.mark.usefixtures("engine")
def test_number_is_no_authority(cells):
    """C16: another number on what is of another cell opens nothing: it is unknown, or its signature does not hold"""
    things = Things(cells[3])
    here = cells[5]

    def forged(text):
        return re.sub(r"^((?:lk[a-z]_)?)3([.-])", r"\g<1>5\2", text)

    with refused(grpc.StatusCode.UNAUTHENTICATED, "REFRESH_TOKEN_INVALID"):
        here.auth.Refresh(auth_service_pb2.RefreshRequest(refresh_token=forged(things.refresh)), timeout=10)
    # The cell is in the session's id as well, under the authentication.
    body = things.refresh.removeprefix("lkr_3.")
    raw = bytearray(from_base64url(body))
    assert raw[:2] == b"\x00\x03"
    raw[1] = 5
    with refused(grpc.StatusCode.UNAUTHENTICATED, "REFRESH_TOKEN_INVALID"):
        here.auth.Refresh(auth_service_pb2.RefreshRequest(refresh_token=f"lkr_5.{base64url(bytes(raw))}"), timeout=10)
    with refused(grpc.StatusCode.NOT_FOUND):
        here.qr.PollSession(pb.PollSessionRequest(device_code=forged(things.device_code)), timeout=10)
    phone = here.account()
    with refused(grpc.StatusCode.NOT_FOUND):
        here.qr.ScanSession(
            pb.ScanSessionRequest(user_code=forged(things.user_code)), metadata=phone.metadata, timeout=10
        )
    header, payload, signature = things.access.split(".")
    claims = json.loads(base64_part(things.access))
    claims["sub"], claims["sid"] = forged(claims["sub"]), forged(claims["sid"])
    token = ".".join([header, base64url(json.dumps(claims).encode()), signature])
    sessions = session_service_pb2_grpc.SessionServiceStub(here.channel("identity"))
    with refused(grpc.StatusCode.UNAUTHENTICATED):
        sessions.ListSessions(session_service_pb2.ListSessionsRequest(), metadata=bearer(token), timeout=10)


@pytest.mark.usefixtures("engine")
def test_device_grant(cells):
    """C16: the OAuth token endpoint refuses another cell's device code as invalid_grant, and says whose it is"""
    things = Things(cells[3])
    service = cells[5].fleet["qr"]
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": things.device_code, "client_id": CLIENT_ID,
    }  # fmt: skip
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(f"http://{service.address}/oauth/token", urllib.parse.urlencode(form).encode(), timeout=10)
    answer = json.load(error.value)
    assert error.value.code == 400 and answer["error"] == "invalid_grant" and "cell 3" in answer["error_description"]


def shown(binaries, *words):
    """What `latchkey admin cells` says, by service."""
    command = [binaries / "latchkey", "admin", "cells", *map(str, words), "--json"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert finished.returncode == 0, finished.stderr
    return {entry["service"]: entry["cell"] for entry in json.loads(finished.stdout)["services"]}


def contents(file):
    """All that a database says, wherever its pages are: whoever opens and closes it may bring its journal in."""
    with contextlib.closing(sqlite3.connect(file)) as database:
        return database.execute("PRAGMA application_id").fetchone(), list(database.iterdump())


@pytest.mark.sqlite
def test_wrong_cell(binaries, tmp_path):
    """C16: a database belongs to the cell it was made in: a service of another one does not start over it, and leaves it alone"""
    fleet = cell(binaries, tmp_path / "fleet", 3)
    fleet.start()
    try:
        phone = World(fleet).account()
        assert shown(binaries, "--data-dir", fleet.data_directory) == dict.fromkeys(services.NAMES, 3)
    finally:
        fleet.stop()
    for name in services.NAMES:
        file = fleet.data_directory / f"{name}.db"
        before = contents(file)
        assert before[0] == (0x4C4B0003,)
        for number in (0, 4):
            wrong = cell(binaries, tmp_path / "fleet", number, data_directory=fleet.data_directory, ports=fleet.ports)
            with pytest.raises(services.StartError, match=f"belongs to cell 3, and this service to cell {number}"):
                wrong[name].start()
        assert contents(file) == before
    fleet.start()
    try:
        phone.world = World(fleet)
        assert phone.introspect().active
    finally:
        fleet.stop()


@pytest.mark.sqlite
def test_identity_of_another_cell(binaries, tmp_path):
    """C16: a QR service that takes identity to be of another cell than it is does not get ready, and its log says of which it is"""
    arguments = {"*": ["--cell", "3"], "qr": ["--identity-cell", "4"]}
    with contextlib.ExitStack() as stack:
        fleet = services.Fleet(binaries, tmp_path / "fleet", arguments=arguments)
        stack.callback(fleet.stop)
        for name in ("identity", "migrator"):
            fleet[name].start()
        fleet["qr"].start(wait=False)
        eventually(lambda: "identity is of cell 3," in fleet["qr"].log_path.read_text(), "nothing is said of the cell")
        assert fleet["qr"].is_running() and not fleet["qr"].is_ready()


@pytest.mark.sqlite
def test_databases_of_before(binaries, tmp_path):
    """C16: a database of before there were cells is cell 0's, whatever its ids begin with, and no other's"""
    fleet = cell(binaries, tmp_path / "fleet", 0)
    fleet.start()
    world = World(fleet)
    phones = [world.account() for _ in range(4)]
    screen = world.device()
    code = screen.issue_qr()
    fleet.stop()
    for name in services.NAMES:
        with sqlite3.connect(fleet.data_directory / f"{name}.db") as database:
            database.execute("PRAGMA application_id = 0")
        wrong = cell(binaries, tmp_path / "fleet", 7, data_directory=fleet.data_directory, ports=fleet.ports)
        with pytest.raises(services.StartError, match="belongs to cell 0, and this service to cell 7"):
            wrong[name].start()
    starts = [b"\0\3", b"\0\7", b"\xf8\0", b"LK"]
    subs = [make_old(fleet.data_directory / "identity.db", *each) for each in zip(phones, starts, strict=True)]
    fleet.start()
    try:
        world.open()
        for phone, sub in zip(phones, subs, strict=True):
            phone.refresh()
            assert phone.introspect().active and phone.introspect().sub == sub
            assert json.loads(base64_part(phone.tokens.access_token))["sub"] == sub
            phone.put([record("cart", "one", b"1")])
        scan = phones[0].scan(code.qr_payload)
        phones[0].confirm(scan, code.check_code)
        assert screen.poll(wait_ms=5000).state in (pb.SESSION_STATE_CONFIRMED, pb.SESSION_STATE_SCANNED)
    finally:
        fleet.stop()


def make_old(file, phone, start):
    """Gives the phone's subject an id that begins with these bytes, as a release without cells may have drawn it."""
    before = from_base64url(phone.subject.sub)
    after = start + before[len(start) :]
    with sqlite3.connect(file) as database:
        for (table,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
            for column in [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]:
                database.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE "{column}" = ?', (after, before))
    return base64url(after)


@pytest.mark.sqlite
def test_qr_cells_of_one_identity(binaries, tmp_path):
    """C16: QR services of other cells serve the accounts of the one identity that they are told of, each its own codes"""
    folder = tmp_path / "fleet"
    scratch = services.Fleet(binaries, tmp_path / "scratch")
    scratch["identity"].start()
    scratch["identity"].stop()
    token = scratch.data_directory / "service-token"
    arguments = {
        "*": ["--service-token-file", str(token)], "qr": [*UNTHROTTLED["qr"], "--verification-base", BASE],
        "qr-2": ["--cell", "9"],
    }  # fmt: skip
    with services.Fleet(binaries, folder, arguments=arguments, instances=2) as fleet:
        first = World(fleet)
        second = first.at(2)
        phone = first.account()
        screen = second.device()
        code = screen.issue_qr()
        assert code.device_code.startswith("9.")
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "OTHER_CELL") as failure:
            phone.scan(code.qr_payload)
        assert failure[0].info == {"cell": "9"}
        phone.world = second
        scan = phone.scan(code.qr_payload)
        phone.confirm(scan, code.check_code)
        answer = screen.poll(wait_ms=5000)
        while not answer.tokens.access_token:
            answer = screen.poll(wait_ms=5000, last_version=answer.version)
        phone.world = first
        assert phone.introspect(answer.tokens.access_token).sub == phone.subject.sub


# Of a server of its own, beside a cell over files.
@pytest.mark.sqlite
def test_postgresql(binaries, tmp_path):
    """C16: PostgreSQL's tables belong to the cell they were made in too, and a cell's rows are read as that cell's"""
    server = postgresql.PostgreSQL()
    try:
        arguments = {"*": ["--cell", "300"], "qr": [*UNTHROTTLED["qr"], "--identity-cell", "300"]}
        fleet = postgresql.fleet(binaries, tmp_path / "fleet", server, arguments)
        fleet.start()
        try:
            things = Things(World(fleet))
            for name, text in things.all().items():
                if name not in ("access", "payload"):
                    assert names_cell(text, 300), f"{name}: {text}"
            for name in fleet.services:
                fleet[name].restart()
            things.world.open()
            at_home(things)
        finally:
            fleet.stop()
        ids = server.query("SELECT DISTINCT left(replace(sub::text, '-', ''), 4) FROM identity.subjects")
        assert ids == "012c"
        assert server.query("SELECT DISTINCT left(replace(id::text, '-', ''), 4) FROM qr.qr_sessions") == "012c"
        password = tmp_path / "fleet" / "database-password"
        said = shown(binaries, "--at", server.url("admin"), "--database-password-file", password)
        assert said == dict.fromkeys(services.NAMES, 300)
        # Nor are another cell's rows stored there.
        other = cell(binaries, tmp_path / "other", 0)
        other.start()
        other.stop()
        admin = [binaries / "latchkey", "admin"]
        subprocess.run([*admin, "export", tmp_path / "out", "--data-dir", other.data_directory], check=True, timeout=60)
        place = ["--to", server.url("admin"), "--database-password-file", password]
        refusal = subprocess.run([*admin, "import", tmp_path / "out", *place], capture_output=True, text=True, timeout=60)
        assert refusal.returncode and "belongs to cell 300, and this service to cell 0" in refusal.stderr
        for name in services.NAMES:
            fleet.arguments["*"] = ["--cell", "301"]
            with pytest.raises(services.StartError, match="belongs to cell 300, and this service to cell 301"):
                fleet[name].start()
    finally:
        server.stop()


@pytest.mark.sqlite
def test_export_keeps_the_cell(binaries, tmp_path):
    """C16: an export says whose cell its rows are of, and what is imported from it is that cell's"""
    fleet = cell(binaries, tmp_path / "fleet", 6)
    fleet.start()
    phone = World(fleet).account()
    fleet.stop()
    for words in (["export", tmp_path / "out", "--data-dir", fleet.data_directory],
                  ["import", tmp_path / "out", "--data-dir", tmp_path / "again"]):  # fmt: skip
        subprocess.run([binaries / "latchkey", "admin", *map(str, words)], check=True, capture_output=True, timeout=60)
    assert shown(binaries, "--data-dir", tmp_path / "again") == dict.fromkeys(services.NAMES, 6)
    for name in ("service-token", "identity-secret"):
        shutil.copy2(fleet.data_directory / name, tmp_path / "again" / name)
    shutil.copytree(fleet.data_directory / "signing-keys", tmp_path / "again" / "signing-keys")
    again = cell(binaries, tmp_path / "fleet", 6, data_directory=tmp_path / "again", ports=fleet.ports)
    again.start()
    try:
        phone.world = World(again)
        phone.refresh()
        assert phone.introspect().active
    finally:
        again.stop()


class Balancer:
    """HAProxy by deploy/proxies/haproxy-cells.cfg, before a fleet whose `qr-2` is the other cell."""

    def __init__(self, fleet, folder):
        self.files = authority.issue(folder / "front")
        site = folder / "front" / "site.pem"
        site.write_bytes(self.files.certificate.read_bytes() + self.files.key.read_bytes())
        self.port = services.free_port()
        text = (ROOT / "deploy" / "proxies" / "haproxy-cells.cfg").read_text()
        changes = {
            "bind :443": f"bind 127.0.0.1:{self.port}", "/etc/latchkey/site.pem": str(site), "check-proto h2": "check-proto h2 inter 200",
            **{f"127.0.0.1:{old}": f"127.0.0.1:{fleet.ports[name][0]}"
               for name, old in {"identity": 7401, "migrator": 7403, "qr": 7402, "qr-2": 7412}.items()},
        }  # fmt: skip
        for old, new in changes.items():
            assert old in text, f"the example has no {old}"
            text = text.replace(old, new)
        self.path = folder / "haproxy.cfg"
        self.path.write_text(text)

    def __enter__(self):
        program = shutil.which("haproxy") or "/usr/sbin/haproxy"
        self.process = subprocess.Popen([program, "-db", "-f", str(self.path)], stdout=sys.stderr, stderr=sys.stderr)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)

    def client(self):
        credentials = grpc.ssl_channel_credentials(self.files.authority.read_bytes())
        channel = grpc.secure_channel(f"localhost:{self.port}", credentials, [("grpc.use_local_subchannel_pool", 1)])
        grpc.channel_ready_future(channel).result(20)
        return qr_session_service_pb2_grpc.QrSessionServiceStub(channel)


def numbered(number):
    return (("x-latchkey-cell", str(number)),)


@pytest.mark.sqlite
def test_a_balancer_routes(binaries, tmp_path):
    """C16: HAProxy, by the very file in deploy/proxies, brings calls to the cell that they name; what names none is refused by name"""
    with services.Fleet(binaries, tmp_path / "scratch") as scratch:
        token = scratch.data_directory / "service-token"
    arguments = {
        "*": ["--service-token-file", str(token), "--proxies-trusted", "127.0.0.1"],
        "qr": [*UNTHROTTLED["qr"], "--verification-base", BASE, "--cell", "1"], "qr-2": ["--cell", "2"],
    }  # fmt: skip
    with services.Fleet(binaries, tmp_path / "fleet", arguments=arguments, instances=2) as fleet:
        with Balancer(fleet, tmp_path) as balancer:
            client = balancer.client()
            challenge = base64url(secrets.token_bytes(32))
            request = pb.IssueSessionRequest(
                client_id=CLIENT_ID, purpose=pb.PURPOSE_LOGIN, code_challenge=challenge, code_challenge_method="S256"
            )
            codes = {1: [], 2: []}
            end = time.monotonic() + 30
            while not all(len(some) >= 3 for some in codes.values()):
                assert time.monotonic() < end, f"both cells are asked for codes: {codes}"
                code = client.IssueSession(request, timeout=10, wait_for_ready=True)
                codes[int(code.device_code.split(".")[0])].append(code)
            # So many that chance brings neither all of them to the right cell nor none.
            asked = [(number, code) for number, some in codes.items() for code in some[:3] * 5]
            refusals = 0
            for number, code in asked:
                poll = pb.PollSessionRequest(device_code=code.device_code)
                assert client.PollSession(poll, metadata=numbered(number), timeout=10).state == pb.SESSION_STATE_PENDING
                with refused(grpc.StatusCode.FAILED_PRECONDITION, "OTHER_CELL") as failure:
                    client.PollSession(poll, metadata=numbered(3 - number), timeout=10)
                assert failure[0].info == {"cell": str(number)}
                try:
                    client.PollSession(poll, timeout=10)
                except grpc.RpcError as error:
                    assert Failure(error).info == {"cell": str(number)}
                    refusals += 1
            assert 0 < refusals < len(asked), "what names no cell goes to either"
            # One cell is gone: its codes with it, and new ones are the other's.
            fleet["qr-2"].kill()

            def all_go_to_the_first():
                try:
                    return {client.IssueSession(request, timeout=10).device_code.split(".")[0] for _ in range(8)} == {"1"}
                except grpc.RpcError:
                    # HAProxy has not yet found out.
                    return False

            eventually(all_go_to_the_first, "new codes are not the other's", 20)
            lost = pb.PollSessionRequest(device_code=codes[2][0].device_code)
            with refused(grpc.StatusCode.UNAVAILABLE):
                client.PollSession(lost, metadata=numbered(2), timeout=10)
            fleet["qr-2"].start()
            until = time.monotonic() + 20
            while True:
                try:
                    answer = client.PollSession(lost, metadata=numbered(2), timeout=10)
                    break
                except grpc.RpcError as error:
                    assert error.code() == grpc.StatusCode.UNAVAILABLE and time.monotonic() < until
                    time.sleep(0.2)
            assert answer.state == pb.SESSION_STATE_PENDING


def test_guide_has_the_simulation():
    """the guide's table of eight cells is what Tests/Benchmarks/cells.py prints"""
    script = ROOT / "Tests" / "Benchmarks" / "cells.py"
    printed = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, timeout=300).stdout
    guide = ROOT / "Sources" / "LatchkeyModel" / "LatchkeyModel.docc" / "Guides" / "Cells.md"
    assert len(printed.splitlines()) > 8 and printed in guide.read_text()
