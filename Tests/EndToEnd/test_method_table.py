"""Every method that the running services list, with every kind of credential, against the table that the docs print."""

import hashlib
import json
import pathlib
import secrets
import subprocess
import sys

import grpc
import proofs
import pytest
import services
from google.protobuf import descriptor_pb2
from grpc.reflection.v1 import reflection_pb2, reflection_pb2_grpc
from latchkey.identity.v1 import auth_service_pb2, session_service_pb2, session_service_pb2_grpc
from latchkey.qr.v1 import qr_session_service_pb2 as pb
from moved_clock import MovedClock
from test_reflection import SHARED
from world import CLIENT_ID, PASSWORD, UNTHROTTLED, Failure, World, base64url, bearer

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUEST = {"basic"}
ACCOUNT = {"basic", "profile", "account"}


def listed(world, name):
    """Every method that a service tells by reflection: its path, and whether it takes or gives many messages."""
    stub = reflection_pb2_grpc.ServerReflectionStub(world.channel(name))

    def ask(**request):
        [answer] = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(**request)]), timeout=10)
        assert not answer.HasField("error_response"), answer.error_response
        return answer

    for service in ask(list_services="").list_services_response.service:
        found = ask(file_containing_symbol=service.name).file_descriptor_response.file_descriptor_proto
        for file in map(descriptor_pb2.FileDescriptorProto.FromString, found):
            for described in file.service:
                if f"{file.package}.{described.name}" == service.name:
                    for method in described.method:
                        yield service.name, method.name, method.client_streaming, method.server_streaming


def table(binaries, name):
    """What an executable says of its methods."""
    command = [str(binaries / f"latchkey-{name}"), "--print-access"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=services.clean_environment())
    return json.loads(said.stdout)


def test_page_is_current(binaries):
    """R45: the documentation's table of methods is that of the executables"""
    command = [sys.executable, str(ROOT / "Tests" / "Tools" / "method-reference"), "--check", str(binaries)]
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr


class Credential:
    """How a caller shows who they are, and what a table's line makes of it."""

    def __init__(self, metadata=(), *, kind="person", scope=frozenset(), is_guest=False, is_recent=True, is_confirmed=True):
        self.metadata, self.kind, self.scope = metadata, kind, scope
        self.is_guest, self.is_recent, self.is_confirmed = is_guest, is_recent, is_confirmed

    def reason(self, name, path, call):
        """Why a call of this caller is refused."""
        if not callable(self.metadata):
            return reason_of(lambda: call(self.metadata))
        return reason_of(lambda: self.metadata.again(name, lambda: call(self.metadata(name, path))))

    def refusal(self, policy):
        """The reason that the table says; None lets the call through."""
        persons, wanted = policy["persons"], policy["requirement"]
        if persons == "anyone":
            return None
        if persons == "nobody":
            return None if self.kind == "service" else "SERVICE_ONLY"
        if self.kind == "service":
            return None if policy["services"] else "USER_TOKEN_REQUIRED"
        if self.kind != "person":
            return self.kind
        if persons == "account" and self.is_guest:
            return "LOGIN_REQUIRED"
        if wanted["scope"] and ("basic" if self.is_guest else wanted["scope"]) not in self.scope:
            return "INSUFFICIENT_SCOPE"
        if wanted["recent_proof"] and not self.is_recent:
            return "STEP_UP_REQUIRED"
        if wanted["confirmed"] and not self.is_confirmed:
            return "SESSION_UNCONFIRMED"
        return None


class Prover:
    """Proves a key, with the nonce that a service wants in its proofs."""

    def __init__(self, world, key):
        self.world, self.key, self.nonces = world, key, {}

    def __call__(self, name, path, token=None):
        at = self.world.clock.milliseconds / 1000
        return (("dpop", proofs.make(self.key, f"https://x{path}", token, self.nonces.get(name), at=at)),)

    def again(self, name, call):
        try:
            return call()
        except grpc.RpcError as error:
            failure = Failure(error)
            if failure.reason != "use_dpop_nonce":
                raise
            self.nonces[name] = failure.info["dpop_nonce"]
            return call()


REFRESH = "/latchkey.identity.v1.AuthService/Refresh"


def screen(world, phone, scope, *, is_confirmed, key=False):
    """The tokens of a screen that the phone signed in by a code."""
    device, verifier = world.device(), secrets.token_urlsafe(32)
    code = world.qr.IssueSession(
        pb.IssueSessionRequest(
            client_id=CLIENT_ID, purpose=pb.PURPOSE_LOGIN, scope=scope, device_key=device.jwk() if key else None,
            code_challenge=base64url(hashlib.sha256(verifier.encode()).digest()), code_challenge_method="S256",
        ),
        timeout=10,
    )  # fmt: skip
    scan = phone.scan(code.qr_payload)
    phone.confirm(scan)
    poll = pb.PollSessionRequest(device_code=code.device_code, code_verifier=verifier)
    tokens = world.qr.PollSession(poll, timeout=10).tokens
    if is_confirmed:
        sessions = session_service_pb2_grpc.SessionServiceStub(world.channel("identity"))
        sessions.ConfirmSession(
            session_service_pb2.ConfirmSessionRequest(sid=tokens.sid), metadata=phone.metadata, timeout=10
        )
        renew = auth_service_pb2.RefreshRequest(refresh_token=tokens.refresh_token)
        prove = Prover(world, device.key)
        tokens = prove.again(
            "identity", lambda: world.auth.Refresh(renew, metadata=prove("identity", REFRESH) if key else (), timeout=10)
        ).tokens
    return device, tokens


