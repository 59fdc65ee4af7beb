"""The services as processes: how they stop, and what they write down."""

import contextlib
import fcntl
import itertools
import json
import os
import pathlib
import signal
import stat
import subprocess
import threading
import time

import grpc
import pytest
import services
import stored
from latchkey.qr.v1 import qr_session_service_pb2
from test_network_faults import usage
from waiting import eventually
from world import record


@pytest.mark.parametrize("name", services.NAMES)
def test_terminated(own_world, name):
    """R42: SIGTERM ends a service with status 0, soon"""
    started = time.monotonic()
    assert own_world.fleet[name].stop() == 0
    # An open call would have 20 s to end.
    assert time.monotonic() - started < 15


def event_loops(process):
    """How many event loops a process has."""
    threads = pathlib.Path(f"/proc/{process}/task").iterdir()
    return sum(thread.joinpath("comm").read_text().startswith("NIO-ELT-") for thread in threads)


@pytest.mark.usefixtures("engine")
def test_bound_to_a_core(binaries, tmp_path):
    """R42: a service that is bound to one core has one event loop, and one for crowds: more would only wait for each other"""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        with services.Fleet(binaries, tmp_path) as fleet:
            assert {name: event_loops(fleet[name].process.pid) for name in services.NAMES} == dict.fromkeys(services.NAMES, 2)
    finally:
        os.sched_setaffinity(0, cores)


def hears_the_end(process, binary):
    """Whether a process has become the service, and keeps SIGTERM for later or listens for it."""
    if os.readlink(f"/proc/{process}/exe") != str(binary.resolve()):
        return False
    with open(f"/proc/{process}/status") as status:
        masks = dict(line.split(":\t") for line in status if line.startswith(("SigBlk", "SigCgt")))
    return any(int(mask, 16) >> (signal.SIGTERM - 1) & 1 for mask in masks.values())


