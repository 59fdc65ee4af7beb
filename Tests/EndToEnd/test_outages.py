"""What callers are told while a service that others need is away."""

import time

import grpc
from latchkey.qr.v1 import qr_session_service_pb2 as pb
from world import Failure


def answers(calls):
    """The failures of calls that anybody can make."""
    for call in calls:
        try:
            call()
        except grpc.RpcError as error:
            yield Failure(error)


def test_R42_an_outage_names_no_address_of_the_installation(own_world):
    """R42: who calls is told that something cannot be reached, and the log where that is"""
    world = own_world
    phone, screen = world.account(), world.device()
    code = screen.issue_qr()
    phone.confirm(phone.scan(code.qr_payload), code.check_code)
    world.fleet["identity"].stop()
    failures = list(answers([screen.poll, screen.poll, lambda: phone.scan(world.device().issue_qr().qr_payload)]))
    assert failures
    for failure in failures:
        assert failure.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED), failure.message
        for secret in ("127.0.0.1", "localhost", str(world.fleet.ports["identity"][0])):
            assert secret not in failure.message, failure.message
    lines = world.fleet["qr"].log_path.read_text().splitlines()
    causes = [line for line in lines if "a call to another service failed" in line]
    assert any(str(world.fleet.ports["identity"][0]) in cause for cause in causes), causes


def test_identity_stands_still(own_world):
    """S5: a redemption has as long as its caller allows it while identity stands still, and is answered once that goes on"""
    phone, screen = own_world.account(), own_world.device()
    code = screen.issue_qr()
    phone.confirm(phone.scan(code.qr_payload), code.check_code)
    request = pb.PollSessionRequest(device_code=code.device_code, code_verifier=screen.verifier)
    identity = own_world.fleet["identity"]
    identity.freeze()
    try:
        call = own_world.qr.PollSession.future(request, timeout=35)
        # What a redemption has whose caller says no time.
        time.sleep(8)
        assert not call.done(), call.exception()
    finally:
        identity.thaw()
    assert phone.introspect(call.result().tokens.access_token).active
