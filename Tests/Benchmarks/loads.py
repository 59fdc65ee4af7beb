"""Loads: h2load against a server, and what it cost in the steady part of the run."""

import bisect
import pathlib
import re
import struct
import subprocess
import tempfile
import threading
import time

import machine

# How often the server's CPU time is read during a run.
SAMPLE_SECONDS = 0.01
# The part of the requests at each end of a run that is not counted: connecting and handshakes, then connections that
# have nothing left to ask.
EDGE = 0.10


def framed(message):
    """A message behind its gRPC prefix."""
    return b"\0" + struct.pack(">I", len(message)) + message


class Sampler:
    """Reads a server's CPU time every few milliseconds, next to the wall clock."""

    def __init__(self, server):
        self.pid = server.process.pid
        self.samples = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        while True:
            before = time.time_ns()
            cpu = machine.cpu_ns(self.pid)
            self.samples.append(((before + time.time_ns()) // 2000, cpu / 1000))
            if self._over.wait(SAMPLE_SECONDS):
                return

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()


def steady(samples, log):
    """CPU microseconds a request, requests a second and latencies of the middle of a run.

    `samples` are (wall clock, CPU time) and `log` (start, latency), all in microseconds. Both ends of the window lie on
    samples, so its CPU time and its requests are counted between the same two instants.
    """
    ends = sorted(start + latency for start, latency in log)
    first, last = ends[int(len(ends) * EDGE)], ends[int(len(ends) * (1 - EDGE)) - 1]
    inside = [sample for sample in samples if first <= sample[0] <= last]
    if len(inside) < 2:
        raise SystemExit("bench: the run was too short to measure; ask for more requests")
    (from_time, from_cpu), (to_time, to_cpu) = inside[0], inside[-1]
    requests = bisect.bisect_right(ends, to_time) - bisect.bisect_right(ends, from_time)
    latencies = sorted(latency for start, latency in log if from_time < start + latency <= to_time)
    return {
        "cpu_us_per_request": round((to_cpu - from_cpu) / requests, 3),
        "requests_per_second": round(requests / (to_time - from_time) * 1e6, 1),
        "p50_us": latencies[len(latencies) // 2],
        "p99_us": latencies[len(latencies) * 99 // 100],
    }


def read_log(path):
    """[(start, latency)] of h2load's log file, whose lines are start, HTTP status, latency."""
    log = []
    for line in path.read_text().splitlines():
        start, status, latency = line.split("\t")
        if status != "200":
            raise SystemExit(f"bench: a request was answered with HTTP status {status}")
        log.append((int(start), int(latency)))
    return log


def h2load(server, path, body, connections, streams, requests, log):
    """Sends the same request again and again, and makes sure that all are answered with HTTP status 200."""
    with tempfile.NamedTemporaryFile() as data:
        command = [
            "taskset", "-c", str(machine.LOAD_CORE), "h2load",
            "-n", str(requests), "-c", str(connections), "-m", str(streams), "--log-file", str(log),
        ]  # fmt: skip
        if body is not None:
            data.write(body)
            data.flush()
            command += ["-d", data.name, "-H", "content-type: application/grpc", "-H", "te: trailers"]
        run = subprocess.run([*command, server.target + path], capture_output=True, text=True, timeout=1200)
    counted = re.search(r"(\d+) succeeded, (\d+) failed, (\d+) errored", run.stdout)
    if run.returncode or not counted or int(counted[1]) != requests:
        raise SystemExit(f"bench: h2load against {server.name} failed:\n{run.stdout}\n{run.stderr}")


def costs(server, connections, streams, load):
    """What `load`, which writes its log to the path that it is given, cost the server: the columns of a result."""
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder, "log")
        with Sampler(server) as sampler:
            load(log)
        return {
            "connections": connections,
            "streams": streams,
            "tls": server.tls,
            **steady(sampler.samples, read_log(log)),
            "rss_kib": machine.rss_kib(server.process.pid),
        }


def measure(server, path, body, connections, streams, requests):
    """A load by h2load and what it cost."""
    return costs(
        server, connections, streams, lambda log: h2load(server, path, body, connections, streams, requests, log)
    )


LOAD = machine.OUT / "load" / "load"


def own(mode, server, *arguments, connections=1, streams=1, requests=1, log=None):
    """A load by our own program (see load/main.cc), which checks every answer."""
    command = [
        "taskset", "-c", str(machine.LOAD_CORE), LOAD, mode, "--to", f"127.0.0.1:{server.port}",
        "--connections", connections, "--streams", streams, "--requests", requests, *arguments,
    ]  # fmt: skip
    if server.tls:
        command.append("--tls")
    if log is not None:
        command += ["--log", log]
    run = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=1200)
    if run.returncode:
        raise SystemExit(f"bench: {mode} against {server.name} failed: {run.stderr}")


def measure_own(mode, server, connections, streams, requests, *arguments):
    """The same and what it cost."""
    counts = {"connections": connections, "streams": streams, "requests": requests}
    return costs(server, connections, streams, lambda log: own(mode, server, *arguments, **counts, log=log))
