"""The server under attack: the QR service alone, cleartext and with TLS, and honest clients beside the attacker."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from target import MEASURED, serving  # noqa: E402


@pytest.fixture(scope="session")
def qr_binary():
    folder = pathlib.Path(os.environ.get("BINARIES", pathlib.Path(__file__).parents[3] / ".build" / "debug"))
    assert (folder / "latchkey-qr").exists(), "latchkey-qr is missing: swift build"
    return folder


@pytest.fixture(scope="session")
def target(qr_binary, tmp_path_factory):
    with serving(qr_binary, tmp_path_factory.mktemp("hostile")) as target:
        target.call()
        yield target


@pytest.fixture
def small_target(qr_binary, tmp_path):
    """A server that is soon full."""
    connections, calls = 40, 60
    limits = ["--limits-connections", str(connections), "--limits-calls", str(calls)]
    with serving(qr_binary, tmp_path, *limits) as target:
        target.connections, target.calls, target.is_full = connections, calls, True
        target.call()
        yield target


def pytest_terminal_summary(terminalreporter):
    if not MEASURED:
        return
    terminalreporter.section("honest clients beside attacks")
    for name, quiet, beside, calls, more in MEASURED:
        terminalreporter.write_line(
            f"{name:<60} p99 {beside * 1000:7.2f} ms (quiet {quiet * 1000:.2f}), {calls} calls, {more >> 10:6} KiB more"
        )


@pytest.fixture(scope="session")
def tls_target(qr_binary, tmp_path_factory):
    import authority

    folder = tmp_path_factory.mktemp("hostile-tls")
    files = authority.issue(folder)
    arguments = ["--tls-certificate-file", str(files.certificate), "--tls-key-file", str(files.key)]
    with serving(qr_binary, folder / "service", *arguments, authority=files.authority) as target:
        yield target
