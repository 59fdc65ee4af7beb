"""One of two identities, or of two migrators, cut off from the database, while people call it and wait there."""

import concurrent.futures
import contextlib
import functools
import itertools
import secrets
import threading
import time
import urllib.request
import uuid

import database_proxy
import grpc
import postgresql
import pytest
from grpc.health.v1 import health_pb2
from latchkey.identity.v1 import (
    auth_service_pb2,
    device_service_pb2,
    device_service_pb2_grpc,
    guest_service_pb2,
    guide_service_pb2,
    guide_service_pb2_grpc,
    session_service_pb2,
    session_service_pb2_grpc,
)
from latchkey.migration.v1 import migration_service_pb2 as migration
from latchkey.migration.v1 import record_service_pb2
from test_instances_documents import guide, set_guides
from test_instances_feed import ASKS, as_seen_at, is_let_in, readiness, refusal
from test_instances_work import patiently
from test_merges import ready
from test_revocation import revoke
from waiting import eventually
from world import CLIENT_ID, PASSWORD, UNTHROTTLED, Failure, World, bearer, from_base64url, record, unique_identifier

# What an instance says that has no database, and within how many seconds at the latest: longer than a COMMIT is waited for.
LATER = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)
PATIENCE = 30
# After so many seconds of silence nobody is let in (C6), and as long as a cut lasts: longer than any COMMIT is waited for.
SILENCE, CUT = 5, 12

server = postgresql.serving("module")


@pytest.fixture(scope="module")
def proxies(server):
    """The ways of the second identity and of the second migrator to the database."""
    proxies = {name: database_proxy.DatabaseProxy(server.port) for name in ("identity", "migrator")}
    yield proxies
    for proxy in proxies.values():
        proxy.stop()


@pytest.fixture(scope="module")
def pair(binaries, tmp_path_factory, server, proxies):
    """Two instances of each service; all ask the first identity."""
    folder = tmp_path_factory.mktemp("pair")
    fleet = postgresql.fleet(binaries, folder / "fleet", server, UNTHROTTLED, instances=2)
    for name, proxy in proxies.items():
        fleet.arguments[f"{name}-2"] = ["--storage-url", server.url(name).replace(f":{server.port}/", f":{proxy.port}/")]
    with fleet:
        yield World(fleet)


def turned_away(call, seconds=PATIENCE):
    """That a call, which is given so many seconds, is told to come back; how long that took."""
    began = time.monotonic()
    with pytest.raises(grpc.RpcError) as caught:
        call(seconds)
    failure = Failure(caught.value)
    assert failure.code in LATER and failure.retry_after is not None, f"{failure.code.name}: {failure.message}"
    return time.monotonic() - began


def ends(call, seconds=1):
    """How long a call took that was given so many seconds, whatever it came to."""
    began = time.monotonic()
    with contextlib.suppress(grpc.RpcError):
        call(seconds)
    return time.monotonic() - began


def all_turned_away(calls):
    """All of these, at once; and each a second time with little patience, which goes by. Prints how long each took."""
    with concurrent.futures.ThreadPoolExecutor(2 * len(calls)) as pool:
        began = {name: pool.submit(turned_away, call) for name, call in calls.items()}
        # A busy machine may be late.
        assert max(pool.map(ends, calls.values())) < 3
        took = {}
        for name, call in began.items():
            try:
                took[name] = f"{call.result():.1f} s"
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from error
    print(took)


def says_so(world, name):
    """Whether an instance has no database and says so by its page and by health, and is alive all the same."""
    service = world.fleet[f"{name}-{world.instance}"]
    status, text = readiness(service)
    if status != 503 or "the database" not in text:
        return False
    with urllib.request.urlopen(service.page_url("/livez"), timeout=5) as answer:
        assert answer.status == 200
    return world.health(name) == health_pb2.HealthCheckResponse.NOT_SERVING and text.strip()


def is_back(world, name):
    status, _ = readiness(world.fleet[f"{name}-{world.instance}"])
    return status == 200 and world.health(name) == health_pb2.HealthCheckResponse.SERVING


@contextlib.contextmanager
def cut(world, name, proxy):
    """For as long as the block. Afterwards the instance is back by itself."""
    service = world.fleet[f"{name}-{world.instance}"]
    process = service.process.pid
    try:
        proxy.open.clear()
        yield time.monotonic()
    finally:
        proxy.open.set()
    eventually(lambda: is_back(world, name), "the instance does not come back")
    assert service.process.pid == process and service.is_running()


