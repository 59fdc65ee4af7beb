"""QR sign-in while the machine fails below it: no room on the disk, a disk that does not confirm, no open files left."""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import conftest
import grpc
import pytest
import services
from latchkey.qr.v1 import qr_session_service_pb2 as pb
from test_postgresql import readiness
from world import UNTHROTTLED, Failure, World

# Sign-ins that a fault may let pass: what it needs may be there already.
LUCKY = 300


class FullDisk:
    """The file system of a folder has no byte left."""

    def __init__(self, folder):
        self.filler = folder / "filler"

    def __enter__(self):
        with open(self.filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
            for size in (1 << 20, 1 << 12, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(size))

    def __exit__(self, *_):
        self.filler.unlink()


class UnconfirmedWrites:
    """The kernel says EIO whenever the QR service asks whether its writes are on the disk."""

    def __init__(self, fleet):
        self.pid = fleet["qr"].process.pid

    def __enter__(self):
        calls = "fdatasync,fsync"
        self.strace = subprocess.Popen(
            ["strace", "-f", "-qq", "-e", f"trace={calls}", "-e", f"inject={calls}:error=EIO", "-p", str(self.pid)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        end = time.monotonic() + 10
        while tracer(self.pid) != self.strace.pid:
            assert self.strace.poll() is None and time.monotonic() < end, "strace cannot attach"
            time.sleep(0.01)

    def __exit__(self, *_):
        self.strace.send_signal(signal.SIGINT)
        self.strace.wait()


def tracer(pid):
    """Who traces the threads of a process: the last one that got a tracer, or 0 while one has none."""
    found = set()
    for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError):
            fields = dict(line.split(":\t", 1) for line in (thread / "status").read_text().splitlines() if ":\t" in line)
            found.add(int(fields["TracerPid"]))
    return found.pop() if len(found) == 1 else 0


def why_not(fault, folder):
    """Why this fault cannot be made here; None when it can. Mounts what it needs."""
    if fault is FullDisk:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)], capture_output=True)
        return None if mounted.returncode == 0 else f"nothing can be mounted here: {mounted.stderr.decode().strip()}"
    if shutil.which("strace") is None:
        return "strace is missing"
    probe = subprocess.run(["strace", "-qq", "-e", "trace=none", "true"], capture_output=True)
    return None if probe.returncode == 0 else f"nothing can be traced here: {probe.stderr.decode().strip()}"


