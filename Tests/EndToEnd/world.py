"""The services as a stock gRPC client sees them, and what a person's devices do with them."""

import base64
import contextlib
import hashlib
import json
import secrets
import ssl
import time
import urllib.request

import grpc
import pytest
import services
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils
from google.rpc import error_details_pb2, status_pb2
from grpc.health.v1 import health_pb2, health_pb2_grpc
from latchkey.common.v1 import common_pb2
from latchkey.identity.v1 import (
    auth_service_pb2,
    auth_service_pb2_grpc,
    grant_service_pb2_grpc,
    guest_service_pb2,
    guest_service_pb2_grpc,
)
from latchkey.migration.v1 import (
    migration_service_pb2,
    migration_service_pb2_grpc,
    record_service_pb2,
    record_service_pb2_grpc,
)
from latchkey.qr.v1 import qr_session_service_pb2, qr_session_service_pb2_grpc
from waiting import eventually

CLIENT_ID = "latchkey-demo"
PASSWORD = "correct horse battery staple"

# Throttles meant for the open network would stop tests that make a thousand calls from one address.
UNTHROTTLED = {
    "qr": [
        "--poll-interval", "0s", "--poll-long-interval", "0s",
        "--limits-scans-per-minute", "0", "--limits-issues-per-minute", "0",
    ]
}  # fmt: skip

# Proxies on this machine may say whom they ask for; who says nothing of the kind is who it is.
TRUSTING = ["--proxies-trusted", "127.0.0.1"]


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_base64url(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class World:
    """Channels and stubs to one fleet, or to one of the instances of each service."""

    def __init__(self, fleet, authority=None, instance=1):
        self.fleet = fleet
        self.authority = authority
        self.instance = instance
        self._channels = {}
        self.open()

    def open(self):
        """Stubs over fresh channels, for instance after a restart."""
        self.close()
        self.guests = guest_service_pb2_grpc.GuestServiceStub(self.channel("identity"))
        self.auth = auth_service_pb2_grpc.AuthServiceStub(self.channel("identity"))
        self.grants = grant_service_pb2_grpc.GrantServiceStub(self.channel("identity"))
        self.qr = qr_session_service_pb2_grpc.QrSessionServiceStub(self.channel("qr"))
        self.migrations = migration_service_pb2_grpc.MigrationServiceStub(self.channel("migrator"))
        self.records = record_service_pb2_grpc.RecordServiceStub(self.channel("migrator"))

    def close(self):
        for channel in self._channels.values():
            channel.close()
        self._channels = {}

    def at(self, instance):
        """The same services by another instance of each."""
        return World(self.fleet, self.authority, instance)

    def target(self, name):
        if self.instance > 1 and name in services.NAMES:
            name = f"{name}-{self.instance}"
        return f"{self.fleet.host}:{self.fleet.ports[name][0]}"

    def new_channel(self, name, options=()):
        options = [
            ("grpc.initial_reconnect_backoff_ms", 50),
            # How long one attempt to connect may take, for all its name says: a busy machine needs a moment.
            ("grpc.min_reconnect_backoff_ms", 5000),
            ("grpc.max_reconnect_backoff_ms", 500),
            ("grpc.use_local_subchannel_pool", 1),
            *options,
        ]
        if self.authority is None:
            return grpc.insecure_channel(self.target(name), options)
        credentials = grpc.ssl_channel_credentials(self.authority.read_bytes())
        return grpc.secure_channel(self.target(name), credentials, options)

    def channel(self, name):
        if name not in self._channels:
            self._channels[name] = self.new_channel(name)
        return self._channels[name]

    def health(self, name, service=""):
        stub = health_pb2_grpc.HealthStub(self.channel(name))
        return stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=5).status

    def assert_alive(self):
        """Every service still answers, in the same process as before."""
        for name, service in self.fleet.services.items():
            assert service.is_running(), f"{name} has died:\n{service.log_tail()}"
            assert self.health(name) == health_pb2.HealthCheckResponse.SERVING

    def jwks(self):
        """The key set, as any verifier would fetch it: plain HTTP/1.1 on the gRPC port."""
        context = None
        if self.authority is not None:
            context = ssl.create_default_context(cafile=str(self.authority))
            context.set_alpn_protocols(["http/1.1"])
        url = f"{self.fleet.issuer}/.well-known/jwks.json"
        with urllib.request.urlopen(url, timeout=5, context=context) as answer:
            assert answer.status == 200
            return json.load(answer)

    def service_token(self):
        return (self.fleet.data_directory / "service-token").read_text().strip()

    # What devices do.

    def device(self, **arguments):
        return Device(self, **arguments)

    def account(self, identifier=None, **arguments):
        """A device that is signed in to a fresh account."""
        device = self.device(**arguments)
        device.start_as_guest()
        device.register(identifier or unique_identifier())
        return device


def unique_identifier():
    return f"user-{secrets.token_hex(8)}@example.com"


def bearer(token):
    return (("authorization", f"Bearer {token}"),)