class Served(threading.Thread):
    """Somebody whom an instance serves all the time, until the block ends: `call` is made again and again, and never fails."""

    def __init__(self, world, name, call):
        super().__init__(daemon=True)
        self.service, self.call = world.fleet[name], call
        self.count, self.failures, self.stopped = 0, [], threading.Event()

    def run(self):
        while not self.stopped.wait(0.1):
            try:
                self.call()
                assert readiness(self.service)[0] == 200
                self.count += 1
            except (grpc.RpcError, AssertionError) as error:
                self.failures.append(error)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, *_):
        self.stopped.set()
        self.join()
        if kind is None:
            print(f"the other one served {self.count} times meanwhile")
            assert not self.failures and self.count > 20, self.failures[:3]


class Busy(threading.Thread):
    """Makes one call after the other from before a cut to after it, each again until it is answered: `make` says the next one."""

    def __init__(self, make):
        super().__init__(daemon=True)
        self.make, self.stopped = make, threading.Event()
        self.count, self.again, self.failure = 0, 0, None

    def run(self):
        while not self.stopped.is_set():
            call = self.make()
            while not self.is_answered(call):
                self.again += 1
                time.sleep(0.2)
            self.count += 1

    def is_answered(self, call):
        try:
            call()
            return True
        except grpc.RpcError as error:
            if error.code() not in (*LATER, grpc.StatusCode.DEADLINE_EXCEEDED):
                self.failure = error
                raise
            return False


@contextlib.contextmanager
def all_busy(makes):
    """So many at once, well before the block and until after it. Each asked in vain meanwhile, and is answered in the end."""
    everybody = [Busy(make) for make in makes]
    for one in everybody:
        one.start()
    eventually(lambda: all(one.count > 3 for one in everybody), "nobody is answered")
    try:
        yield
    finally:
        for one in everybody:
            one.stopped.set()
        for one in everybody:
            one.join(timeout=60)
    print("answered, again:", [(one.count, one.again) for one in everybody])
    assert not any(one.failure or one.is_alive() for one in everybody), [one.failure for one in everybody]
    assert all(one.again for one in everybody)


class Waiter(threading.Thread):
    """Waits by a watch, again whenever that ends and when it says, until `is_over` of an answer; remembers what it was told."""

    def __init__(self, watch, is_over):
        super().__init__(daemon=True)
        self.watch, self.is_over = watch, is_over
        self.answers, self.failures, self.stopped = [], [], threading.Event()
        self.start()

    def run(self):
        while not self.stopped.is_set():
            try:
                for answer in self.watch(60):
                    self.answers.append(answer)
                    if self.is_over(answer):
                        return
            except grpc.RpcError as error:
                failure = Failure(error)
                self.failures.append(failure)
                # No longer than a test likes to wait.
                self.stopped.wait(min(failure.retry_after.total_seconds(), 1) if failure.retry_after else 0.2)

    def expect_end(self, what):
        """It was told in the end, and when to come back whenever it was sent away before."""
        self.join(timeout=30)
        self.stopped.set()
        print(what, len(self.answers), [(f.code.name, f.retry_after.total_seconds()) for f in self.failures if f.retry_after])
        assert self.answers and self.is_over(self.answers[-1]), f"{what}: nothing is told"
        assert all(f.code in LATER and f.retry_after is not None for f in self.failures), [f.message for f in self.failures]


class Writer(threading.Thread):
    """Makes a call again until it is answered, as a client does whose service is away."""

    def __init__(self, call):
        super().__init__(daemon=True)
        self.call, self.tries, self.answer, self.failure = call, 0, None, None
        self.start()

    def run(self):
        end = time.monotonic() + 90
        while self.answer is None and time.monotonic() < end:
            self.tries += 1
            try:
                self.answer = self.call()
            except grpc.RpcError as error:
                if error.code() not in (*LATER, grpc.StatusCode.DEADLINE_EXCEEDED):
                    self.failure = error
                    return
                time.sleep(0.3)

    def done(self):
        self.join(timeout=100)
        assert self.answer is not None, self.failure
        return self.answer


def row_name(text):
    """How the rows name what a client knows by this text."""
    return uuid.UUID(bytes=from_base64url(text))


