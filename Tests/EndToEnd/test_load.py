"""The load test, in short runs against the real services, and against services that break their promises."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import time

import grpc
import jwt
import pytest
import services
from grpc.health.v1 import health_pb2, health_pb2_grpc
from latchkey.qr.v1 import qr_session_service_pb2 as qr_pb2
from latchkey.qr.v1 import qr_session_service_pb2_grpc
from services import clean_environment
from waiting import eventually


def command(binaries, world, *words, qr=None):
    fleet = world.fleet
    targets = {name: f"{fleet.host}:{fleet.ports[name][0]}" for name in ("identity", "qr")}
    if qr:
        targets["qr"] = qr
    return [str(binaries / "latchkey"), "load", *words, *(f"--{name}={target}" for name, target in targets.items())]


def load(binaries, world, *words, status=0, qr=None):
    for _ in range(3):
        finished = subprocess.run(
            command(binaries, world, *words, qr=qr), capture_output=True, text=True, timeout=60, env=clean_environment()
        )
        # A disk or a processor that is busy with other tests makes a service refuse some, and it says so.
        said = finished.stdout + finished.stderr
        if finished.returncode == status or "OVERLOADED" not in said or "PROMISES BROKEN" in said:
            break
    assert finished.returncode == status, f"exit {finished.returncode}\n{finished.stdout}\n{finished.stderr}"
    return finished


def version(binaries):
    """What the QR service says that it is."""
    words = subprocess.run([binaries / "latchkey-qr", "--version"], capture_output=True, text=True, check=True).stdout.split()
    return words[-1]


@pytest.mark.parametrize("mode", ["poll", "long-poll", "watch", "full"])
def test_modes(binaries, world, tmp_path, mode):
    """Each mode does its work, every sign-in is handed over once, and the results come in every form"""
    path, page, picture = tmp_path / "load.json", tmp_path / "load.html", tmp_path / "load"
    words = ["--mode", mode, "--duration", "1s", "--streams", "2", "--connections", "2", "--accounts", "2"]
    files = ["--json", str(path), "--html", str(page), "--svg", str(picture), "--hgrm", str(picture)]
    finished = load(binaries, world, *words, *files, "--fail-if", "errors>0")
    result = json.loads(path.read_text())
    assert result["operations"] > 0 and result["error_count"] == 0 and result["violation_count"] == 0
    assert result["failed"] is False
    if mode != "poll":
        assert result["redeemed"] == sum(second["done"] for second in result["seconds"])
        assert {"flow", "issue", "scan", "confirm", "redeem"} <= result["latency_ns"].keys()
        assert "each exactly once, none lost" in finished.stdout
    assert "<polyline" in page.read_text()
    for name in ("latency", "throughput"):
        assert "<polyline" in (tmp_path / f"load-{name}.svg").read_text()


    for name, series in result["latency_ns"].items():
        lines = (tmp_path / f"load-{name}.hgrm").read_text().splitlines()
        assert lines[0].split() == ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"]
        assert lines[-1].endswith(f"Total count    = {series['count']:12}]")
    assert result["options"]["mode"] == mode and result["options"]["connections"] == 2
    assert result["versions"]["latchkey"] == result["versions"]["server"] == version(binaries)
    assert result["machine"]["processors"] == os.cpu_count()
    assert result["cpu"]["server_s"] > 0 and result["cpu"]["load_s"] > 0
    compared = subprocess.run(
        [str(binaries / "latchkey"), "load", "compare", str(path), str(path)], capture_output=True, text=True
    )
    rows = [line.split() for line in compared.stdout.splitlines()]
    assert compared.returncode == 0 and ["errors", "0", "0", "-"] in rows
    assert all(row[-1] in ("1.00", "-", "ratio") for row in rows)


@pytest.mark.usefixtures("engine")
def test_errors_fail(binaries, tmp_path):
    """A test of which one operation in a hundred fails has failed, unless it is told otherwise"""
    arguments = {"qr": ["--limits-issues-per-minute", "5"]}
    with services.Fleet(binaries, tmp_path, arguments=arguments) as fleet:
        other = type("Other", (), {"fleet": fleet})
        words = ["--rate", "20", "--duration", "1s", "--accounts", "1"]
        # The first of them takes what the minute allows.
        assert "passed  errors>100%" in load(binaries, other, *words, "--fail-if", "errors>100%").stdout
        assert "failed  errors>1%" in load(binaries, other, *words, status=1).stdout


@pytest.mark.usefixtures("engine")
def test_development_takes_a_load(binaries, tmp_path):
    """Services that run with --dev take what one machine can send, for which others tell it to slow down"""
    with services.Fleet(binaries, tmp_path, arguments={"*": ["--dev"]}) as fleet:
        other = type("Other", (), {"fleet": fleet})
        path = tmp_path / "load.json"
        full = ["--rate", "100", "--duration", "8s", "--accounts", "2"]
        watch = ["--mode", "watch", "--waiting", "1500", "--rate", "20", "--duration", "2s"]
        for words in (full, watch):
            load(binaries, other, *words, "--json", str(path), "--fail-if", "errors>25%")
            # A disk or a processor that is busy with other tests is no limit of the service's.
            errors = json.loads(path.read_text())["errors"]
            assert all("OVERLOADED" in reason for reason in errors), errors


def test_threshold(binaries, world):
    """A condition that holds gives its exit status"""
    finished = load(binaries, world, "--duration", "1s", "--accounts", "1", "--fail-if", "p99>1ns", status=1)
    assert "failed  p99>1ns" in finished.stdout


def test_open_loop_of_processes(binaries, world, tmp_path):
    """An open loop of two processes keeps its rate together"""
    path = tmp_path / "load.json"
    load(binaries, world, "--rate", "20", "--duration", "2s", "--processes", "2", "--accounts", "1", "--json", str(path))
    result = json.loads(path.read_text())
    assert result["operations"] + result["error_count"] == 40
    assert result["loop"] == "open" and result["latency_ns"]["late"]["count"] == 40


def test_waiting_screens(binaries, world, tmp_path):
    """Screens that wait are confirmed, and it is measured when their watch tells"""
    path = tmp_path / "load.json"
    words = ["--mode", "watch", "--waiting", "120", "--rate", "30", "--duration", "1s", "--accounts", "1"]
    finished = load(binaries, world, *words, "--json", str(path), "--fail-if", "errors>0")
    result = json.loads(path.read_text())
    assert result["latency_ns"]["wake"]["count"] == result["redeemed"] == 30
    assert "issue" not in result["latency_ns"]
    assert "3 connections open" in finished.stderr and "120 screens waiting" in finished.stderr


@pytest.mark.parametrize("flag", ["--tls-ca", "--tls-insecure"])
def test_tls(binaries, tls_world, flag):
    """TLS by its authority, or by none"""
    words = [flag, str(tls_world.authority)] if flag == "--tls-ca" else [flag]
    load(binaries, tls_world, *words, "--duration", "500ms", "--accounts", "1", "--fail-if", "errors>0")


def test_unknown_authority(binaries, tls_world):
    """A certificate of an authority that is not trusted is a fault, and no result"""
    finished = load(binaries, tls_world, "--tls", "--duration", "500ms", status=2)
    assert "cannot open" in finished.stderr and not finished.stdout


WRONG = [
    ["--mode", "walk"], ["--fail-if", "p99"], ["--duration", "x"], ["--rate", "0"], ["--waiting", "-1"], ["--bogus"],
]  # fmt: skip


@pytest.mark.parametrize("words", WRONG)
def test_wrong_usage(binaries, world, words):
    """A flag that makes no sense is named"""
    words = [f"{words[0]}={words[1]}"] if len(words) == 2 else words
    assert words[0].split("=")[0] in load(binaries, world, *words, status=2).stderr


def test_faults(binaries, world, tmp_path):
    """A test that cannot run, or cannot write its results, is no failed test"""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{probe.getsockname()[1]}"
        finished = load(binaries, world, "--processes", "2", "--duration", "1s", qr=nobody, status=2)
    assert f"connection to {nobody}" in finished.stderr.replace("connections", "connection") and not finished.stdout
    words = ["--mode", "poll", "--duration", "200ms", "--html", str(tmp_path / "no" / "load.html")]
    assert "load.html" in load(binaries, world, *words, status=2).stderr


def children(pid):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        found += map(int, (task / "children").read_text().split())
    return found


def is_running(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


@contextlib.contextmanager
def long_run(binaries, world, seconds=1):
    """A test of three processes, well under way: (process, ids of the further ones)."""
    words = ["--mode", "poll", "--duration", "60s", "--processes", "3", "--streams", "1"]
    process = subprocess.Popen(
        command(binaries, world, *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment()
    )
    others = []
    try:
        eventually(lambda: len(children(process.pid)) == 2, seconds=10)
        others = children(process.pid)
        # The codes are issued in the first moments; then all three poll.
        time.sleep(seconds)
        yield process, others
    finally:
        for pid in [process.pid, *others]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ended_early(binaries, world, number):
    """A signal ends all processes, and the report tells of the time before"""
    for seconds in range(1, 6):
        with long_run(binaries, world, seconds) as (process, others):
            if number == signal.SIGINT:
                # As a terminal does: to every process of the group.
                for pid in others:
                    os.kill(pid, number)
            process.send_signal(number)
            output, errors = process.communicate(timeout=15)
            # On a busy machine it takes longer to begin.
            if "before the start" in errors:
                continue
            assert process.returncode == 128 + number
            assert f"ended early by {number.name}" in output and "polls in" in output
            assert not any(map(is_running, others))
            break
    else:
        raise AssertionError("it never began")


def test_no_process_is_left_behind(binaries, world):
    """When the first process is killed, the further ones notice and end"""
    with long_run(binaries, world) as (process, others):
        process.kill()
        process.wait()
        eventually(lambda: not any(map(is_running, others)), seconds=10)


def test_lost_process(binaries, world):
    """A process that dies takes the test with it: its part of the results is missing"""
    words = ["--mode", "poll", "--duration", "3s", "--processes", "2", "--streams", "1"]
    process = subprocess.Popen(
        command(binaries, world, *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment()
    )
    eventually(lambda: len(children(process.pid)) == 1, seconds=10)
    os.kill(children(process.pid)[0], signal.SIGKILL)
    output, errors = process.communicate(timeout=20)
    assert process.returncode == 2 and "process" in errors and not output


def test_slow_down(binaries, world, tmp_path):
    """Polls faster than the interval are told to slow down, which is no error when asked for; the others keep it"""
    fleet = services.Fleet(binaries, tmp_path / "slow", arguments={"qr": ["--poll-interval", "1s"]})
    with fleet:
        other = type("Other", (), {"fleet": fleet})
        path = tmp_path / "load.json"
        words = ["--mode", "poll", "--duration", "2s", "--streams", "2", "--json", str(path), "--fail-if", "errors>0"]
        load(binaries, other, *words, "--ignore-interval")
        result = json.loads(path.read_text())
        told = [count for what, count in result["notes"].items() if "slow down" in what]
        assert told and 0 < told[0] < result["operations"] and result["error_count"] == 0
        load(binaries, other, *words)
        result = json.loads(path.read_text())
        assert 2 <= result["operations"] <= 6 and not result["notes"]


class Liar(qr_session_service_pb2_grpc.QrSessionServiceServicer, health_pb2_grpc.HealthServicer):
    """A QR service that hands a sign-in over twice, or not at all."""

    def __init__(self, loses):
        self.loses = loses
        self.count = 0

    def Check(self, request, context):
        return health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVING)

    def IssueSession(self, request, context):
        return qr_pb2.IssueSessionResponse(device_code="code", qr_payload="payload", expires_in=60, interval=1)

    def ScanSession(self, request, context):
        return qr_pb2.ScanSessionResponse(confirm_ticket="ticket")

    def ConfirmSession(self, request, context):
        return qr_pb2.ConfirmSessionResponse()

    def PollSession(self, request, context):
        if self.loses:
            return qr_pb2.PollSessionResponse(state=qr_pb2.SESSION_STATE_PENDING)
        self.count += 1
        answer = qr_pb2.PollSessionResponse(state=qr_pb2.SESSION_STATE_CONFIRMED)
        answer.tokens.access_token, answer.tokens.sid = "token", f"session-{self.count}"
        return answer


class Witness(Liar):
    """A QR service that keeps its promises, and notes which access tokens it is shown, and when."""

    def __init__(self):
        super().__init__(loses=False)
        self.shown = []

    def IssueSession(self, request, context):
        self.count += 1
        code = f"code-{self.count}"
        return qr_pb2.IssueSessionResponse(device_code=code, qr_payload=code, expires_in=60, interval=1)

    def ScanSession(self, request, context):
        token = dict(context.invocation_metadata())["authorization"].removeprefix("Bearer ")
        claims = jwt.decode(token, options={"verify_signature": False})
        self.shown.append((time.time(), claims))
        return super().ScanSession(request, context)

    def PollSession(self, request, context):
        answer = qr_pb2.PollSessionResponse(state=qr_pb2.SESSION_STATE_CONFIRMED)
        answer.tokens.access_token, answer.tokens.sid = "token", request.device_code
        return answer


@contextlib.contextmanager
def serving(servicer):
    """The servicer's address."""
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
    qr_session_service_pb2_grpc.add_QrSessionServiceServicer_to_server(servicer, server)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    target = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield target
    finally:
        server.stop(None).wait()


