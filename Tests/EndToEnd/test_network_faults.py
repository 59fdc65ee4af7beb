"""Networks that fail under QR sign-in: cut off without a word, losing packets, resetting connections."""

import concurrent.futures
import contextlib
import random
import threading
import time
import urllib.request

import grpc
import network
import pytest
from latchkey.qr.v1 import qr_session_service_pb2 as pb
from world import UNTHROTTLED, World, is_overloaded

pytestmark = pytest.mark.sqlite

# Seconds of silence after which a client with a call open is asked for a sign of life, and for how long.
SILENCE, PATIENCE = 1, 2
# What a busy machine may add.
SLACK = 10

UNANSWERED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)


@pytest.fixture(scope="module")
def parted(binaries, tmp_path_factory):
    """Two worlds over the same services: one that nothing happens to, and one by the address that fails."""
    reason = network.why_not()
    if reason:
        pytest.skip(reason)
    keepalive = ["--keepalive-interval", f"{SILENCE}s", "--keepalive-timeout", f"{PATIENCE}s"]
    arguments = UNTHROTTLED | {"*": keepalive}
    folder = tmp_path_factory.mktemp("parted")
    with network.Network() as net, network.Fleet(net, binaries, folder, arguments=arguments) as fleet:
        yield World(fleet), network.FarWorld(fleet), net


@pytest.fixture(autouse=True)
def healed(parted):
    yield
    parted[2].heal()


