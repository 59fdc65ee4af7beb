"""Several instances of the QR service over one PostgreSQL: any of them serves any code."""

import collections
import contextlib
import itertools
import random
import re
import socket
import threading
import time

import authority
import database_proxy
import grpc
import postgresql
import pytest
import services
from latchkey.qr.v1 import qr_session_service_pb2 as pb
from test_qr_flows import patiently
from waiting import eventually, expect_prompt
from world import UNTHROTTLED, World, refused

# Seconds between two looks of an instance at what others left in the database, and in which it hears by being told.
LOOK, TOLD = 0.25, 0.1

server = postgresql.serving("module")


@pytest.fixture(scope="module")
def pair(binaries, tmp_path_factory, server):
    """Two instances of each service."""
    folder = tmp_path_factory.mktemp("pair")
    with postgresql.fleet(binaries, folder / "fleet", server, UNTHROTTLED, instances=2) as fleet:
        yield World(fleet)


def test_instances_start(pair):
    """Two instances of each service start over one PostgreSQL, each on ports of its own, and answer"""
    assert list(pair.fleet.services) == ["identity", "qr", "migrator", "identity-2", "qr-2", "migrator-2"]
    pair.assert_alive()
    folders = {service.data_directory for service in pair.fleet.services.values()}
    assert len(folders) == 2 and all(folder.is_dir() for folder in folders)
    seconds = pair.at(2)
    phone = pair.account()
    assert phone.introspect().active
    other = seconds.account()
    assert other.introspect().active
    assert other.device_id != phone.device_id and other.issue_qr().device_code


def worlds(pair):
    return [pair, pair.at(2)]


def test_any_instance(pair):
    """C1: a code is issued, polled, scanned, confirmed, watched and redeemed on whichever instances, and handed over once"""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    both = worlds(pair)
    phone = pair.account()
    for _ in range(12):
        screen = pair.device()

        def anywhere(call):
            phone.world = screen.world = chance.choice(both)
            return call()

        code = anywhere(screen.issue_qr)
        assert anywhere(screen.poll).state == pb.SESSION_STATE_PENDING
        scan = anywhere(lambda: phone.scan(code.qr_payload))
        watched = chance.choice(both).qr.WatchSession(pb.WatchSessionRequest(device_code=code.device_code), timeout=30)
        states = (answer.state for answer in watched)
        anywhere(lambda: phone.confirm(scan, code.check_code))
        assert any(state == pb.SESSION_STATE_CONFIRMED for state in states)
        watched.cancel()
        tokens = anywhere(lambda: eventually(lambda: screen.poll().tokens.access_token))
        for world in both:
            screen.world = world
            assert eventually(lambda: screen.poll().tokens.access_token) == tokens
        assert anywhere(lambda: phone.introspect(tokens)).active


def test_one_grant(pair):
    """S5: polls on two instances at once get one live sign-in between them"""
    phone = pair.account()
    for _ in range(5):
        screens = [pair.device()]
        code = screens[0].issue_qr()
        scan = phone.scan(code.qr_payload)
        phone.confirm(scan, code.check_code)
        request = pb.PollSessionRequest(device_code=code.device_code, code_verifier=screens[0].verifier)
        calls = [world.qr.PollSession.future(request, timeout=30) for world in worlds(pair) for _ in range(10)]
        tokens = {call.result().tokens.access_token for call in calls}
        # Whoever has not heard of the confirmation yet has nothing to hand over.
        tokens.discard("")
        assert len(tokens) == 1
        assert phone.introspect(tokens.pop()).active


def test_identity_stands_still(pair):
    """S5, C12: a poll that has the time waits for identity for longer than one turn lasts, is answered once it goes on, and what
    identity was asked in the turns before is not handed over as well"""
    first, second = worlds(pair)
    phone, screen = first.account(), first.device()
    code = screen.issue_qr()
    phone.confirm(phone.scan(code.qr_payload), code.check_code)
    request = pb.PollSessionRequest(device_code=code.device_code, code_verifier=screen.verifier)
    identities = [pair.fleet[name] for name in ("identity", "identity-2")]
    for identity in identities:
        identity.freeze()
    try:
        begun = time.monotonic()
        calls = [world.qr.PollSession.future(request, timeout=35) for world in (first, second)]
        # Turns last for five seconds.
        time.sleep(8)
        assert not any(call.done() for call in calls), [call.exception() for call in calls if call.done()]
    finally:
        for identity in identities:
            identity.thaw()
    tokens = {call.result().tokens.access_token for call in calls}
    print(f"answered after {time.monotonic() - begun:.1f} s")
    assert len(tokens) == 1
    # An identity that stood still looks at the database before it lets anybody in.
    assert patiently(lambda: phone.introspect(tokens.copy().pop())).active


