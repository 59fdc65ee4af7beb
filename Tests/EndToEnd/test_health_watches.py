"""Watches of the services' health, which need no token: a port has a thousand places for whoever comes."""

import contextlib

import grpc
import pytest
import services
from grpc.health.v1 import health_pb2, health_pb2_grpc
from waiting import eventually
from world import TRUSTING, World, refused

pytestmark = pytest.mark.usefixtures("engine")

# Of a port (ServiceRuntime's Limits), and how many of them come by one connection, of the hundred that it may have.
PLACES, BY_ONE = 1024, 94
STRANGER, SOMEBODY = "198.51.100.7", "203.0.113.9"


def watch(stub, address=None):
    """A watch that has heard that the server serves; as a proxy in front names its caller."""
    metadata = (("x-forwarded-for", address),) if address else None
    call = stub.Watch(health_pb2.HealthCheckRequest(), metadata=metadata, timeout=120)
    assert next(call).status == health_pb2.HealthCheckResponse.SERVING
    return call


def test_R50_watches_of_health_are_shared(binaries, tmp_path):
    """R50: who watches a service's health a thousand times shuts out nobody, neither at that port nor at the management port"""
    with services.Fleet(binaries, tmp_path, arguments={"*": TRUSTING}) as fleet, contextlib.ExitStack() as stack:
        world = World(fleet)
        stack.callback(world.close)

        def stub(channel):
            return health_pb2_grpc.HealthStub(stack.enter_context(channel))

        stubs = [stub(world.new_channel("identity")) for _ in range(PLACES // BY_ONE + 1)]
        strangers = [watch(stubs[number // BY_ONE], STRANGER) for number in range(PLACES)]
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED") as failure:
            watch(stubs[-1], STRANGER)
        assert failure[0].retry_after
        held = [watch(stubs[-1], SOMEBODY) for _ in range(3)]
        ended = eventually(lambda: [call for call in strangers if not call.is_active()], "nobody made room")
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED") as failure:
            next(ended[0])
        assert failure[0].retry_after
        management = stub(grpc.insecure_channel(f"127.0.0.1:{fleet.ports['identity'][1]}"))
        held += [watch(management) for _ in range(3)]
        assert all(call.is_active() for call in held)
        for call in strangers + held:
            call.cancel()
