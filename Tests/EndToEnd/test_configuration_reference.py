"""The reference of the configuration says what the executables say."""

import json
import pathlib
import re
import subprocess
import sys

import pytest
from services import clean_environment

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "Sources" / "LatchkeyModel" / "LatchkeyModel.docc" / "Configuration.md"


def test_reference(binaries):
    """every key, default and meaning of the page is that of the executables"""
    command = [sys.executable, str(ROOT / "Tests" / "Tools" / "configuration-reference"), "--check", str(binaries)]
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr


def test_examples_are_valid(binaries, tmp_path):
    """each whole file of the page is accepted, and changes nothing"""
    sections = re.findall(r"## (latchkey-\w+)\n.*?```json\n(.*?)```", PAGE.read_text(), re.S)
    assert [service for service, _ in sections] == ["latchkey-identity", "latchkey-qr", "latchkey-migrator"]
    for service, text in sections:
        file = tmp_path / f"{service}.json"
        file.write_text(text)
        command = [str(binaries / service), "--config", str(file), "--print-config"]
        finished = subprocess.run(command, capture_output=True, text=True, env=clean_environment())
        assert finished.returncode == 0, finished.stderr
        assert json.loads(finished.stdout) == json.loads(text)


@pytest.mark.parametrize("name", ["Containerfile", "compose.yaml"])
def test_containers_know_the_keys(name):
    """R42: what the container files set by the environment are keys that the services have"""
    known = set(re.findall(r"LATCHKEY_[A-Z0-9_]+", PAGE.read_text()))
    # The folder of the certificates, for compose.yaml itself.
    used = set(re.findall(r"LATCHKEY_[A-Z0-9_]+", (ROOT / "deploy" / name).read_text())) - {"LATCHKEY_TLS"}
    assert used and used <= known