def test_heard(pair):
    """C2: who waits on one instance hears of what another one changed as soon as that one tells it"""
    first, second = worlds(pair)
    phone, screen = first.account(), first.device()

    def delay():
        """How long after it was scanned somebody hears of it who waits for a code on the other instance."""
        screen.world = first
        code = screen.issue_qr()
        screen.world = second
        assert screen.poll().state == pb.SESSION_STATE_PENDING
        with waiting(screen, 1) as heard:
            phone.scan(code.qr_payload)
            scanned = time.monotonic()
        answer, came = heard[0]
        assert answer.state == pb.SESSION_STATE_SCANNED and answer.scanner_mask
        return came - scanned

    expect_prompt([delay() for _ in range(20)], TOLD)


@contextlib.contextmanager
def waiting(screen, version, wait_ms=25_000):
    """Somebody waits for what comes after a version of a code while the block changes it, which is at any moment between two looks of
    their instance at the database. Yields a list that then holds what they heard, and when."""
    heard = []

    def wait():
        # A refusal is nothing that is heard.
        with contextlib.suppress(grpc.RpcError):
            heard.append((screen.poll(wait_ms=wait_ms, last_version=version), time.monotonic()))

    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    time.sleep(0.05 + random.random() * LOOK)
    yield heard
    waiter.join()


def test_superseded(pair):
    """C1: the code that a screen shows on one instance dies when another one issues the next"""
    first, second = worlds(pair)
    phone, screen = first.account(), first.device()
    old = screen.issue_qr()
    screen.world = second
    new = screen.issue_qr(supersedes=old.device_code)
    with refused(grpc.StatusCode.NOT_FOUND):
        phone.scan(old.qr_payload)
    second.qr.CancelSession(pb.CancelSessionRequest(device_code=new.device_code), timeout=10)
    with refused(grpc.StatusCode.NOT_FOUND):
        phone.scan(new.qr_payload)


class Relay:
    """Carries bytes between whoever connects to its port and `target`, until it is frozen: then it takes them and keeps them."""

    def __init__(self, target):
        self.target = target
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.is_frozen = False
        self.carried = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(self.target)
            except OSError:
                # An instance is known to the others before it listens: whoever came comes again.
                near.close()
                continue
            for ends in ((near, far), (far, near)):
                threading.Thread(target=self.carry, args=ends, daemon=True).start()

    def carry(self, source, sink):
        with source, sink, contextlib.suppress(OSError):
            while data := source.recv(65536):
                if not self.is_frozen:
                    self.carried += len(data)
                    sink.sendall(data)

    def close(self):
        self.listener.close()


@contextlib.contextmanager
def splitting(binaries, folder, issuer=None):
    """Two instances of each service, and the two ways by which the second QR service hears of the first: from that one, by a relay,
    and from the database, by a proxy. With an issuer they speak TLS and know each other by certificate alone."""
    server = postgresql.PostgreSQL()
    arguments, files = dict(UNTHROTTLED), None
    for name in services.NAMES if issuer else ():
        files = issuer.issue(folder / name, "localhost", f"latchkey-{name}")
        arguments[name] = [
            *arguments.get(name, []),
            "--services-authentication", "certificate",
            "--tls-certificate-file", str(files.certificate), "--tls-key-file", str(files.key),
            "--tls-ca-file", str(files.authority), "--tls-caller-ca-file", str(files.authority),
        ]  # fmt: skip
    fleet = postgresql.fleet(binaries, folder / "fleet", server, arguments, instances=2, tls=bool(issuer))
    relay, proxy = Relay(("127.0.0.1", fleet["qr"].grpc_port)), database_proxy.DatabaseProxy(server.port)
    fleet.arguments["qr"] += ["--instance-address", f"{fleet.host}:{relay.port}"]
    fleet.arguments["qr-2"] += ["--instance-address", f"{fleet.host}:{fleet['qr-2'].grpc_port}"]
    fleet.arguments["qr-2"] += ["--storage-url", server.url("qr").replace(f":{server.port}/", f":{proxy.port}/")]
    try:
        with fleet:
            yield World(fleet, authority=files and files.authority), relay, proxy
    finally:
        relay.close()
        proxy.stop()
        server.stop()


@pytest.fixture
def split(binaries, tmp_path):
    with splitting(binaries, tmp_path) as made:
        yield made