def identity_calls(world, account, guest):
    """Calls of an identity that need the database, by their names: of somebody with an account, and of a guest."""
    sessions = session_service_pb2_grpc.SessionServiceStub(world.channel("identity"))
    devices = device_service_pb2_grpc.DeviceServiceStub(world.channel("identity"))
    guides = guide_service_pb2_grpc.GuideServiceStub(world.channel("identity"))
    password = auth_service_pb2.PasswordCredential(identifier=account.identifier, password=PASSWORD)
    new = auth_service_pb2.PasswordCredential(identifier=unique_identifier(), password=PASSWORD)
    own, service = {"metadata": account.metadata}, {"metadata": bearer(world.service_token())}
    token = auth_service_pb2.IntrospectRequest(token=account.tokens.access_token)
    refresh = auth_service_pb2.RefreshRequest(refresh_token=guest.tokens.refresh_token)
    sign_in = auth_service_pb2.AuthenticateRequest(client_id=CLIENT_ID, password=password)
    register = auth_service_pb2.RegisterRequest(client_id=CLIENT_ID, password=new)
    export = guest_service_pb2.ExportGuestRequest()
    report = guide_service_pb2.ReportStepRequest(guide_id="tour", step_id="s0", outcome=guide_service_pb2.STEP_OUTCOME_SHOWN)
    listed, known = session_service_pb2.ListSessionsRequest(), device_service_pb2.ListDevicesRequest()
    return {
        "IssueGuest": lambda t: world.guests.IssueGuest(world.device().guest_request(), timeout=t),
        "Refresh": lambda t: world.auth.Refresh(refresh, timeout=t),
        "Authenticate": lambda t: world.auth.Authenticate(sign_in, timeout=t),
        "Register": lambda t: world.auth.Register(register, timeout=t),
        "Introspect": lambda t: world.auth.Introspect(token, **own, timeout=t),
        "Introspect by a service": lambda t: world.auth.Introspect(token, **service, timeout=t),
        "ListSessions": lambda t: sessions.ListSessions(listed, **own, timeout=t),
        "ListDevices": lambda t: devices.ListDevices(known, **own, timeout=t),
        "ExportGuest": lambda t: list(world.guests.ExportGuest(export, metadata=guest.metadata, timeout=t)),
        "GetGuide": lambda t: guides.GetGuide(guide_service_pb2.GetGuideRequest(guide_id="tour"), **own, timeout=t),
        "ReportStep": lambda t: guides.ReportStep(report, **own, timeout=t),
        "WatchGuide": lambda t: list(guide_watch(world, account)(t)),
    }


def events_watch(world, account):
    """Of somebody's sessions. It needs no database to begin while the instance knows who has signed out."""
    stub = session_service_pb2_grpc.SessionServiceStub(world.channel("identity"))
    request = session_service_pb2.WatchSessionEventsRequest()
    return lambda t: stub.WatchSessionEvents(request, metadata=account.metadata, timeout=t)


def guide_watch(world, account):
    stub = guide_service_pb2_grpc.GuideServiceStub(world.channel("identity"))
    request = guide_service_pb2.WatchGuideRequest(guide_id="tour")
    return lambda t: stub.WatchGuide(request, metadata=account.metadata, timeout=t)


def signs_in(world, owner):
    """Somebody signs in who asks for the same again until they are answered."""
    credential = auth_service_pb2.PasswordCredential(identifier=owner.identifier, password=PASSWORD)
    request = auth_service_pb2.AuthenticateRequest(client_id=CLIENT_ID, password=credential, device_label="retried")
    key = (("idempotency-key", secrets.token_hex(8)),)
    return lambda: world.auth.Authenticate(request, metadata=key, timeout=10)


def registers(world, identifier):
    credential = auth_service_pb2.PasswordCredential(identifier=identifier, password=PASSWORD)
    request = auth_service_pb2.RegisterRequest(client_id=CLIENT_ID, password=credential)
    key = (("idempotency-key", secrets.token_hex(8)),)
    return lambda: world.auth.Register(request, metadata=key, timeout=10)


def accepted(world, device):
    """By which ways an identity says that a session holds."""
    service = bearer(world.service_token())
    found = ["its own calls"] if is_let_in(ASKS["identity"], device) else []
    for token in (device.tokens.access_token, device.tokens.refresh_token):
        with contextlib.suppress(grpc.RpcError):
            if world.auth.Introspect(auth_service_pb2.IntrospectRequest(token=token), metadata=service, timeout=PATIENCE).active:
                found.append("introspection")
    with contextlib.suppress(grpc.RpcError):
        world.auth.Refresh(auth_service_pb2.RefreshRequest(refresh_token=device.tokens.refresh_token), timeout=PATIENCE)
        found.append("a refresh")
    return found


