"""The load test, in short runs against the real services."""

import json
import subprocess

import pytest
from services import clean_environment


def load(binaries, world, *words, status=0):
    fleet = world.fleet
    command = [str(binaries / "latchkey"), "load", *words]
    for name in ("identity", "qr"):
        command += [f"--{name}", f"{fleet.host}:{fleet.ports[name][0]}"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60, env=clean_environment())
    assert finished.returncode == status, f"exit {finished.returncode}\n{finished.stdout}\n{finished.stderr}"
    return finished


@pytest.mark.parametrize("mode", ["poll", "long-poll", "watch", "full"])
def test_modes(binaries, world, tmp_path, mode):
    """Each mode does its work, and every sign-in is handed over once"""
    path, page = tmp_path / "load.json", tmp_path / "load.html"
    words = ["--mode", mode, "--duration", "1s", "--streams", "2", "--connections", "2", "--accounts", "2"]
    load(binaries, world, *words, "--json", str(path), "--html", str(page), "--fail-if", "errors>0")
    result = json.loads(path.read_text())
    assert result["operations"] > 0 and result["error_count"] == 0 and result["violation_count"] == 0
    if mode != "poll":
        assert result["redeemed"] == sum(second["done"] for second in result["seconds"])
        assert {"flow", "issue", "scan", "confirm", "redeem"} <= result["latency_ns"].keys()
    assert "<polyline" in page.read_text()


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


@pytest.mark.parametrize("words", [["--mode", "walk"], ["--fail-if", "p99"], ["--duration", "x"], ["--rate", "0"]])
def test_wrong_usage(binaries, world, words):
    """A flag that makes no sense is named"""
    assert words[0] in load(binaries, world, *words, status=64).stderr