class Device:
    """A person's device: a key, and the tokens of whoever uses it."""

    def __init__(self, world, label="test device"):
        self.world = world
        self.label = label
        self.device_id = secrets.token_urlsafe(16)
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.tokens = None
        self.subject = None
        self.identifier = None

    def jwk(self):
        numbers = self.key.public_key().public_numbers()
        return common_pb2.EcPublicJwk(
            kty="EC", crv="P-256",
            x=base64url(numbers.x.to_bytes(32, "big")),
            y=base64url(numbers.y.to_bytes(32, "big")),
        )  # fmt: skip

    def sign(self, message, key=None):
        """64 bytes, r then s."""
        r, s = utils.decode_dss_signature((key or self.key).sign(message, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")

    @property
    def metadata(self):
        return bearer(self.tokens.access_token)

    def remember(self, answer):
        self.tokens = answer.tokens
        self.subject = answer.subject
        return answer

    # Guest.

    def challenge(self):
        request = guest_service_pb2.GetChallengeRequest(client_id=CLIENT_ID, device_key=self.jwk())
        return self.world.guests.GetChallenge(request, timeout=10)

    def guest_request(self, challenge=None, **changes):
        challenge = challenge or self.challenge()
        message = b"\0".join(
            [b"latchkey-device-proof-v1", CLIENT_ID.encode(), self.device_id.encode(), challenge.challenge.encode()]
        )
        request = guest_service_pb2.IssueGuestRequest(
            client_id=CLIENT_ID,
            device=guest_service_pb2.Device(
                device_id=self.device_id, public_key=self.jwk(), label=self.label, platform="python", app_version="1.0"
            ),
            challenge=challenge.challenge,
            proof=self.sign(message),
            pow_solution=solve(challenge.challenge, challenge.pow_bits),
        )
        for field, value in changes.items():
            setattr(request, field, value)
        return request

    def start_as_guest(self):
        return self.remember(self.world.guests.IssueGuest(self.guest_request(), timeout=10))

    # Account.

    def register(self, identifier, password=PASSWORD, as_guest=True):
        self.identifier = identifier
        return self.remember(
            self.world.auth.Register(
                auth_service_pb2.RegisterRequest(
                    client_id=CLIENT_ID,
                    password=auth_service_pb2.PasswordCredential(identifier=identifier, password=password),
                    guest_token=self.tokens.access_token if as_guest and self.tokens else "",
                    nickname="Ada",
                ),
                timeout=20,
            )
        )

    def authenticate(self, identifier, password=PASSWORD, on_conflict=auth_service_pb2.ON_CONFLICT_REPORT):
        answer = self.world.auth.Authenticate(
            auth_service_pb2.AuthenticateRequest(
                client_id=CLIENT_ID,
                password=auth_service_pb2.PasswordCredential(identifier=identifier, password=password),
                guest_token=self.tokens.access_token if self.tokens else "",
                on_conflict=on_conflict,
                device_label=self.label,
            ),
            timeout=20,
        )
        return answer if answer.HasField("conflict") else self.remember(answer)

    def choose(self, ticket, on_conflict):
        return self.remember(
            self.world.auth.Authenticate(
                auth_service_pb2.AuthenticateRequest(
                    client_id=CLIENT_ID,
                    guest_token=self.tokens.access_token,
                    on_conflict=on_conflict,
                    link_ticket=ticket,
                    device_label=self.label,
                ),
                timeout=20,
            )
        )

    def refresh(self):
        answer = self.world.auth.Refresh(
            auth_service_pb2.RefreshRequest(refresh_token=self.tokens.refresh_token), timeout=10
        )
        self.tokens = answer.tokens
        return answer

    def introspect(self, token=None):
        return self.world.auth.Introspect(
            auth_service_pb2.IntrospectRequest(token=token or self.tokens.access_token),
            metadata=self.metadata,
            timeout=10,
        )

    # QR.

    def issue_qr(self, verifier=None, timeout=10, **fields):
        self.verifier = verifier or secrets.token_urlsafe(32)
        challenge = base64url(hashlib.sha256(self.verifier.encode()).digest())
        self.code = self.world.qr.IssueSession(
            qr_session_service_pb2.IssueSessionRequest(
                client_id=CLIENT_ID,
                purpose=qr_session_service_pb2.PURPOSE_LOGIN,
                code_challenge=challenge,
                code_challenge_method="S256",
                initiator=qr_session_service_pb2.Initiator(label=self.label, platform="python", app="tests"),
                **fields,
            ),
            timeout=timeout,
        )
        return self.code

    def poll(self, wait_ms=0, last_version=0, timeout=35):
        return self.world.qr.PollSession(
            qr_session_service_pb2.PollSessionRequest(
                device_code=self.code.device_code,
                code_verifier=self.verifier,
                last_version=last_version,
                wait_ms=wait_ms,
            ),
            timeout=timeout,
        )

    def scan(self, payload):
        return self.world.qr.ScanSession(
            qr_session_service_pb2.ScanSessionRequest(qr_payload=payload), metadata=self.metadata, timeout=10
        )

    def confirm(self, scan, check_code=""):
        return self.world.qr.ConfirmSession(
            qr_session_service_pb2.ConfirmSessionRequest(
                confirm_ticket=scan.confirm_ticket, check_code=check_code if scan.needs_check_code else ""
            ),
            metadata=self.metadata,
            timeout=10,
        )

    def deny(self, scan):
        return self.world.qr.DenySession(
            qr_session_service_pb2.DenySessionRequest(confirm_ticket=scan.confirm_ticket),
            metadata=self.metadata,
            timeout=10,
        )

    # Records.

    def put(self, records, batch=100):
        def messages():
            rows = list(records)
            for start in range(0, len(rows), batch):
                yield record_service_pb2.PutRecordsRequest(records=rows[start : start + batch])

        return self.world.records.PutRecords(messages(), metadata=self.metadata, timeout=60).written

    def collections(self):
        answer = self.world.records.ListCollections(
            record_service_pb2.ListCollectionsRequest(), metadata=self.metadata, timeout=10
        )
        return {collection.name: collection.count for collection in answer.collections}

    def rows(self, collection):
        """Every row of a collection by key."""
        rows = {}
        token = ""
        while True:
            page = self.world.records.ListRecords(
                record_service_pb2.ListRecordsRequest(collection=collection, page_size=500, page_token=token),
                metadata=self.metadata,
                timeout=20,
            )
            for record in page.records:
                assert record.key not in rows, "a page repeats a row"
                rows[record.key] = record
            token = page.next_page_token
            if not token:
                return rows

    def watch_merge(self, migration_id, seconds=60):
        """Every state of a merge, to its end. A watch that the service ends, because it may have missed something, is begun again."""
        request, found = migration_service_pb2.WatchMigrationRequest(migration_id=migration_id), []
        deadline = time.monotonic() + seconds
        while True:
            left = max(deadline - time.monotonic(), 0)
            try:
                for state in self.world.migrations.WatchMigration(request, metadata=self.metadata, timeout=left):
                    found.append(state.migration)
                return found
            except grpc.RpcError as error:
                if not is_away(error):
                    raise
                time.sleep(0.05)

    def begun_merge(self, change):
        """The merge that a sign-in asked for. When the migrator was late it begins by itself, and only the list tells it."""
        assert change.migration_id or change.migration_pending

        def listed():
            request = migration_service_pb2.ListMigrationsRequest()
            answer = self.world.migrations.ListMigrations(request, metadata=self.metadata, timeout=10)
            return next((one.migration_id for one in answer.migrations if one.guest_sub == change.previous_sub), None)

        return change.migration_id or eventually(listed, "the merge does not begin")

    def merge(self, migration_id):
        return self.world.migrations.GetMigration(
            migration_service_pb2.GetMigrationRequest(migration_id=migration_id), metadata=self.metadata, timeout=10
        ).migration


def record(collection, key, value=b"", number=0, seconds=1_790_000_000):
    row = record_service_pb2.Record(collection=collection, key=key, value=value, number=number)
    row.updated_at.seconds = seconds
    return row


def solve(challenge, bits):
    """Bytes s such that SHA-256(challenge, s) begins with that many zero bits."""
    if bits == 0:
        return b""
    counter = 0
    while True:
        candidate = counter.to_bytes(8, "little")
        digest = hashlib.sha256(challenge.encode() + candidate).digest()
        if int.from_bytes(digest, "big") >> (256 - bits) == 0:
            return candidate
        counter += 1


class Failure:
    """A gRPC error with its details decoded, as a stock client does."""

    def __init__(self, error):
        self.code = error.code()
        self.message = error.details()
        self.reason = None
        self.info = {}
        self.retry_after = None
        self.fields = {}
        for name, value in error.trailing_metadata() or ():
            if name == "grpc-status-details-bin":
                self._read(status_pb2.Status.FromString(value))

    def _read(self, status):
        assert status.code == self.code.value[0], "the details say another code than the status"
        assert status.message == self.message, "the details say another message than the status"
        for detail in status.details:
            info, retry, request = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo(), error_details_pb2.BadRequest()
            if detail.Unpack(info):
                self.reason, self.info = info.reason, {entry.key: entry.value for entry in info.metadata}
            elif detail.Unpack(retry):
                self.retry_after = retry.retry_delay.ToTimedelta()
            elif detail.Unpack(request):
                self.fields = {violation.field: violation.description for violation in request.field_violations}


def is_overloaded(error):
    """Whether a call was turned away because the service had too much to do."""
    return Failure(error).reason == "OVERLOADED"


def is_away(error):
    """Whether a call may be made again in a moment: the service is away for now, or has too much to do."""
    return error.code() == grpc.StatusCode.UNAVAILABLE or is_overloaded(error)


@contextlib.contextmanager
def refused(code, reason=None, field=None):
    """The call in the block must end with this status; yields a list that then holds its Failure."""
    caught = []
    with pytest.raises(grpc.RpcError) as error:
        yield caught
    failure = Failure(error.value)
    caught.append(failure)
    assert failure.code == code, f"{failure.code.name}: {failure.message}"
    if reason is not None:
        assert failure.reason == reason, f"{failure.reason}: {failure.message}"
    if field is not None:
        assert field in failure.fields, f"{failure.fields}: {failure.message}"
