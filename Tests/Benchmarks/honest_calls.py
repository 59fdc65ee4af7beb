"""Real calls of honest clients beside an attack: issue, poll, watch, refresh, sign in, put records and list them.

Each kind is called on a connection that was there before the attack and on a new one for each call.
"""

import collections
import contextlib
import os
import pathlib
import sys
import threading
import time

# An attacker is forked from this process and makes no call by gRPC.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "Tests" / "EndToEnd"), str(ROOT / "Tests" / "Story")]

import conftest  # noqa: E402, F401  (makes the stubs)
import grpc  # noqa: E402
import services  # noqa: E402
from latchkey.identity.v1 import auth_service_pb2, auth_service_pb2_grpc  # noqa: E402
from latchkey.migration.v1 import record_service_pb2, record_service_pb2_grpc  # noqa: E402
from latchkey.qr.v1 import qr_session_service_pb2, qr_session_service_pb2_grpc  # noqa: E402
from waiting import eventually  # noqa: E402
from world import CLIENT_ID, PASSWORD, UNTHROTTLED, base64url, record, unique_identifier  # noqa: E402

# What a call may take, in seconds, and how long after one the next of its kind begins: a password's hash takes long.
DEADLINE = 5
PAUSE = {"sign in": 0.25}
HONEST = "127.0.0.1/32"


def fleet(binaries, folder, way):
    """The services, with limits by address for everybody but the honest clients."""
    many = "1000000"
    identity = ["--sign-in-per-hour", many, "--guest-per-hour", many, "--register-per-hour", many]
    arguments = {"qr": [*UNTHROTTLED["qr"], "--limits-exempt", way.exempt], "identity": identity, "migrator": []}
    arguments = {service: [*given, "--threads", "1", *way.flags] for service, given in arguments.items()}
    return services.Fleet(binaries, folder, arguments=arguments, exempt=way.exempt, tls=bool(way.authority))


class Callers:
    def __init__(self, world, service):
        self.world, self.service = world, service
        self.kinds = {"qr": ["issue", "poll", "watch"], "identity": ["refresh", "sign in"], "migrator": ["put", "list"]}[service]
        self.old = {kind: world.new_channel(service) for kind in self.kinds}
        # What those were told since the last attack that were not served.
        self.told = collections.Counter()
        if service != "qr":
            self.device = world.device()
            self.device.start_as_guest()
        if service == "identity":
            self.name = unique_identifier()
            world.account(self.name)

    def close(self):
        for channel in self.old.values():
            channel.close()

    def prepare(self):
        """Before what is measured: what the calls are about."""
        self.told.clear()
        if self.service == "qr":
            # One for each caller: a session has only so many watches.
            self.codes = {age: eventually(self.issued, "no code is issued") for age in ("old", "new")}

    def issued(self):
        """A code, unless the service has too much to do still from what was before."""
        with contextlib.suppress(grpc.RpcError):
            return self.world.device().issue_qr().device_code

    def measure(self, seconds):
        """{(kind, connection): how long each call took}; infinite for one that failed."""
        times = collections.defaultdict(list)
        end = time.monotonic() + seconds
        callers = [
            threading.Thread(target=self.repeat, args=[kind, age, end, times[kind, age]])
            for kind in self.kinds
            for age in ("old", "new")
        ]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        return times

    def repeat(self, kind, age, end, times):
        while time.monotonic() < end:
            began = time.monotonic()
            channel = self.old[kind] if age == "old" else self.world.new_channel(self.service)
            try:
                self.call(kind, age, channel)
                times.append(time.monotonic() - began)
            except grpc.RpcError as error:
                times.append(float("inf"))
                self.told[f"{kind}: {error.code().name}, {error.details()}"] += 1
            finally:
                if age == "new":
                    channel.close()
            time.sleep(PAUSE.get(kind, 0.04))

    def call(self, kind, age, channel):
        if kind == "issue":
            challenge = base64url(bytes(32))
            request = qr_session_service_pb2.IssueSessionRequest(
                client_id=CLIENT_ID, purpose=qr_session_service_pb2.PURPOSE_LOGIN,
                code_challenge=challenge, code_challenge_method="S256",
            )  # fmt: skip
            answer = qr_session_service_pb2_grpc.QrSessionServiceStub(channel).IssueSession(request, timeout=DEADLINE)
            # The one before would have expired some time.
            self.codes[age] = answer.device_code
        elif kind == "poll":
            request = qr_session_service_pb2.PollSessionRequest(device_code=self.codes[age])
            qr_session_service_pb2_grpc.QrSessionServiceStub(channel).PollSession(request, timeout=DEADLINE)
        elif kind == "watch":
            request = qr_session_service_pb2.WatchSessionRequest(device_code=self.codes[age])
            watch = qr_session_service_pb2_grpc.QrSessionServiceStub(channel).WatchSession(request, timeout=DEADLINE)
            next(watch)
            watch.cancel()
        elif kind == "refresh":
            # The same token again brings the same child.
            request = auth_service_pb2.RefreshRequest(refresh_token=self.device.tokens.refresh_token)
            auth_service_pb2_grpc.AuthServiceStub(channel).Refresh(request, timeout=DEADLINE)
        elif kind == "put":
            rows = [record_service_pb2.PutRecordsRequest(records=[record("notes", age, b"note")])]
            stub = record_service_pb2_grpc.RecordServiceStub(channel)
            stub.PutRecords(iter(rows), metadata=self.device.metadata, timeout=DEADLINE)
        elif kind == "list":
            request = record_service_pb2.ListRecordsRequest(collection="notes", page_size=100)
            stub = record_service_pb2_grpc.RecordServiceStub(channel)
            stub.ListRecords(request, metadata=self.device.metadata, timeout=DEADLINE)
        else:
            credential = auth_service_pb2.PasswordCredential(identifier=self.name, password=PASSWORD)
            request = auth_service_pb2.AuthenticateRequest(client_id=CLIENT_ID, password=credential)
            auth_service_pb2_grpc.AuthServiceStub(channel).Authenticate(request, timeout=DEADLINE)


@contextlib.contextmanager
def world(binaries, folder, way, place):
    """The services and stubs to them, by the way that honest clients come; `place` puts a process where it is to run."""
    with fleet(binaries, folder, way) as running:
        for service in running.services.values():
            place(service)
        with way.world(running) as world:
            yield world