def ends_as_process_1(binary, data):
    """Ends a service that is process 1 as soon as it hears that: whether it had opened nothing by then."""
    # With a /proc of its own, as a container has it: the event loops' library looks for its threads there, and traps.
    command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0:
        command += ["--user", "--map-root-user"]
    process = subprocess.Popen(
        [
            *command, str(binary), "--listen-port", "0", "--management-port", "0",
            "--data-dir", str(data),
        ],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=services.clean_environment(),
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 20
        children = []
        while not children or not hears_the_end(children[0], binary):
            assert process.poll() is None and time.monotonic() < deadline, "the service does not begin"
            with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
                children = [int(child) for child in file.read().split()]
        was_early = not data.exists()
        os.kill(children[0], signal.SIGTERM)
        assert process.wait(timeout=20) == 0
        return was_early
    finally:
        process.kill()
        process.wait()


def test_terminated_as_process_1(binaries, tmp_path):
    """R42: as process 1, for which the system drops what nobody listens for, SIGTERM counts before anything is opened"""
    # On a busy machine a service may be further by the time that it is looked at.
    end = time.monotonic() + 60
    tries = itertools.takewhile(lambda _: time.monotonic() < end, range(200))
    early = (ends_as_process_1(binaries / "latchkey-qr", tmp_path / f"data-{number}") for number in tries)
    assert any(early), "it had always begun before it heard anything"


def test_terminated_as_it_begins(binaries, tmp_path):
    """R42: SIGTERM drains a service from the moment on that it listens"""
    ends = []
    for number in range(10):
        ports = tmp_path / f"ports-{number}"
        process = subprocess.Popen(
            [
                str(binaries / "latchkey-qr"), "--listen-port", "0", "--management-port", "0",
                "--ports-file", str(ports), "--data-dir", str(tmp_path / "data"),
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=services.clean_environment(),
        )  # fmt: skip
        try:
            deadline = time.monotonic() + 20
            # Without a pause: what comes after the file is a matter of microseconds.
            while not ports.exists():
                assert process.poll() is None and time.monotonic() < deadline, "the service does not begin"
            process.send_signal(signal.SIGTERM)
            said, _ = process.communicate(timeout=10)
            ends.append((process.returncode, b'"drained"' in said))
        finally:
            process.kill()
            process.wait()
    assert ends == [(0, True)] * 10


def test_running_calls_finish(own_world):
    """R42: SIGTERM lets running calls finish, refuses new ones, and exits 0"""
    screen = own_world.device()
    screen.issue_qr()
    answers = []

    def wait():
        try:
            answers.append(screen.poll(wait_ms=10_000, last_version=99).state)
        except grpc.RpcError as error:
            answers.append(error.code())

    threads = [threading.Thread(target=wait) for _ in range(8)]
    for thread in threads:
        thread.start()
    eventually(lambda: len(answers) + usage(own_world)["waiting_calls"] == 8, "the polls do not wait")
    status = own_world.fleet["qr"].stop()
    for thread in threads:
        thread.join(20)
    assert status == 0
    # Each poll was answered by the service itself, before its time was over; none was cut off.
    assert answers == [qr_session_service_pb2.SESSION_STATE_PENDING] * 8


def test_health_says_draining(own_world):
    """R42: a service that drains says so before it is gone"""
    service = own_world.fleet["identity"]
    assert service.is_ready()
    os.kill(service.process.pid, signal.SIGTERM)
    assert service.process.wait(10) == 0
    service.process = None


def check_health(service):
    """The exit status of a service's own probe, and what it says."""
    asked = subprocess.run(
        [*service.command(), "--check-health"], capture_output=True, text=True, timeout=10, env=services.clean_environment()
    )
    return asked.returncode, asked.stderr


def test_probe(own_world):
    """R42: --check-health says by its exit status whether a service serves, does not, or is not there"""
    for service in own_world.fleet.services.values():
        # A probe waits for two seconds, which may be too short on a busy machine.
        eventually(lambda: check_health(service) == (0, ""), f"{service.name} does not say that it serves")
    own_world.fleet["identity"].kill()
    status, said = check_health(own_world.fleet["identity"])
    assert status == 1 and str(own_world.fleet["identity"].management_port) in said
    # Without identity it starts, and waits for the keys of the tokens.
    own_world.fleet["qr"].kill()
    own_world.fleet["qr"].start(wait=False)
    while "not serving" not in said:
        assert own_world.fleet["qr"].is_running()
        status, said = check_health(own_world.fleet["qr"])
    assert status == 1


@pytest.mark.sqlite
def test_files_are_private(own_world):
    """R2: keys, tokens and databases are readable by their owner only"""
    own_world.account()
    folder = own_world.fleet.data_directory
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) >= 4
    for path in files:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, f"{path} is open to others"


def test_no_secret_at_rest(own_world):
    """R2: no token, password, poll secret or verifier is in a database or a log"""
    phone = own_world.account()
    screen = own_world.device()
    code = screen.issue_qr()
    phone.confirm(phone.scan(code.qr_payload), code.check_code)
    screen.remember(screen.poll())
    old = phone.tokens
    phone.refresh()
    secrets = {
        "password": "correct horse battery staple",
        "access token": phone.tokens.access_token,
        "refresh token": phone.tokens.refresh_token,
        "used refresh token": old.refresh_token,
        "screen's access token": screen.tokens.access_token,
        "screen's refresh token": screen.tokens.refresh_token,
        "device code": code.device_code,
        "code verifier": screen.verifier,
        "code reference": code.qr_payload.rsplit("/", 1)[1],
        "user code": code.user_code.replace("-", ""),
    }
    phone.put([record("notes", "n", b"this may be read at rest")])
    for service in own_world.fleet.services.values():
        service.stop()
    contents = {}
    for path in stored.files(own_world.fleet):
        # A server of PostgreSQL goes on, and takes some of its files away.
        with contextlib.suppress(FileNotFoundError):
            contents[path] = path.read_bytes()
    # Where a secret would be found.
    assert any(b"this may be read at rest" in content for content in contents.values())
    contents |= {service.log_path: service.log_path.read_bytes() for service in own_world.fleet.services.values()}
    for path, content in contents.items():
        for name, secret in secrets.items():
            # A log of statements has bytes in hexadecimal digits.
            for form in (secret.encode(), secret.encode().hex().encode()):
                assert form not in content, f"the {name} is in {path.name}"


def test_log_lines_are_json(own_world):
    """R42: every line of a log is one JSON document, whatever a caller writes"""
    device = own_world.device(label='evil"\n{"level":"error"}\r\x1b[31m')
    with pytest.raises(grpc.RpcError):
        device.start_as_guest()
    with pytest.raises(grpc.RpcError):
        own_world.device().authenticate('evil"\n{"level":"error"}@example.com')
    own_world.fleet.stop()
    for service in own_world.fleet.services.values():
        lines = service.log_path.read_text().splitlines()
        parsed = [line for line in lines if line.startswith("{")]
        assert parsed
        for line in parsed:
            assert isinstance(json.loads(line), dict)
        # Beside the lines of JSON, a service says only where it listens.
        assert all("listens on" in line for line in lines if not line.startswith("{")), lines


def test_log_that_nobody_reads(own_world):
    """R42: a log whose reader stands still holds up no call and no end, and it is read on once its reader goes on"""
    service = own_world.fleet["qr"]
    service.stop()
    reader, writer = os.pipe()
    # The least that a pipe has: some twenty lines.
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    service.process = subprocess.Popen(
        service.command(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=writer, env=services.clean_environment()
    )
    os.close(writer)
    service.wait_until_ready()

    def be_refused():
        """As often as has a line each in a second."""
        for _ in range(100):
            with pytest.raises(grpc.RpcError) as refused:
                own_world.qr.ScanSession(qr_session_service_pb2.ScanSessionRequest(), timeout=10, wait_for_ready=True)
            assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED

    be_refused()
    screen = own_world.device()
    screen.issue_qr()
    assert service.is_ready()
    with open(reader, encoding="utf-8") as log:
        lines = [json.loads(log.readline()) for _ in range(51)]
        assert sum(line["message"] == "call ended" for line in lines) >= 45, lines
        time.sleep(1)
        be_refused()
        assert service.stop(10) == 0
        # What the pipe had room for, and a piece that came while the first of it was read.
        assert json.loads(log.readline())


@pytest.mark.parametrize("name", services.NAMES)
def test_pages(world, name):
    """R42: the management port answers probes and scrapers"""
    import urllib.request

    for path, content in (("/livez", b"ok"), ("/readyz", b"ok"), ("/startupz", b"ok"), ("/metrics", b"# TYPE")):
        with urllib.request.urlopen(world.fleet[name].page_url(path), timeout=5) as answer:
            assert answer.status == 200 and content in answer.read()