def test_lost_wake(split):
    """C2: what an instance is not told, because the way to it is frozen, it hears from the database within a second"""
    pair, relay, _ = split
    first, second = worlds(pair)
    phone, screen = first.account(), first.device()
    eventually(lambda: relay.carried > 0)
    times = []
    for is_frozen in (False, *[True] * 6, False):
        relay.is_frozen = is_frozen
        screen.world = first
        code = screen.issue_qr()
        screen.world = second
        assert screen.poll().state == pb.SESSION_STATE_PENDING
        with waiting(screen, 1) as heard:
            scan = phone.scan(code.qr_payload)
            changed = [time.monotonic()]
        with waiting(screen, 2) as confirmed:
            phone.confirm(scan, code.check_code)
            changed.append(time.monotonic())
        heard += confirmed
        assert [answer.state for answer, _ in heard] == [pb.SESSION_STATE_SCANNED, pb.SESSION_STATE_CONFIRMED]
        if is_frozen:
            times += [came - change for (_, came), change in zip(heard, changed)]
        assert eventually(lambda: screen.poll(wait_ms=1000).tokens.access_token)
    expect_prompt(times, 1)
    eventually(second.fleet["qr-2"].is_ready, "it is not ready")


def test_told(split):
    """C2: who waits on an instance whose database is silent hears what another instance tells it"""
    expect_told(*split)


def test_told_by_certificate(binaries, tmp_path):
    """C2, R41: instances that know each other by certificate alone tell each other what has changed"""
    with splitting(binaries, tmp_path, authority.Authority()) as made:
        expect_told(*made)


def expect_told(pair, relay, proxy):
    first, second = worlds(pair)
    phone, screen = first.account(), first.device()
    eventually(lambda: relay.carried > 0)

    def is_heard():
        screen.world = first
        code = screen.issue_qr()
        screen.world = second
        assert screen.poll().state == pb.SESSION_STATE_PENDING
        # Shorter than the silence after which it says that it hears nothing.
        with waiting(screen, 1, wait_ms=3000) as heard:
            proxy.open.clear()
            phone.scan(code.qr_payload)
        proxy.open.set()
        return [answer.state for answer, _ in heard] == [pb.SESSION_STATE_SCANNED]

    # Nothing is told twice, so that a stream which is opened anew at that moment loses it.
    eventually(is_heard, "it is told nothing")
    assert sum(is_heard() for _ in range(4)) > 2


def test_kills(binaries, tmp_path):
    """S5, C1: whichever instance is killed at whichever step, a code that any of them serve ends in one live sign-in"""
    server = postgresql.PostgreSQL()
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    try:
        with postgresql.fleet(binaries, tmp_path / "fleet", server, UNTHROTTLED, instances=2) as fleet:
            both = worlds(World(fleet))
            phone = both[0].account()
            for round in range(8):
                kill_one(fleet, both, phone, chance, round)
    finally:
        server.stop()


def test_ends_of_the_gone(binaries, tmp_path):
    """S25: that the time of a code ended is said once, also when the instance that issued it was killed before"""
    server = postgresql.PostgreSQL()
    arguments = {**UNTHROTTLED, "qr": [*UNTHROTTLED.get("qr", []), "--code-lifetime", "20s"]}
    try:
        with postgresql.fleet(binaries, tmp_path / "fleet", server, arguments, instances=2) as fleet:
            first, second = worlds(World(fleet))
            for world in (first, second):
                world.device().issue_qr()

            def codes(event):
                """How often each code had it, at whichever instance."""
                lines = [line for name in ("qr", "qr-2") for line in fleet[name].log_path.read_text().splitlines()]
                found = (re.search(r'"qr_session_id": ?"([^"]+)"', line) for line in lines if event in line)
                return collections.Counter(match[1] for match in found if match)

            issued = eventually(lambda: codes("qr.issued") if len(codes("qr.issued")) == 2 else None)
            fleet["qr"].kill()
            eventually(lambda: set(codes("qr.expired")) == set(issued), seconds=120)
            # The living one looks again and again.
            time.sleep(12)
            assert codes("qr.expired") == issued
    finally:
        server.stop()


def kill_one(fleet, both, phone, chance, round):
    step, victim = round % 4, chance.choice(["qr", "qr-2"])
    # A balancer sends a call that failed to another instance.
    turns = itertools.cycle(both)
    screen = both[0].device()

    def anywhere(call):
        def attempt():
            phone.world = screen.world = next(turns)
            return call()

        return patiently(attempt, seconds=40)

    def strike(at):
        if at == step:
            fleet[victim].kill()

    label = f"round {round}: {victim} killed at step {step}"
    code = anywhere(screen.issue_qr)
    strike(0)
    scan = anywhere(lambda: phone.scan(code.qr_payload))
    strike(1)
    anywhere(lambda: phone.confirm(scan, code.check_code))
    strike(2)
    killer = threading.Timer(chance.random() * 0.01, strike, [3])
    killer.start()
    first = eventually(lambda: anywhere(screen.poll).tokens.access_token)
    killer.join()
    again = eventually(lambda: anywhere(screen.poll).tokens.access_token)
    assert phone.introspect(again).active, label
    if first != again:
        assert not phone.introspect(first).active, label
    fleet[victim].start()
