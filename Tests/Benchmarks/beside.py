"""What a guest's start, a sign-in and a refresh cost two builds of the identity service, side by side.

    python Tests/Benchmarks/beside.py OLD NEW [--calls 200]

OLD and NEW are executables of `latchkey-identity`. Counted are the instructions of the process between two moments, by
callgrind: they come out the same on any day. A sign-in is by password, with the cheapest hash that a service may be
configured with, so that what is beside the hash shows. Ends with status 1 if any costs the new build more than 5 % more.
"""

import argparse
import asyncio
import pathlib
import re
import secrets
import subprocess
import sys
import tempfile
import time
import urllib.request

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "EndToEnd"))

import conftest  # noqa: E402, F401  (makes the stubs)
import services  # noqa: E402
from fast_client import FastClient  # noqa: E402
from latchkey.identity.v1 import auth_service_pb2 as auth  # noqa: E402
from latchkey.identity.v1 import guest_service_pb2 as guests  # noqa: E402
from world import CLIENT_ID, PASSWORD, Device, solve  # noqa: E402

MOST = 1.05
SERVICE = "/latchkey.identity.v1."


def exempt(executable):
    """No limits for this machine. Builds of before there was a key for it had none anyway."""
    said = subprocess.run([executable, "--help"], capture_output=True, text=True, check=True).stdout
    return ["--limits-exempt", services.LOOPBACK] if "--limits-exempt" in said else []


def callgrind_instructions(process, folder):
    """What a process under callgrind, which writes to `folder`/counts, executed since the last time that somebody asked."""
    before = set(folder.glob("counts.*"))
    subprocess.run(["callgrind_control", "--dump", str(process)], check=True, capture_output=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for path in set(folder.glob("counts.*")) - before:
            if found := re.findall(r"^(?:summary|totals): (\d+)", path.read_text(), re.MULTILINE):
                return int(found[-1])
        time.sleep(0.1)
    raise SystemExit("callgrind wrote nothing")


class Counted:
    """One build under callgrind, which counts from one moment to another."""

    def __init__(self, executable, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir()
        binary = self.folder / "latchkey-identity"
        # Not every valgrind knows all forms of the debug information.
        subprocess.run(["strip", "-g", "-o", binary, executable], check=True)
        self.port, management = services.free_port(), services.free_port()
        self.page = f"http://127.0.0.1:{management}/readyz"
        self.log = open(self.folder / "log", "wb")
        self.process = subprocess.Popen(
            [
                "valgrind", "--tool=callgrind", f"--callgrind-out-file={self.folder}/counts", binary,
                "--listen-port", str(self.port), "--management-port", str(management), "--data-dir", self.folder / "data",
                "--issuer", f"http://127.0.0.1:{self.port}", "--password-memory-kib", "8192", "--password-passes", "1",
                *exempt(executable),
            ],
            stdout=self.log, stderr=self.log, env=services.clean_environment(),
        )  # fmt: skip

    def wait(self, seconds=300):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                return urllib.request.urlopen(self.page, timeout=5).close()
            except OSError:
                time.sleep(0.2)
        raise SystemExit(f"it is not ready; see {self.log.name}")

    def instructions(self):
        """Those since the last time that somebody asked."""
        return callgrind_instructions(self.process.pid, self.folder)

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


class Caller:
    def __init__(self, port):
        self.client = FastClient("127.0.0.1", port, 1)
        self.identifier = f"user-{secrets.token_hex(8)}@example.com"
        self.devices = []

    async def call(self, method, request, answer):
        return await self.client.call(SERVICE + method, request, answer, timeout=120)

    async def guest(self):
        device = Device(None)
        challenge = await self.call(
            "GuestService/GetChallenge", guests.GetChallengeRequest(client_id=CLIENT_ID, device_key=device.jwk()),
            guests.GetChallengeResponse,
        )  # fmt: skip
        request = device.guest_request(challenge)
        request.pow_solution = solve(challenge.challenge, challenge.pow_bits)
        device.remember(await self.call("GuestService/IssueGuest", request, guests.IssueGuestResponse))
        self.devices.append(device)

    def secret(self):
        return auth.PasswordCredential(identifier=self.identifier, password=PASSWORD)

    async def register(self):
        request = auth.RegisterRequest(client_id=CLIENT_ID, password=self.secret())
        await self.call("AuthService/Register", request, auth.RegisterResponse)

    async def sign_in(self):
        request = auth.AuthenticateRequest(client_id=CLIENT_ID, password=self.secret())
        await self.call("AuthService/Authenticate", request, auth.AuthenticateResponse)

    async def refresh(self):
        device = self.devices[0]
        self.devices.append(self.devices.pop(0))
        request = auth.RefreshRequest(refresh_token=device.tokens.refresh_token)
        device.tokens = (await self.call("AuthService/Refresh", request, auth.RefreshResponse)).tokens


async def measure(server, calls):
    """Instructions a call, by what is called."""
    caller, costs = Caller(server.port), {}
    steps = {"guest start": caller.guest, "refresh": caller.refresh, "sign-in": caller.sign_in}
    await caller.register()
    for name, step in steps.items():
        for _ in range(10):
            await step()
        server.instructions()
        for _ in range(calls):
            await step()
        costs[name] = server.instructions() / calls
    caller.client.close()
    return costs


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--calls", type=int, default=200)
    given = parser.parse_args()
    costs = []
    with tempfile.TemporaryDirectory() as folder:
        for name, executable in (("old", given.old), ("new", given.new)):
            server = Counted(executable, pathlib.Path(folder, name))
            try:
                server.wait()
                costs.append(asyncio.run(measure(server, given.calls)))
            finally:
                server.stop()
    print(f"{'instructions a call':<20} {'old':>12} {'new':>12} {'ratio':>7}")
    for name, old in costs[0].items():
        print(f"{name:<20} {old:>12,.0f} {costs[1][name]:>12,.0f} {costs[1][name] / old:>7.3f}")
    return 1 if any(costs[1][name] > MOST * old for name, old in costs[0].items()) else 0


if __name__ == "__main__":
    sys.exit(main())