@pytest.fixture(params=[FullDisk, UnconfirmedWrites])
def failing(request, binaries, tmp_path):
    """A world of its own, and the fault that can be switched on and off below it."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    reason = why_not(request.param, folder)
    if reason:
        pytest.skip(reason)
    try:
        with services.Fleet(binaries, tmp_path, data_directory=folder, arguments=UNTHROTTLED) as fleet:
            yield World(fleet), request.param
    finally:
        if request.param is FullDisk:
            subprocess.run(["umount", str(folder)], check=True)


def attempt(call):
    """What the call was answered, or its failure, which says to come back later."""
    try:
        return call(), None
    except grpc.RpcError as error:
        failure = Failure(error)
        assert failure.code == grpc.StatusCode.UNAVAILABLE, f"{failure.code.name}: {failure.message}"
        assert failure.message and failure.retry_after is not None, failure.message
        return None, failure


def wait_for(holds, otherwise, seconds=20):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, otherwise
        time.sleep(0.05)


@pytest.mark.sqlite
def test_storage_fails_and_comes_back(failing):
    """S5: without storage every step is answered or refused in time, nothing acknowledged is lost, and no restart is needed"""
    world, fault = failing
    phone = world.account()
    confirmed = [world.device() for _ in range(3)]
    for screen in confirmed:
        code = screen.issue_qr()
        phone.confirm(phone.scan(code.qr_payload), code.check_code)
    waiting = world.device()
    code = waiting.issue_qr()
    scan = phone.scan(code.qr_payload)
    process = world.fleet["qr"].process.pid
    # Acknowledged while the fault was there, on top of what was before.
    acknowledged, refused = [], []
    with fault(world.fleet.data_directory if fault is FullDisk else world.fleet):
        for _ in range(LUCKY):
            screen = world.device()
            ticket = None
            issued, failure = attempt(screen.issue_qr)
            if issued:
                ticket, failure = attempt(lambda issued=issued: phone.scan(issued.qr_payload))
            if ticket:
                done, failure = attempt(lambda ticket=ticket, issued=issued: phone.confirm(ticket, issued.check_code))
                if done:
                    acknowledged.append(screen)
            if failure:
                refused.append(failure)
                break
        assert refused, "the fault changed nothing"
        answer, failure = attempt(lambda: phone.confirm(scan, code.check_code))
        assert failure or acknowledged or answer
        # Whoever balances the load is told as well, and only while it is so.
        wait_for(lambda: not world.fleet["qr"].is_ready(), "the service says that it is ready")
        # What needs no storage goes on.
        assert waiting.poll().state in (pb.SESSION_STATE_SCANNED, pb.SESSION_STATE_CONFIRMED)
    assert world.fleet["qr"].process.pid == process and world.fleet["qr"].is_running()
    end = time.monotonic() + 20
    while answer is None:
        assert time.monotonic() < end, "the service does not come back"
        answer, failure = attempt(lambda: phone.confirm(scan, code.check_code))
        time.sleep(0.1)
    wait_for(world.fleet["qr"].is_ready, "the service does not say that it is ready again")
    # What a crash leaves is what was acknowledged.
    world.fleet["qr"].restart()
    world.open()
    for screen in [*confirmed, *acknowledged, waiting]:
        answers = [screen.poll(), screen.poll()]
        assert all(answer.HasField("tokens") for answer in answers)
        assert len({answer.tokens.sid for answer in answers}) == 1
        assert answers[0].subject.sub == phone.subject.sub


@pytest.fixture
def full_database(binaries, tmp_path, database_server):
    """Services over a database whose rows are on a disk of their own, which is small, and the folder where that is."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="lkdisk-"))
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m,mode=777", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode != 0:
        folder.rmdir()
        pytest.skip(f"nothing can be mounted here: {mounted.stderr.decode().strip()}")
    place = f"small_{folder.name.removeprefix('lkdisk-').lower()}"
    try:
        folder.chmod(0o755)
        (folder / "rows").mkdir()
        database_server.own(folder / "rows")
        database_server.query(f"CREATE TABLESPACE {place} LOCATION '{folder / 'rows'}'", database="postgres")
        fleet = conftest.FleetOverPostgreSQL(database_server, binaries, tmp_path, arguments=UNTHROTTLED)
        database_server.query(f"ALTER DATABASE {fleet.database} SET TABLESPACE {place}", database="postgres")
        with fleet:
            yield World(fleet), folder
        database_server.query(f"DROP TABLESPACE {place}", database="postgres")
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        folder.rmdir()


def until_refused(world):
    """Starts guests and codes until the disk has no page for them."""
    for _ in range(LUCKY):
        failures = [attempt(call)[1] for call in (world.device().issue_qr, world.device().start_as_guest)]
        if all(failures):
            return
    pytest.fail("the fault changed nothing")


def test_full_disk_of_a_database(full_database):
    """S5: over PostgreSQL as well a service whose database has no room for new rows says that it is not ready and why, goes on
    with what needs none, and is ready again by itself once there is room"""
    world, folder = full_database
    phone, screen = world.account(), world.device()
    screen.issue_qr()
    services_here = [world.fleet[name] for name in ("identity", "qr")]
    processes = [service.process.pid for service in services_here]
    with FullDisk(folder):
        until_refused(world)
        for service in services_here:
            wait_for(lambda service=service: not service.is_ready(), f"{service.name} says that it is ready")
            status, text = readiness(service)
            assert (status, text.strip()) == (503, "the database cannot be written to: its disk is full")
        assert screen.poll().state == pb.SESSION_STATE_PENDING
        assert phone.introspect().active
        # Nobody writes any more, and it stays so.
        time.sleep(3)
        assert not any(service.is_ready() for service in services_here)
    for service in services_here:
        wait_for(service.is_ready, f"{service.name} does not say that it is ready again")
    assert world.device().start_as_guest().created
    phone.confirm(phone.scan(screen.code.qr_payload), screen.code.check_code)
    assert screen.poll().HasField("tokens")
    assert [service.process.pid for service in services_here] == processes


