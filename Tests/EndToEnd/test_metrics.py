"""What dashboards read: metrics as promtool and Prometheus understand them, and a start that warns of nothing."""

import json
import os
import subprocess
import time
import urllib.request

import pytest
import services
from services import clean_environment
from world import unique_identifier

PASSWORD = "a good long password\n"


def scrape(service):
    with urllib.request.urlopen(service.page_url("/metrics"), timeout=10) as answer:
        return answer.read().decode()


def values(text):
    """{name with its labels: value}"""
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


def sign_in(world, cli):
    """Somebody registers with records, and signs a screen in by its code."""
    cli(world, "phone", "guest")
    cli(world, "phone", "register", unique_identifier(), "--password-file", "-", stdin=PASSWORD)
    offer = cli(world, "desktop", "qr", "issue")
    cli(world, "phone", "qr", "scan", offer["qr_payload"])
    cli(world, "phone", "qr", "confirm")
    cli(world, "desktop", "qr", "wait")


@pytest.mark.parametrize("name", services.NAMES)
def test_promtool(world, cli, name):
    """metrics are as Prometheus wants them: promtool has nothing to say of names, types and help"""
    sign_in(world, cli)
    text = scrape(world.fleet[name])
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    assert checked.returncode == 0 and checked.stderr == "", checked.stderr
    described = {line.split()[2] for line in text.splitlines() if line.startswith("# HELP")}
    typed = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    assert described == typed


# Over PostgreSQL other things are counted of the store, and proofs are asked for again with a nonce.
@pytest.mark.sqlite
def test_names_of_dashboards(world, cli):
    """calls, the process, the store and the funnel of codes are counted under the names that dashboards ask for"""
    before = values(scrape(world.fleet["qr"]))
    sign_in(world, cli)
    after = values(scrape(world.fleet["qr"]))
    labels = 'grpc_method="ScanSession",grpc_service="latchkey.qr.v1.QrSessionService",grpc_type="unary"'
    for series in (
        f"grpc_server_started_total{{{labels}}}",
        f'grpc_server_handled_total{{grpc_code="OK",{labels}}}',
        f"grpc_server_handling_seconds_count{{{labels}}}",
        *[f'latchkey_qr_events_total{{event="{event}"}}' for event in ("issued", "scanned", "confirmed", "redeemed")],
    ):
        assert after[series] == before.get(series, 0) + 1, series
    for series in (
        "process_cpu_seconds_total", "process_resident_memory_bytes", "process_virtual_memory_bytes",
        "process_open_fds", "process_max_fds", "latchkey_store_commits_total",
        'latchkey_store_file_bytes{file="database"}',
    ):  # fmt: skip
        assert after[series] > 0, series
    assert abs(after["process_start_time_seconds"] - time.time()) < 3600
    assert any(name.startswith('latchkey_build_info{service="latchkey-qr",version="') for name in after)


def test_series_are_few(own_world):
    """a method that nobody calls has no series: a fresh service's metrics are a page, not two thousand lines"""
    for name in services.NAMES:
        assert len(values(scrape(own_world.fleet[name]))) < 150


@pytest.mark.usefixtures("engine")
def test_a_start_warns_of_nothing(binaries, tmp_path):
    """all services are ready within 300 ms of each other, a second over a database, and none logs a warning on the way"""
    with services.Fleet(binaries, tmp_path) as fleet:
        # A machine that is busy with something else may take its time over one start.
        within = 0.3 if os.environ.get("ENGINE", "sqlite") == "sqlite" else 1
        assert any(starts_together(fleet, within) for _ in range(10))


def starts_together(fleet, within):
    """Whether the services were ready within so many seconds of each other and none warned.

    Those that wait for another one for three seconds do warn.
    """
    fleet.stop()
    began = time.monotonic()
    for service in fleet.services.values():
        service.log_path.write_text("")
        service.start(wait=False)
    ready = {}
    while len(ready) < 3 and time.monotonic() < began + 30:
        for name, service in fleet.services.items():
            if name not in ready and service.is_ready():
                ready[name] = time.monotonic()
        time.sleep(0.002)
    assert len(ready) == 3
    has_warned = False
    for service in fleet.services.values():
        lines = [line for line in service.log_path.read_text().splitlines() if line.startswith("{")]
        levels = {json.loads(line)["level"] for line in lines}
        assert not {"error", "critical"} & levels, service.log_tail()
        assert "warning" not in levels or max(ready.values()) - began > 3, service.log_tail()
        has_warned = has_warned or "warning" in levels
    return not has_warned and max(ready.values()) - min(ready.values()) < within


def test_log_formats(binaries, tmp_path):
    """R42: at a terminal a log is text, and colours and all else are left out as NO_COLOR and --log-format say"""
    import os
    import pty

    def logged(*flags, environment={}):
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [str(binaries / "latchkey-qr"), "--dev", "--listen-port", "0", "--management-port", "0",
             "--data-dir", str(tmp_path / "data"), *flags],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs,
            env=clean_environment() | environment,
        )  # fmt: skip
        os.close(theirs)
        line = b""
        while not line.endswith(b"\n"):
            line += os.read(ours, 1)
        # Its line is there before it listens, and before it heeds a polite end.
        process.kill()
        process.wait()
        os.close(ours)
        return line.decode().strip()

    assert "\x1b[32mNOTICE" in logged()
    plain = logged(environment={"NO_COLOR": "1"})
    assert "\x1b" not in plain and "NOTICE   this is a service for development" in plain
    assert json.loads(logged("--log-format", "json"))["level"] == "notice"


@pytest.mark.parametrize("name", services.NAMES)
@pytest.mark.parametrize("flags", [["--listen-host", "0.0.0.0", "--insecure-cleartext"], ["--management-host", "0.0.0.0"]])
def test_development_stays_at_home(binaries, name, flags):
    """--dev is refused where other machines could reach the service"""
    command = [str(binaries / f"latchkey-{name}"), "--dev", *flags, "--check-config"]
    finished = subprocess.run(command, capture_output=True, text=True, env=clean_environment())
    assert finished.returncode == 78 and "loopback" in finished.stderr


def test_development_gives_way(binaries):
    """--dev changes defaults alone: what is set by anybody holds"""

    def limits(*flags, **environment):
        command = [str(binaries / "latchkey-qr"), *flags, "--print-config"]
        printed = subprocess.run(command, capture_output=True, text=True, env=clean_environment() | environment)
        return json.loads(printed.stdout)["limits"]

    assert limits()["issuesPerMinute"] == 600 and limits("--dev")["issuesPerMinute"] == 0
    assert limits(LATCHKEY_DEV="true")["scansPerMinute"] == 0
    assert limits("--dev", "--limits-issues-per-minute", "7")["issuesPerMinute"] == 7
    assert limits("--dev", LATCHKEY_LIMITS_ISSUES_PER_MINUTE="8")["issuesPerMinute"] == 8