def usage(world):
    """What the QR service says of its port: the plain numbers of /metrics."""
    with urllib.request.urlopen(world.fleet["qr"].page_url("/metrics"), timeout=5) as answer:
        lines = [line.split(" ") for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return {name.removeprefix("server_"): float(value) for name, value in lines if "{" not in name}


def until(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def insistent(call, seconds=60):
    """The call's answer, however often it takes: what a client does on a bad network."""
    end = time.monotonic() + seconds
    while True:
        try:
            return call()
        except grpc.RpcError as error:
            is_worth_it = error.code() in UNANSWERED or is_overloaded(error)
            if not is_worth_it or time.monotonic() > end:
                raise
            time.sleep(0.05)


def watch(world, screen):
    request = pb.WatchSessionRequest(device_code=screen.code.device_code, code_verifier=screen.verifier)
    return world.qr.WatchSession(request, timeout=300)


def test_cut_watches_are_given_up(parted):
    """A partition: the server gives up every watch of a client that it cannot reach, and what they held is free"""
    near, far, net = parted
    quiet = usage(near)
    screens = [far.device() for _ in range(100)]
    for screen in screens:
        screen.issue_qr()
    watches = [watch(far, screen) for screen in screens]
    for calls in watches:
        assert next(calls).state == pb.SESSION_STATE_PENDING
    assert usage(near)["waiting_calls"] == quiet["waiting_calls"] + 100
    # Alive and silent is not lost: they answer when they are asked.
    time.sleep(SILENCE + PATIENCE + 1)
    assert usage(near)["waiting_calls"] == quiet["waiting_calls"] + 100
    net.cut()
    until(
        lambda: usage(near)["waiting_calls"] <= quiet["waiting_calls"],
        SILENCE + PATIENCE + SLACK, "watches that nobody reads are kept",
    )  # fmt: skip
    until(lambda: usage(near)["connections"] <= quiet["connections"] + 1, SLACK, "their connection is kept")
    assert usage(near)["buffered_bytes"] <= quiet["buffered_bytes"]
    net.heal()
    for calls in watches:
        with pytest.raises(grpc.RpcError) as error:
            next(calls)
        assert error.value.code() in UNANSWERED


def confirm_while_cut(parted, phone, code, given_up):
    """Confirms between a cut and its healing: when the server has given up on the screen, or while it still hopes."""
    near, _, net = parted
    scan = phone.scan(code.qr_payload)
    net.cut()
    if given_up:
        until(lambda: usage(near)["waiting_calls"] == 0, SILENCE + PATIENCE + SLACK, "the call is kept")
    phone.confirm(scan, code.check_code)
    until(lambda: usage(near)["waiting_calls"] == 0, SLACK, "the call is kept")
    net.heal()


@pytest.mark.parametrize("given_up", [False, True])
def test_confirmed_while_cut_off(parted, given_up):
    """S5: what is confirmed while the screen is cut off is handed over once when it is back, by the client's new connection"""
    near, far, net = parted
    phone, screen = near.account(), far.device(label="cut off")
    code = screen.issue_qr()
    states = watch(far, screen)
    assert next(states).state == pb.SESSION_STATE_PENDING
    confirm_while_cut(parted, phone, code, given_up)
    seen = []
    # What was on its way still comes, if its connection lives.
    with contextlib.suppress(grpc.RpcError):
        seen = [state.state for state in states]
    assert seen in ([], [pb.SESSION_STATE_SCANNED], [pb.SESSION_STATE_SCANNED, pb.SESSION_STATE_CONFIRMED]), seen
    assert not given_up or pb.SESSION_STATE_CONFIRMED not in seen
    answers = [insistent(screen.poll) for _ in range(3)]
    assert all(answer.HasField("tokens") for answer in answers)
    assert len({answer.tokens.sid for answer in answers}) == 1
    assert len({answer.tokens.refresh_token for answer in answers}) == 1
    screen.world = near
    screen.remember(answers[0])
    assert screen.introspect().sub == phone.subject.sub


@pytest.mark.parametrize("given_up", [False, True])
def test_command_line_comes_back(parted, cli, given_up):
    """S5: the command-line tool that waits for its code is signed in after the partition, by what was confirmed within it"""
    near, far, net = parted

    class FarTool(type(cli)):
        def command(self, world, profile, *words):
            return [word.replace(net.near, net.far) for word in super().command(world, profile, *words)]

    tool = FarTool(cli.executable, cli.state_directory)
    phone = near.account()
    issued = tool(near, "screen", "qr", "issue")
    code = pb.IssueSessionResponse(qr_payload=issued["qr_payload"], check_code=issued["check_code"])
    waiting = tool.start(near, "screen", "qr", "wait")
    try:
        until(lambda: usage(near)["waiting_calls"] > 0, 20, "the tool does not wait")
        confirm_while_cut(parted, phone, code, given_up)
        out, err = waiting.communicate(timeout=60)
        assert waiting.returncode == 0, (out, err)
    finally:
        waiting.kill()
        waiting.wait()
    assert tool(near, "screen", "session", "introspect")["sub"] == phone.subject.sub


def sign_in(far, phone):
    """A whole sign-in by the failing network, each step until it is answered; the subject that the screen became."""
    screen = far.device(label="bad network")
    code = insistent(screen.issue_qr)
    scan = insistent(lambda: phone.scan(code.qr_payload))
    insistent(lambda: phone.confirm(scan, code.check_code))
    answer = insistent(lambda: screen.poll(wait_ms=5000, last_version=1))
    assert answer.HasField("tokens"), answer
    again = insistent(screen.poll)
    assert again.tokens.sid == answer.tokens.sid, "handed over twice"
    return answer.subject.sub


def sign_in_by(far, phones, count):
    """So many sign-ins, some at a time, each phone on the failing network as well."""
    for phone in phones:
        phone.world = far
    with concurrent.futures.ThreadPoolExecutor(len(phones)) as pool:
        jobs = [(phones[index % len(phones)], index) for index in range(count)]
        for phone, became in pool.map(lambda job: (job[0], sign_in(far, job[0])), jobs):
            assert became == phone.subject.sub


def test_lost_packets(parted):
    """Sign-ins on a network that loses 5 % of all packets both ways are slower, and complete"""
    near, far, net = parted
    phones = [near.account() for _ in range(4)]
    net.lose(5)
    sign_in_by(far, phones, 40)


def test_resets_in_mid_flow(parted):
    """S5: sign-ins whose connections are reset again and again complete with retries, each handed over once"""
    near, far, net = parted
    phones = [near.account() for _ in range(4)]
    chance, over = random.Random(11), threading.Event()
    resets = 0

    def resetter():
        nonlocal resets
        while not over.wait(chance.uniform(0.02, 0.2)):
            with net.resetting():
                time.sleep(chance.uniform(0, 0.05))
            resets += 1

    thread = threading.Thread(target=resetter)
    thread.start()
    try:
        # As many as it takes to be reset now and then: a fast machine is soon through with one round.
        for _ in range(20):
            sign_in_by(far, phones, 40)
            if resets > 5:
                break
    finally:
        over.set()
        thread.join()
    assert resets > 3, "nothing was reset"
