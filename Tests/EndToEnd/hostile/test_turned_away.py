"""A connection for which there is no place: its client is told why, in the way that it knows, and soon let go."""

import contextlib
import time

import frames
import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from latchkey.qr.v1 import qr_session_service_pb2 as qr
from latchkey.qr.v1 import qr_session_service_pb2_grpc
from peer import DEADLINE, Closed


@pytest.fixture
def full_target(small_target):
    with contextlib.ExitStack() as stack:
        # Streams that wait keep their connections from being idle.
        for _ in range(small_target.connections):
            client = stack.enter_context(small_target.connect())
            client.send(frames.headers(1, frames.fields(frames.REFLECTION)))
            client.barrier()
        yield small_target


def issue(port):
    with grpc.insecure_channel(f"127.0.0.1:{port}", [("grpc.use_local_subchannel_pool", 1)]) as channel:
        request = qr.IssueSessionRequest(
            client_id="latchkey-demo", purpose=qr.PURPOSE_LOGIN, code_challenge="A" * 43,
            code_challenge_method="S256", initiator=qr.Initiator(label="a screen"),
        )  # fmt: skip
        return qr_session_service_pb2_grpc.QrSessionServiceStub(channel).IssueSession(request, timeout=DEADLINE)


def until_told(attempt):
    """What an attempt answers. On a machine that is busy, the second that there is may pass before a peer has asked."""
    for _ in range(20):
        with contextlib.suppress(Closed, OSError):
            if (answer := attempt()) is not None:
                return answer
    raise AssertionError("closed without a word, every time")


def test_grpcio_is_told(full_target):
    """grpcio shows a connection beyond the limit as RESOURCE_EXHAUSTED, with the reason and the time to come back"""

    def refusal():
        with pytest.raises(grpc.RpcError) as caught:
            issue(full_target.port)
        return caught.value if caught.value.code() != grpc.StatusCode.UNAVAILABLE else None

    error = until_told(refusal)
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and "no room" in error.details()
    details = status_pb2.Status.FromString(dict(error.trailing_metadata())["grpc-status-details-bin"]).details
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    assert any(detail.Unpack(info) for detail in details) and info.reason == "OVERLOADED"
    assert any(detail.Unpack(retry) for detail in details) and retry.retry_delay.ToMilliseconds() > 0


def test_turned_away_soon(full_target):
    """A connection beyond the limit that asks for nothing, or speaks HTTP/1.1, is told as well and closed soon"""
    with until_told(full_target.connect) as silent:
        started = time.monotonic()
        silent.read_to_end()
        assert (silent.goaway, silent.debug) == (frames.ENHANCE_YOUR_CALM, b"too_many_connections")
        assert time.monotonic() - started < DEADLINE

    def page():
        with full_target.raw() as client:
            client.send(b"GET /signin/screen.js HTTP/1.1\r\nhost: localhost\r\n\r\n")
            answer = client.socket.recv(65536)
            assert not answer or client.is_closed_within(DEADLINE)
            return answer or None

    assert until_told(page).startswith(b"HTTP/1.1 503 ")


def test_few_are_told(full_target):
    """Of hundreds of connections beyond the limit a few are told, and the others are closed at once"""
    before = full_target.descriptors
    with contextlib.ExitStack() as stack:
        flood = [stack.enter_context(full_target.raw()) for _ in range(400)]
        # They are looked at by turns, which takes a moment.
        deadline = time.monotonic() + 1
        while full_target.descriptors > before + 120:
            assert time.monotonic() < deadline, "hundreds that are too many stay open"
            time.sleep(0.01)
        assert all(attacker.is_closed_within(DEADLINE) for attacker in flood)
    assert full_target.is_live()