@contextlib.contextmanager
def nobody_accepts(world, device, since):
    """For as long as the block, from a moment on: an identity never says that a session holds."""
    over, found = threading.Event(), []

    def look():
        while not over.is_set():
            if time.monotonic() > since:
                found.append(accepted(world, device))
            over.wait(0.1)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert found and not any(found), found


def test_identity(pair, server, proxies):
    """C12: an identity whose database falls silent is not ready and says so, has those who call come back, lets nobody in after
    five seconds, and recovers by itself; what was asked for again is done once"""
    first, second = pair, pair.at(2)
    set_guides(first, guide("tour", 1, steps=4))
    living, ended, owner, guest = first.account(), first.account(), first.account(), first.device()
    guest.start_as_guest()
    twins = {device: as_seen_at(second, device) for device in (living, ended, owner, guest)}
    for twin in twins.values():
        eventually(lambda twin=twin: is_let_in(ASKS["identity"], twin), "the session is not let in")
    twins[living].identifier = living.identifier
    eventually(lambda: "tour" in [one.guide_id for one in guides_at(second, twins[owner])], "the guide is not in force")
    calls = identity_calls(second, twins[living], twins[guest])
    leaver = first.device()
    leaver.authenticate(owner.identifier)
    events = Waiter(events_watch(second, twins[owner]), lambda answer: tells_of_end(second, twins[owner], leaver, answer))
    progress = Waiter(guide_watch(second, twins[owner]), lambda answer: answer.progress.revision > 0)
    eventually(lambda: events.answers and progress.answers, "the watches say nothing")
    starters, identifiers = [second.device() for _ in range(6)], [unique_identifier() for _ in range(2)]
    refresher = first.account()
    refresher.world = second
    with (
        all_busy([lambda: second.device().start_as_guest] * 3),
        Served(first, "identity", lambda: (first.device().start_as_guest(), ASKS["identity"](living))),
        cut(second, "identity", proxies["identity"]) as silent,
    ):
        # What comes in the first seconds waits for the database; it is asked for again until it is answered.
        writers = [Writer(device.start_as_guest) for device in starters]
        signed_in, refreshed = Writer(signs_in(second, owner)), Writer(refresher.refresh)
        registered = [Writer(registers(second, identifier)) for identifier in identifiers]
        revoke(first, ended)
        revoke(first, leaver)
        # A look that was under way may have been answered still.
        with nobody_accepts(second, twins[ended], silent + SILENCE + 0.5):
            all_turned_away(calls)
            time.sleep(max(0, silent + SILENCE + 1 - time.monotonic()))
        identity_calls(first, owner, guest)["ReportStep"](10)
        print(eventually(lambda: says_so(second, "identity"), "the instance does not say that it has no database"))
        # All of them are told at once now.
        assert max(turned_away(call) for call in calls.values()) < 2
        assert refusal(ASKS["identity"], twins[living]) == grpc.StatusCode.UNAVAILABLE
        assert turned_away(lambda t: list(events_watch(second, twins[living])(t))) < 2
        assert accepted(second, twins[ended]) == []
        assert is_let_in(ASKS["identity"], living) and refusal(ASKS["identity"], ended) == grpc.StatusCode.UNAUTHENTICATED
        time.sleep(max(0, silent + CUT - time.monotonic()))
        assert says_so(second, "identity")

    def knows():
        """Of the end of a session, which it never once lets in before."""
        assert accepted(second, twins[ended]) == []
        return refusal(ASKS["identity"], twins[ended]) == grpc.StatusCode.UNAUTHENTICATED

    eventually(knows, "the instance does not know what ended", longest=0.01)
    eventually(lambda: is_let_in(ASKS["identity"], twins[living]), "nobody is let in again")
    events.expect_end("events")
    progress.expect_end("a guide")
    subjects = [writer.done().subject.sub for writer in writers]
    assert [device.subject.sub for device in starters] == subjects and len(set(subjects)) == len(subjects)
    print("tries:", [writer.tries for writer in (*writers, signed_in, refreshed, *registered)])
    for device in starters:
        expect_one_guest(server, device)
    # Nobody became two guests, whoever it was.
    theirs = "SELECT FROM identity.devices WHERE guest_sub = sub"
    assert server.query(f"SELECT count(*) FROM identity.subjects WHERE kind = 0 AND NOT EXISTS ({theirs})") == "0"
    # The same session for the same request, whichever of them it was.
    sid, sub = row_name(signed_in.done().tokens.sid), row_name(owner.subject.sub)
    assert server.query(f"SELECT sid FROM identity.sessions WHERE sub = '{sub}' AND device_label = 'retried'") == str(sid)
    refreshed.done()
    assert refresher.refresh() and refresher.introspect().active
    for identifier, writer in zip(identifiers, registered):
        sub = row_name(writer.done().subject.sub)
        assert server.query(f"SELECT count(*) FROM identity.sessions WHERE sub = '{sub}'") == "1"
        assert server.query(f"SELECT sub FROM identity.identities WHERE value = '{identifier}'") == str(sub)
    # With a new device the calls that were turned away are served.
    fresh = second.account()
    other = second.device()
    other.start_as_guest()
    served = identity_calls(second, fresh, other)
    for name in ("IssueGuest", "Refresh", "Authenticate", "Introspect", "ListSessions", "ListDevices", "GetGuide", "ReportStep"):
        served[name](10)