@pytest.fixture(scope="module")
def stage(engine, binaries, tmp_path_factory):
    """The services with a clock that stands still, and a caller of every kind."""
    directory = tmp_path_factory.mktemp("methods")
    clock = MovedClock(directory)
    fleet = engine(binaries, directory, arguments=UNTHROTTLED)
    fleet.environment = clock.environment
    with fleet:
        world = World(fleet)
        world.clock = clock
        yield world, credentials(world, clock)
        world.close()


def credentials(world, clock):
    stale_guest = world.device()
    stale_guest.start_as_guest()
    phone = world.account()
    stale = bearer(phone.tokens.access_token)
    clock.move(301)
    # Over PostgreSQL identity looks first which keys sign.
    world.fleet["identity"].wait_until_ready()
    guest = world.device()
    guest.start_as_guest()
    fresh = world.auth.Authenticate(
        auth_service_pb2.AuthenticateRequest(
            client_id=CLIENT_ID, password=auth_service_pb2.PasswordCredential(identifier=phone.identifier, password=PASSWORD)
        ),
        timeout=20,
    )
    phone.tokens = fresh.tokens
    ended = world.device()
    ended.tokens = world.auth.Authenticate(
        auth_service_pb2.AuthenticateRequest(
            client_id=CLIENT_ID, password=auth_service_pb2.PasswordCredential(identifier=phone.identifier, password=PASSWORD)
        ),
        timeout=20,
    ).tokens
    world.auth.Revoke(auth_service_pb2.RevokeRequest(token=ended.tokens.refresh_token), timeout=10)

    def of_screen(scope, **fields):
        confirmed = fields.pop("is_confirmed", True)
        _, tokens = screen(world, phone, scope, is_confirmed=confirmed)
        return Credential(bearer(tokens.access_token), scope=set(tokens.scope.split()), is_confirmed=confirmed, **fields)

    device, bound = screen(world, phone, "basic profile account", is_confirmed=True, key=True)

    prove = Prover(world, device.key)

    def proven(name, path):
        return (("authorization", f"DPoP {bound.access_token}"), *prove(name, path, bound.access_token))

    proven.again = prove.again

    return {
        "nothing": Credential(kind="TOKEN_INVALID"),
        "no token": Credential(bearer("x.y.z"), kind="TOKEN_INVALID"),
        "a guest": Credential(guest.metadata, scope=GUEST, is_guest=True),
        "a guest of long ago": Credential(stale_guest.metadata, scope=GUEST, is_guest=True, is_recent=False),
        "an unknown scope": of_screen("nothing-known"),
        "basic": of_screen("basic"),
        "a screen": of_screen("basic profile"),
        "an unconfirmed screen": of_screen("basic profile account", is_confirmed=False),
        "an account of long ago": Credential(stale, scope=ACCOUNT, is_recent=False),
        "an account": Credential(phone.metadata, scope=ACCOUNT),
        "a refresh token": Credential(bearer(phone.tokens.refresh_token), kind="TOKEN_INVALID"),
        "an ended session": Credential(ended.metadata, kind="SESSION_REVOKED"),
        "a bound token": Credential(proven, scope=ACCOUNT),
        "a bound token alone": Credential(bearer(bound.access_token), kind="invalid_dpop_proof"),
        "the services' secret": Credential(bearer(world.service_token()), kind="service"),
    }


def reason_of(call):
    try:
        call()
    except grpc.RpcError as error:
        return Failure(error).reason
    raise AssertionError("what is no message was taken")


def garbage(world, name, path, client_streams, server_streams):
    """A call of a method whose request is none, so that nothing comes of it, by its metadata."""
    kinds = {
        (False, False): "unary_unary", (True, False): "stream_unary", (False, True): "unary_stream", (True, True): "stream_stream",
    }  # fmt: skip
    raw = {"request_serializer": lambda data: data, "response_deserializer": lambda data: data}
    method = getattr(world.channel(name), kinds[client_streams, server_streams])(path, **raw)

    def call(metadata):
        answer = method(iter([GARBAGE]) if client_streams else GARBAGE, metadata=metadata, timeout=10)
        if server_streams:
            next(iter(answer))

    return call


# A tag without its value.
GARBAGE = b"\xff"
# What only the table's lines refuse with; each handler has reasons of its own besides.
BY_THE_TABLE = {
    "TOKEN_INVALID", "SESSION_REVOKED", "invalid_dpop_proof", "SERVICE_ONLY", "USER_TOKEN_REQUIRED", "LOGIN_REQUIRED",
    "INSUFFICIENT_SCOPE", "STEP_UP_REQUIRED", "SESSION_UNCONFIRMED",
}  # fmt: skip


@pytest.mark.parametrize("name", services.NAMES)
def test_every_method_with_every_credential(stage, binaries, name):
    """R45, R8, R34: every method that a service lists answers each kind of caller as the table says, and none is missing in it"""
    world, callers = stage
    lines = table(binaries, name)
    methods = [method for method in listed(world, name) if method[0] not in SHARED]
    assert {f"/{service}/{method}" for service, method, _, _ in methods} == set(lines)
    wrong = []
    for service, method, *streams in methods:
        path = f"/{service}/{method}"
        call = garbage(world, name, path, *streams)
        for who, caller in callers.items():
            said = caller.reason(name, path, call)
            expected = caller.refusal(lines[path])
            if expected != (said if said in BY_THE_TABLE else None):
                wrong.append(f"{path} with {who}: {said}, and the table says {expected}")
    assert not wrong, "\n".join(wrong)

