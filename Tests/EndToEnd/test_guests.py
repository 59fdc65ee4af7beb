"""Guests: one key, one guest; nobody without the key."""

import concurrent.futures
import time

import grpc
import pytest
from world import Device, is_overloaded, refused


def test_one_guest_under_concurrent_calls(world):
    """G2: one device key has one guest, whichever of many concurrent calls comes first"""
    device = world.device()
    requests = [device.guest_request() for _ in range(24)]

    def issue(request):
        for _ in range(20):
            try:
                return world.guests.IssueGuest(request or device.guest_request(), timeout=20)
            except grpc.RpcError as error:
                # A processor that is busy with other tests makes it refuse some, and it says so.
                if not is_overloaded(error):
                    raise
            time.sleep(0.5)
            request = None
        raise AssertionError("it is refused again and again")

    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(issue, requests))
    assert len({answer.subject.sub for answer in answers}) == 1
    assert sum(answer.created for answer in answers) == 1
    assert all(answer.subject.is_guest for answer in answers)
    world.assert_alive()


def test_first_and_later_start(world):
    """G1: the first start makes the guest, a later one finds it again"""
    device = world.device()
    first = device.start_as_guest()
    again = device.start_as_guest()
    assert first.created and not again.created
    assert first.subject.sub == again.subject.sub
    assert first.storage_namespace and first.storage_namespace == again.storage_namespace
    assert first.tokens.expires_in > 0 and first.tokens.server_time.seconds > 0


def test_guest_survives_restart(own_world):
    """D5: after kill -9 of every service the same key finds the same guest"""
    device = own_world.device()
    first = device.start_as_guest()
    own_world.fleet["identity"].restart()
    own_world.open()
    again = device.start_as_guest()
    assert not again.created
    assert again.subject.sub == first.subject.sub


def test_replayed_challenge(world):
    """R23: a challenge is good for one proof"""
    device = world.device()
    request = device.guest_request()
    world.guests.IssueGuest(request, timeout=10)
    with refused(grpc.StatusCode.FAILED_PRECONDITION, reason="CHALLENGE_INVALID"):
        world.guests.IssueGuest(request, timeout=10)
    world.assert_alive()


def test_challenge_of_another_key(world):
    """R23: a challenge is good for the key that it was made for"""
    other = world.device().challenge()
    device = world.device()
    with refused(grpc.StatusCode.FAILED_PRECONDITION, reason="CHALLENGE_INVALID"):
        world.guests.IssueGuest(device.guest_request(challenge=other), timeout=10)
    world.assert_alive()


def test_wrong_signature(world):
    """D3: a proof by another key, of other content or of another length is refused"""
    device, other = world.device(), Device(world)
    request = device.guest_request()
    request.proof = other.sign(b"latchkey-device-proof-v1")
    with refused(grpc.StatusCode.UNAUTHENTICATED):
        world.guests.IssueGuest(request, timeout=10)
    for proof in (b"", b"\0" * 64, b"\xff" * 64, b"x" * 63, b"x" * 65, b"x" * 4096):
        request = device.guest_request()
        request.proof = proof
        with pytest.raises(grpc.RpcError) as error:
            world.guests.IssueGuest(request, timeout=10)
        assert error.value.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.INVALID_ARGUMENT)
    world.assert_alive()


@pytest.mark.parametrize(
    "device_id",
    ["490154203237518", "00:1B:44:11:3A:B7", "9774d56d682e549c", "00000000-0000-0000-0000-000000000000"],
    ids=["imei", "mac", "android-id", "no-advertising-id"],
)
def test_hardware_identifiers(world, device_id):
    """D2: an identifier of the hardware is refused by name"""
    device = world.device()
    device.device_id = device_id
    with refused(grpc.StatusCode.INVALID_ARGUMENT, field="device.device_id"):
        world.guests.IssueGuest(device.guest_request(), timeout=10)


def test_key_off_the_curve(world):
    """D3: a public key that is no point of the curve is refused by field"""
    device = world.device()
    request = device.guest_request()
    request.device.public_key.y = request.device.public_key.x
    with pytest.raises(grpc.RpcError) as error:
        world.guests.IssueGuest(request, timeout=10)
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    world.assert_alive()