def guides_at(world, device):
    stub = guide_service_pb2_grpc.GuideServiceStub(world.channel("identity"))
    return stub.ListGuides(guide_service_pb2.ListGuidesRequest(), metadata=device.metadata, timeout=10).guides


def tells_of_end(world, device, other, event):
    """Whether somebody learns by an event that another session of theirs ended; at the beginning of a watch by the list that they
    ask for then."""
    if event.event != session_service_pb2.SESSION_EVENT_WATCHING:
        return event.event == session_service_pb2.SESSION_EVENT_ENDED and event.sid == other.tokens.sid
    stub = session_service_pb2_grpc.SessionServiceStub(world.channel("identity"))
    request = session_service_pb2.ListSessionsRequest()
    listed = patiently(lambda: stub.ListSessions(request, metadata=device.metadata, timeout=10)).sessions
    return other.tokens.sid not in [session.sid for session in listed]


def expect_one_guest(server, device):
    """A device has one guest with one live session, however often it asked."""
    sub = row_name(device.subject.sub)
    assert server.query(f"SELECT guest_sub FROM identity.devices WHERE device_id = '{device.device_id}'") == str(sub)
    live = f"SELECT sid FROM identity.sessions WHERE sub = '{sub}' AND ended_at IS NULL"
    assert server.query(live) == str(row_name(device.tokens.sid))


def migrator_calls(world, account, merge):
    """Calls of a migrator that need the database, by their names: of an account, and of the device that merges."""
    records, migrations, own = world.records, world.migrations, {"metadata": account.metadata}
    device, merge_id = merge
    put = record_service_pb2.PutRecordsRequest(records=[record("cart", "turned-away")])
    get = record_service_pb2.GetRecordRequest(collection="cart", key="kept")
    page = record_service_pb2.ListRecordsRequest(collection="cart")
    delete = record_service_pb2.DeleteRecordRequest(collection="cart", key="none")
    found = migration.GetMigrationRequest(migration_id=merge_id)
    return {
        "PutRecords": lambda t: records.PutRecords(iter([put]), **own, timeout=t),
        "GetRecord": lambda t: records.GetRecord(get, **own, timeout=t),
        "ListRecords": lambda t: records.ListRecords(page, **own, timeout=t),
        "ListCollections": lambda t: records.ListCollections(record_service_pb2.ListCollectionsRequest(), **own, timeout=t),
        "DeleteRecord": lambda t: records.DeleteRecord(delete, **own, timeout=t),
        "ListMigrations": lambda t: migrations.ListMigrations(migration.ListMigrationsRequest(), **own, timeout=t),
        "GetMigration": lambda t: migrations.GetMigration(found, metadata=device.metadata, timeout=t),
        "WatchMigration": lambda t: list(merge_watch(world, *merge)(t)),
    }


def merge_watch(world, device, merge):
    request = migration.WatchMigrationRequest(migration_id=merge)
    return lambda t: world.migrations.WatchMigration(request, metadata=device.metadata, timeout=t)


