"""The machine as the benchmarks use it: one core for the server, the other for its load, and what the kernel counts."""

import contextlib
import os
import pathlib
import socket
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / ".build" / "bench"
# The services under test: the release build, or what BINARIES names.
RELEASE = pathlib.Path(os.environ.get("BINARIES", ROOT / ".build" / "release"))

# The first two cores that this process may use; one of them twice where there is no second.
SERVER_CORE, LOAD_CORE = (2 * sorted(os.sched_getaffinity(0)))[:2]


def pin_self():
    """This script samples and checks: it shares the load's core and leaves the server's alone."""
    if SERVER_CORE == LOAD_CORE:
        raise SystemExit(f"bench: needs two cores, one for the server and one for its load; may use {SERVER_CORE} alone")
    os.sched_setaffinity(0, {LOAD_CORE})


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_listening(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def cpu_ns(pid):
    """CPU time of a process by the scheduler's own count, over all its threads, also those that have ended."""
    # What clock_getcpuclockid(3) makes of a process id in Linux.
    return time.clock_gettime_ns(~pid << 3 | 2)


def rss_kib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise RuntimeError(f"process {pid} has no VmRSS")