def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def processor_time(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_no_open_files_left(own_world):
    """With hardly a file left, connections that are there are served, new ones wait, and all is well again after

    The last files are never given to connections: the system's libraries end a process that cannot open one for a moment.
    """
    world = own_world
    phone, screen = world.account(), world.device()
    code = screen.issue_qr()
    scan = phone.scan(code.qr_payload)
    service = world.fleet["qr"]
    pid = service.process.pid
    limit = subprocess.run(
        ["prlimit", "--pid", str(pid), "--nofile", "--output", "SOFT,HARD", "--noheadings"],
        check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    most = max(int(number) for number in os.listdir(f"/proc/{pid}/fd")) + 168
    subprocess.run(["prlimit", "--pid", str(pid), f"--nofile={most}:{limit[1]}"], check=True)
    waiting = []
    try:
        for _ in range(200):
            client = socket.create_connection(("127.0.0.1", service.grpc_port), timeout=5)
            waiting.append(client)
        time.sleep(0.5)
        assert open_files(pid) <= most - 16
        began = processor_time(pid)
        time.sleep(2)
        assert processor_time(pid) - began < 1, "the service burns the processor while it cannot accept"
        lines = [line for line in service.log_path.read_text().splitlines() if "no connection is accepted" in line]
        assert len(lines) == 1 and "open files" in lines[0], "an operator has to see why nobody is let in, and not ten times a second"
        # Those that go make room for as many, and not for all who wait.
        for _ in range(12):
            for _ in range(2):
                waiting.pop(0).close()
            time.sleep(0.2)
            assert open_files(pid) <= most - 16
        assert screen.poll().state == pb.SESSION_STATE_SCANNED
        phone.confirm(scan, code.check_code)
    finally:
        subprocess.run(["prlimit", "--pid", str(pid), f"--nofile={limit[0]}:{limit[1]}"], check=True)
        for client in waiting:
            client.close()
    assert screen.poll().HasField("tokens")
    world.open()
    world.assert_alive()
    assert service.process.pid == pid


def is_closed(client):
    """Whether the server has closed the connection, whatever it said before."""
    client.settimeout(0.01)
    try:
        return client.recv(65536) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


@pytest.mark.usefixtures("engine")
def test_few_open_files(binaries, tmp_path):
    """A service that may have few files takes as many connections as they allow, refuses the rest, and signs people in"""
    fleet = services.Fleet(binaries, tmp_path, arguments=UNTHROTTLED)
    command = fleet["qr"].command
    fleet["qr"].command = lambda: ["prlimit", "--nofile=260:260", *command()]
    with fleet, contextlib.ExitStack() as stack:
        world = World(fleet)
        phone, screen = world.account(), world.device()
        code = screen.issue_qr()
        flood = [
            stack.enter_context(socket.create_connection(("127.0.0.1", fleet["qr"].grpc_port), timeout=5))
            for _ in range(300)
        ]
        phone.confirm(phone.scan(code.qr_payload), code.check_code)
        assert screen.poll().HasField("tokens")
        # Some are told why before they are closed, which takes a second.
        waiting, deadline = flood, time.monotonic() + 30
        while len(waiting) > 60 and time.monotonic() < deadline:
            waiting = [client for client in waiting if not is_closed(client)]
        assert len(waiting) <= 60
        world.assert_alive()
