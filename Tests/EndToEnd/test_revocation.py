"""A session that ends, ends in every service (R14, R15)."""

import threading
import time

import grpc
import pytest

from latchkey.identity.v1 import auth_service_pb2
from latchkey.qr.v1 import qr_session_service_pb2
from waiting import expect_prompt
from world import is_overloaded, refused


def revoke(world, device):
    """RFC 7009: whoever has the refresh token may end the session."""
    world.auth.Revoke(auth_service_pb2.RevokeRequest(token=device.tokens.refresh_token), timeout=10)


def ask_qr(device):
    device.world.qr.ScanSession(
        qr_session_service_pb2.ScanSessionRequest(qr_payload="x"), metadata=device.metadata, timeout=10
    )


def ask_migrator(device):
    device.collections()


def assert_accepted(call, device):
    """A living session gets through, whatever else the call comes to."""
    try:
        call(device)
    except grpc.RpcError as error:
        assert error.code() not in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNAVAILABLE), error


def time_until_revoked(call, device):
    """Seconds until a service refuses the session; any other refusal is how it answers to one that lives."""
    start = time.monotonic()
    while True:
        asked = time.monotonic()
        try:
            call(device)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.UNAUTHENTICATED:
                with refused(grpc.StatusCode.UNAUTHENTICATED, "SESSION_REVOKED"):
                    raise
                return asked - start
        assert asked - start < 10, "the session is still accepted"


@pytest.mark.parametrize("call", [ask_qr, ask_migrator])
def test_R14_a_revoked_session_is_refused_by_the_other_services(world, call):
    """R14: a revoked session is refused by the other services"""
    times = []
    for _ in range(10):
        device = world.account()
        assert_accepted(call, device)
        revoke(world, device)
        times.append(time_until_revoked(call, device))
    expect_prompt(times, 1)


def test_R14_a_revoked_session_is_refused_under_load(world):
    """R14: a revoked session is refused under load"""
    stop = threading.Event()
    failures = []

    def load():
        device = world.account()
        while not stop.is_set():
            try:
                device.collections()
            except grpc.RpcError as error:
                if not is_overloaded(error):
                    failures.append(error)
                    return

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        times = []
        for _ in range(5):
            device = world.account()
            revoke(world, device)
            times.append(time_until_revoked(ask_migrator, device))
        expect_prompt(times, 1)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == []


def assert_served_again(device):
    """Once the migrator hears from identity again, it takes a living session."""
    deadline = time.monotonic() + 20
    while True:
        try:
            assert device.collections() == {}
            return
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNAVAILABLE
            assert time.monotonic() < deadline, "the feed does not come back"
            time.sleep(0.05)


def test_R14_a_restart_forgets_no_ended_session(own_world):
    """R14: a restart forgets no ended session"""
    world = own_world
    ended, living = world.account(), world.account()
    revoke(world, ended)
    for name in ("migrator", "qr"):
        world.fleet[name].restart()
    world.fleet["identity"].restart()
    world.open()
    time_until_revoked(ask_migrator, ended)
    time_until_revoked(ask_qr, ended)
    assert_served_again(living)


def test_R41_services_that_hear_nothing_from_identity_accept_no_token(own_world):
    """R41: services that hear nothing from identity accept no token"""
    world = own_world
    device, ended = world.account(), world.account()
    assert device.collections() == {}
    identity = world.fleet["identity"]
    # As a cut cable: connections stand, nothing comes.
    identity.freeze()
    try:
        deadline = time.monotonic() + 20
        while True:
            try:
                device.collections()
            except grpc.RpcError as error:
                assert error.code() == grpc.StatusCode.UNAVAILABLE
                break
            assert time.monotonic() < deadline, "tokens are still accepted"
            time.sleep(0.05)
    finally:
        identity.thaw()
    revoke(world, ended)
    assert_served_again(device)
    time_until_revoked(ask_migrator, ended)
