"""Proofs of possession over restarts, by a stock gRPC client."""

import grpc
import pytest
import services
from latchkey.identity.v1 import auth_service_pb2, session_service_pb2, session_service_pb2_grpc
from latchkey.migration.v1 import record_service_pb2, record_service_pb2_grpc

import proofs
from world import CLIENT_ID, PASSWORD, World, refused

pytestmark = pytest.mark.usefixtures("engine")

AUTHENTICATE = "/latchkey.identity.v1.AuthService/Authenticate"
SESSIONS = "/latchkey.identity.v1.SessionService/ListSessions"
RECORDS = "/latchkey.migration.v1.RecordService/ListRecords"


class Bound:
    """An account on a device whose tokens are bound to its key."""

    def __init__(self, world, nonce=None):
        self.world = world
        self.device = world.account()
        self.sessions = session_service_pb2_grpc.SessionServiceStub(world.channel("identity"))
        self.records = record_service_pb2_grpc.RecordServiceStub(world.channel("migrator"))
        credential = auth_service_pb2.PasswordCredential(identifier=self.device.identifier, password=PASSWORD)
        self.tokens = world.auth.Authenticate(
            auth_service_pb2.AuthenticateRequest(client_id=CLIENT_ID, password=credential),
            metadata=(("dpop", self.proof(AUTHENTICATE, nonce, token=False)),),
            timeout=20,
        ).tokens

    def proof(self, method, nonce=None, token=True):
        bound = self.tokens.access_token if token else None
        return proofs.make(self.device.key, f"https://x{method}", bound, nonce)

    def list_sessions(self, proof):
        return self.sessions.ListSessions(
            session_service_pb2.ListSessionsRequest(),
            metadata=self.metadata(proof),
            timeout=20,
            wait_for_ready=True,
        )

    def list_records(self, proof):
        request = record_service_pb2.ListRecordsRequest(collection="cart")
        return self.records.ListRecords(request, metadata=self.metadata(proof), timeout=20, wait_for_ready=True)

    def metadata(self, proof):
        return (("authorization", f"DPoP {self.tokens.access_token}"), ("dpop", proof))


def nonce_of(call, proof):
    """The nonce that a service asks for when it is shown `proof`."""
    with refused(grpc.StatusCode.UNAUTHENTICATED, "use_dpop_nonce") as failure:
        call(proof)
    return failure[0].info["dpop_nonce"]


# Over PostgreSQL nonces are for all, whatever the configuration says.
@pytest.mark.parametrize(
    "arguments", [pytest.param([], marks=pytest.mark.sqlite), ["--dpop-nonces"]], ids=["as configured by default", "nonces for all"]
)
def test_R51_a_proof_is_taken_once_also_when_the_service_was_killed_in_between(binaries, tmp_path, arguments):
    """R51: a proof is taken once also when the service was killed in between"""
    with services.Fleet(binaries, tmp_path, arguments={"*": arguments}) as fleet:
        world = World(fleet)
        nonces = {}
        if arguments:
            stranger = world.account()
            request = auth_service_pb2.AuthenticateRequest(client_id=CLIENT_ID)
            nonces["identity"] = nonce_of(
                lambda proof: world.auth.Authenticate(request, metadata=(("dpop", proof),), timeout=20, wait_for_ready=True),
                proofs.make(stranger.key, f"https://x{AUTHENTICATE}"),
            )
        bound = Bound(world, nonces.get("identity"))
        if arguments:
            nonces["migrator"] = nonce_of(bound.list_records, bound.proof(RECORDS))
        for name, method, call in (
            ("identity", SESSIONS, bound.list_sessions),
            ("migrator", RECORDS, bound.list_records),
        ):
            used = [bound.proof(method, nonces.get(name)) for _ in range(3)]
            for proof in used:
                call(proof)
            unused = bound.proof(method)
            fleet[name].restart()
            for proof in used:
                with refused(grpc.StatusCode.UNAUTHENTICATED):
                    call(proof)
            # Who was told to gets through with the nonce of the process that runs now, once each.
            fresh = bound.proof(method, nonce_of(call, unused))
            call(fresh)
            with refused(grpc.StatusCode.UNAUTHENTICATED, "invalid_dpop_proof"):
                call(fresh)
        world.close()


def test_R51_our_own_client_gets_through_a_restart_by_itself(binaries, tmp_path, cli):
    """R51: our own client gets through a restart by itself"""
    with services.Fleet(binaries, tmp_path) as fleet:
        world = World(fleet)
        cli(world, "phone", "guest")
        cli(world, "phone", "record", "put", stdin='{"collection": "cart", "key": "a", "value": "1"}\n')
        for name in ("identity", "migrator"):
            fleet[name].restart()
        assert cli(world, "phone", "record", "list", "cart")
        assert cli(world, "phone", "session", "list")
        for name in ("migrator", "identity"):
            fleet[name].restart()
        cli(world, "phone", "session", "refresh")
        assert cli(world, "phone", "session", "introspect")["active"]
        world.close()