def is_done(answer):
    return answer.migration.state == migration.MIGRATION_STATE_DONE


def test_migrator(pair, server, proxies):
    """C12: a migrator whose database falls silent is not ready and says so, has those who call or watch come back, refuses who
    signed out meanwhile, and recovers by itself; the other one does the merges, and what was written again is there once"""
    first, second = pair, pair.at(2)
    living, ended = first.account(), first.account()
    living.put([record("cart", "kept", b"1")])
    twins = {device: as_seen_at(second, device) for device in (living, ended)}
    for twin in twins.values():
        eventually(lambda twin=twin: is_let_in(ASKS["migrator"], twin), "the session is not let in")
    writers, busy = [first.account() for _ in range(6)], [first.account() for _ in range(3)]
    begin_one, begin_other = ready(first, 8000), ready(first, 300)
    device, merge = begin_one()
    watched = Waiter(merge_watch(second, device, merge), is_done)
    eventually(lambda: watched.answers or watched.failures, "the watch says nothing", longest=0.01)
    with (
        all_busy([rows_one_by_one(second, owner) for owner in busy]),
        Served(first, "migrator", lambda: ASKS["migrator"](living)),
        cut(second, "migrator", proxies["migrator"]) as silent,
    ):
        cut_at = watched.answers and migration.MigrationState.Name(watched.answers[-1].migration.state)
        three = [record("cart", f"k{number}") for number in range(3)]
        rows = [Writer(lambda owner=owner: put_at(second, owner, three)) for owner in writers]
        calls = migrator_calls(second, twins[living], (device, merge))
        all_turned_away(calls)
        print(eventually(lambda: says_so(second, "migrator"), "the instance does not say that it has no database"))
        late_device, late = begin_other()
        late_watch = Waiter(merge_watch(second, late_device, late), is_done)
        # What a migrator knows of sessions it hears from identity.
        revoke(first, ended)
        eventually(
            lambda: refusal(ASKS["migrator"], twins[ended]) == grpc.StatusCode.UNAUTHENTICATED, "it goes on letting in", seconds=5
        )
        assert max(turned_away(call) for call in calls.values()) < 2
        # The claim of the one that is cut off runs out.
        for who, what in ((device, merge), (late_device, late)):
            assert who.watch_merge(what, seconds=60)[-1].state == migration.MIGRATION_STATE_DONE
        assert late_watch.failures and not late_watch.answers
        time.sleep(max(0, silent + CUT - time.monotonic()))
        assert says_so(second, "migrator")
    print("the watch saw", cut_at, "before the cut")
    watched.expect_end("a merge")
    late_watch.expect_end("a merge that began meanwhile")
    eventually(lambda: is_let_in(ASKS["migrator"], twins[living]), "nobody is let in again")
    assert refusal(ASKS["migrator"], twins[ended]) == grpc.StatusCode.UNAUTHENTICATED
    assert [writer.done() for writer in rows] == [3] * len(rows)
    print("tries:", [writer.tries for writer in rows])
    for owner in writers:
        sub = row_name(owner.subject.sub)
        owner.world = second
        assert set(owner.rows("cart")) == {"k0", "k1", "k2"} and owner.collections() == {"cart": 3}
        assert server.query(f"SELECT records FROM migration.subjects WHERE sub = '{sub}'") == "3"
    for owner in busy:
        found = owner.rows("history")
        # One after the other, and each once.
        assert set(found) == {f"k{number}" for number in range(len(found))} and owner.collections() == {"history": len(found)}
        stored = f"SELECT records FROM migration.subjects WHERE sub = '{row_name(owner.subject.sub)}'"
        assert server.query(stored) == str(len(found))
    assert device.collections()["cart"] == 8000 and late_device.collections()["cart"] == 300
    for name, count in ((merge, 8000), (late, 300)):
        kept = f"SELECT count(*) FROM migration.migration_records WHERE migration = '{row_name(name)}'"
        assert server.query(kept) == str(count)
    assert put_at(second, living, [record("cart", "turned-away")]) == 1


def put_at(world, owner, rows):
    request = record_service_pb2.PutRecordsRequest(records=rows)
    return world.records.PutRecords(iter([request]), metadata=owner.metadata, timeout=10).written


def rows_one_by_one(world, owner):
    numbers = itertools.count()
    return lambda: functools.partial(put_at, world, owner, [record("history", f"k{next(numbers)}")])
