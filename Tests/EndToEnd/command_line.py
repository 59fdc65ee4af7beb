"""Runs the command-line tool as a script would."""

import json
import subprocess

from services import clean_environment


class CommandLine:
    def __init__(self, executable, state_directory):
        self.executable = executable
        self.state_directory = state_directory

    def command(self, world, profile, *words):
        fleet = world.fleet
        command = [str(self.executable), *words, "--profile", profile, "--state-dir", str(self.state_directory), "--json"]
        for name in ("identity", "qr", "migrator"):
            command += [f"--{name}", f"{fleet.host}:{fleet.ports[name][0]}"]
        if world.authority is not None:
            command += ["--tls-ca", str(world.authority)]
        return command

    def run(self, world, profile, *words, status=0, stdin=None, timeout=60):
        """The command's JSON answer; `status` is the exit status that it must have."""
        finished = subprocess.run(
            self.command(world, profile, *words),
            input=stdin, capture_output=True, text=True, timeout=timeout, env=clean_environment(),
        )  # fmt: skip
        assert finished.returncode == status, f"exit {finished.returncode}\n{finished.stdout}\n{finished.stderr}"
        return json.loads(finished.stdout) if finished.stdout else None

    __call__ = run

    def start(self, world, profile, *words):
        return subprocess.Popen(
            self.command(world, profile, *words),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=clean_environment(),
        )  # fmt: skip