@pytest.mark.usefixtures("engine")
def test_tokens_are_renewed(binaries, tmp_path):
    """A run that outlasts its accounts' access tokens shows no token past its time, and tells of each renewal"""
    with services.Fleet(binaries, tmp_path, arguments={"identity": ["--token-access-lifetime", "5s"]}) as fleet:
        other = type("Other", (), {"fleet": fleet})
        path, witness = tmp_path / "load.json", Witness()
        words = ["--rate", "20", "--duration", "9s", "--accounts", "2", "--json", str(path), "--fail-if", "errors>0"]
        with serving(witness) as target:
            finished = load(binaries, other, *words, qr=target)
    renewed = json.loads(path.read_text())["notes"]["access tokens renewed"]
    assert renewed >= 2 and f"access tokens renewed: {renewed}" in finished.stdout
    assert len({claims["sub"] for _, claims in witness.shown}) == 2
    assert witness.shown[-1][0] - witness.shown[0][0] > 5
    assert all(claims["exp"] - claims["iat"] == 5 for _, claims in witness.shown)
    late = [at - claims["exp"] for at, claims in witness.shown if at > claims["exp"] + 3]
    assert not late, f"{len(late)} of {len(witness.shown)} tokens were past their time"


@pytest.mark.parametrize("loses, broken", [(False, "one sign-in was handed over as"), (True, "sign-in was lost")])
def test_broken_promises(binaries, world, tmp_path, loses, broken):
    """A service that loses a sign-in or hands one over twice fails the test"""
    path = tmp_path / "load.json"
    words = ["--duration", "1s", "--streams", "1", "--accounts", "1", "--json", str(path)]
    with serving(Liar(loses)) as target:
        finished = load(binaries, world, *words, qr=target, status=1)
    result = json.loads(path.read_text())
    assert result["violation_count"] > 0 and result["failed"] is True
    assert any(broken in violation for violation in result["violations"])
    assert "NOT each exactly once" in finished.stdout
