"""What no client should send: each gets its own clear status, and the services live on."""

import time

import grpc
import pytest
import wire
from google.protobuf import descriptor_pb2  # noqa: F401  (the stubs need the runtime loaded)
from latchkey.identity.v1 import auth_service_pb2, guest_service_pb2
from latchkey.migration.v1 import record_service_pb2
from latchkey.qr.v1 import qr_session_service_pb2
from world import CLIENT_ID, bearer, refused, unique_identifier

pytestmark = pytest.mark.usefixtures("engine")

CHALLENGE = "/latchkey.identity.v1.GuestService/GetChallenge"
LOGIN = "/latchkey.identity.v1.AuthService/Authenticate"
HEALTH = "/grpc.health.v1.Health/Watch"
OK, INVALID_ARGUMENT, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE = 0, 3, 4, 8, 12, 13, 14


@pytest.fixture(params=["cleartext", "tls"])
def any_world(request):
    return request.getfixturevalue("world" if request.param == "cleartext" else "tls_world")


@pytest.fixture(autouse=True)
def lives_on(request):
    """After each of these tests, the services that it used answer as before, in the same processes."""
    names = [name for name in ("any_world", "world") if name in request.fixturenames]
    used = [request.getfixturevalue(name) for name in names]
    yield
    for world in used:
        world.assert_alive()


def challenge_request(world):
    device = world.device()
    return guest_service_pb2.GetChallengeRequest(client_id=CLIENT_ID, device_key=device.jwk()).SerializeToString()


@pytest.mark.parametrize("name", ["identity", "qr", "migrator"])
@pytest.mark.parametrize(
    "path", ["/latchkey.identity.v1.GuestService/Nothing", "/no.Service/Method", "/x", "/", "//", "/a/b/c"]
)
def test_unknown_method(any_world, name, path):
    """R8: unknown method: UNIMPLEMENTED"""
    with wire.Connection(any_world, name) as connection:
        assert connection.status(connection.request(path, wire.framed(b""))) == UNIMPLEMENTED


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "application/grpcx", "", None])
def test_wrong_content_type(any_world, content_type):
    """R42: wrong content type: HTTP 415, as gRPC says"""
    with wire.Connection(any_world, "identity") as connection:
        stream = connection.request(CHALLENGE, wire.framed(b""), content_type=content_type)
        headers, _, _ = connection.answer(stream)
        assert headers[":status"] == "415"
        # The connection goes on.
        assert connection.status(connection.request(CHALLENGE, wire.framed(challenge_request(any_world)))) == OK


def test_content_types_of_grpc(any_world):
    """R42: right content types are taken"""
    with wire.Connection(any_world, "identity") as connection:
        for content_type in ("application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8"):
            stream = connection.request(
                CHALLENGE, wire.framed(challenge_request(any_world)), content_type=content_type
            )
            assert connection.status(stream) == OK, content_type


def test_oversized_message(any_world):
    """R26: oversized message: RESOURCE_EXHAUSTED, whether it is sent whole or only announced"""
    request = guest_service_pb2.GetChallengeRequest(client_id="x" * (1024 * 1024))
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED):
        any_world.guests.GetChallenge(request, timeout=10)
    for length in (1 << 20, 0xFFFFFFFF):
        with wire.Connection(any_world, "identity") as connection:
            stream = connection.request(CHALLENGE, wire.framed(b"12345", length=length), end=False)
            assert connection.status(stream) == RESOURCE_EXHAUSTED


def test_truncated_frame(any_world):
    """R42: truncated frame: an error status, not silence"""
    message = challenge_request(any_world)
    framed = wire.framed(message)
    for cut in (1, 3, 4, 5, len(framed) - 1):
        with wire.Connection(any_world, "identity") as connection:
            status = connection.status(connection.request(CHALLENGE, framed[:cut]))
            assert status in (INTERNAL, INVALID_ARGUMENT), f"cut at {cut}: {status}"


def test_missing_and_extra_messages(any_world):
    """R42: a unary call with no message or with two ends in an error"""
    message = wire.framed(challenge_request(any_world))
    for body in (b"", message + message):
        with wire.Connection(any_world, "identity") as connection:
            status = connection.status(connection.request(CHALLENGE, body))
            assert status in (INTERNAL, INVALID_ARGUMENT, UNIMPLEMENTED), status


def test_compressed_without_encoding(any_world):
    """R42: a compressed message without an encoding is an error"""
    with wire.Connection(any_world, "identity") as connection:
        status = connection.status(connection.request(CHALLENGE, wire.framed(b"x", compressed=1)))
        assert status in (INTERNAL, UNIMPLEMENTED)


def test_not_protobuf(any_world):
    """R42: bytes that are no message: INVALID_ARGUMENT"""
    for garbage in (b"\xff" * 40, b"\x0a\x7f", b"\x12\x03\x0a\x01", b"\x0b" * 100, bytes(range(256))):
        with wire.Connection(any_world, "identity") as connection:
            assert connection.status(connection.request(CHALLENGE, wire.framed(garbage))) == INVALID_ARGUMENT


def length_delimited(field, payload):
    assert len(payload) < 128
    return bytes([field << 3 | 2, len(payload)]) + payload


@pytest.mark.parametrize(
    "text", [b"\xff", b"ok\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80"],
    ids=["byte", "cut", "surrogate", "overlong", "beyond"],
)  # fmt: skip
def test_invalid_utf8(any_world, text):
    """R42: invalid UTF-8 in a string: INVALID_ARGUMENT, also in a nested message and in a oneof"""
    with wire.Connection(any_world, "identity") as connection:
        plain = length_delimited(1, text)
        assert connection.status(connection.request(CHALLENGE, wire.framed(plain))) == INVALID_ARGUMENT
        nested = length_delimited(1, CLIENT_ID.encode()) + length_delimited(2, length_delimited(3, text))
        assert connection.status(connection.request(CHALLENGE, wire.framed(nested))) == INVALID_ARGUMENT
        login = length_delimited(1, CLIENT_ID.encode()) + length_delimited(2, length_delimited(1, text))
        path = "/latchkey.identity.v1.AuthService/Authenticate"
        assert connection.status(connection.request(path, wire.framed(login))) == INVALID_ARGUMENT


def test_embedded_nul(any_world):
    """R42: a NUL in a string ends nothing early: it is refused, and names no other account"""
    identifier = unique_identifier()
    any_world.account(identifier)
    other = any_world.device()
    for text in (identifier + "\0", identifier + "\0.example.org", "\0" + identifier, identifier.replace("@", "\0@")):
        with refused(grpc.StatusCode.INVALID_ARGUMENT):
            other.register(text)
        with pytest.raises(grpc.RpcError) as error:
            other.authenticate(text)
        assert error.value.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNAUTHENTICATED)
    device = any_world.device()
    with refused(grpc.StatusCode.INVALID_ARGUMENT):
        any_world.guests.GetChallenge(
            guest_service_pb2.GetChallengeRequest(client_id=CLIENT_ID + "\0", device_key=device.jwk()), timeout=10
        )


def test_expired_deadline(any_world):
    """R42: expired deadline: DEADLINE_EXCEEDED from the server, and the connection goes on"""
    device = any_world.device()
    login = auth_service_pb2.AuthenticateRequest(
        client_id=CLIENT_ID,
        password=auth_service_pb2.PasswordCredential(identifier="nobody@example.com", password="a password to hash"),
    ).SerializeToString()
    with wire.Connection(any_world, "qr") as connection:
        started = time.monotonic()
        stream = connection.request(HEALTH, wire.framed(b""), headers=[("grpc-timeout", "300m")])
        assert connection.status(stream) == DEADLINE_EXCEEDED
        assert 0.2 < time.monotonic() - started < 3
    # Hashing a password takes longer than five milliseconds. Where others are being hashed it is refused at once.
    with wire.Connection(any_world, "identity") as connection:
        for _ in range(50):
            stream = connection.request(LOGIN, wire.framed(login), headers=[("grpc-timeout", "5m")])
            status = connection.status(stream)
            if status != RESOURCE_EXHAUSTED:
                break
            time.sleep(0.1)
        assert status == DEADLINE_EXCEEDED
        assert connection.status(connection.request(CHALLENGE, wire.framed(challenge_request(any_world)))) == OK
    device.issue_qr()
    # A poll that waits answers in time for its deadline, instead of being cut off by it.
    for _ in range(20):
        try:
            answer = device.poll(wait_ms=25_000, last_version=99, timeout=0.5)
            break
        except grpc.RpcError as error:
            # It had a tenth of a second to come here, which may be little on a busy machine, but not every time.
            assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED, error
    else:
        raise AssertionError("every poll was cut off by its deadline")
    assert answer.state == qr_session_service_pb2.SESSION_STATE_PENDING


def test_deadline_of_the_caller_binds_the_next_service(own_world):
    """R42: a call that waits for another service ends with its caller's deadline, by the service's own word"""
    phone, screen = own_world.account(), own_world.device()
    code = screen.issue_qr()
    phone.confirm(phone.scan(code.qr_payload), code.check_code)
    # The poll that redeems the code has the tokens made by identity.
    request = qr_session_service_pb2.PollSessionRequest(device_code=code.device_code, code_verifier=screen.verifier)
    identity = own_world.fleet["identity"]
    with wire.Connection(own_world, "qr") as connection:
        # It is there, and says nothing.
        identity.freeze()
        try:
            started = time.monotonic()
            path = "/latchkey.qr.v1.QrSessionService/PollSession"
            fields = [("grpc-timeout", "1500m")]
            stream = connection.request(path, wire.framed(request.SerializeToString()), headers=fields)
            status = connection.status(stream)
            took = time.monotonic() - started
        finally:
            identity.thaw()
        # Where other instances may hand it over as well it says when to come back, and that a little earlier.
        assert status in (DEADLINE_EXCEEDED, UNAVAILABLE) and 1.1 < took < 4, (status, took)
    assert screen.poll().HasField("tokens"), "the code was lost with the call"


@pytest.mark.parametrize("timeout", ["", "1", "S", "-1S", "123456789S", "1.5S", "1s", "0x1S"])
def test_garbage_timeout(any_world, timeout):
    """R42: garbage in grpc-timeout is an error and not a deadline"""
    with wire.Connection(any_world, "identity") as connection:
        stream = connection.request(
            CHALLENGE, wire.framed(challenge_request(any_world)), headers=[("grpc-timeout", timeout)]
        )
        headers, _, trailers = connection.answer(stream)
        status = int((headers | trailers).get("grpc-status", -1))
        assert status in (INVALID_ARGUMENT, INTERNAL) or headers[":status"] == "400", (headers, trailers)


def test_unknown_code(world):
    """S24: unknown code: the same NOT_FOUND to the scanner as for any other code that is not for it"""
    phone = world.account()
    unknown = world.device().issue_qr().qr_payload[:-4] + "AAAA"
    with refused(grpc.StatusCode.NOT_FOUND):
        phone.scan(unknown)
    with refused(grpc.StatusCode.NOT_FOUND):
        world.qr.ScanSession(
            qr_session_service_pb2.ScanSessionRequest(user_code="BCDF-GHJK"), metadata=phone.metadata, timeout=10
        )
    with pytest.raises(grpc.RpcError) as error:
        world.qr.PollSession(qr_session_service_pb2.PollSessionRequest(device_code="A" * 43), timeout=10)
    assert error.value.code() in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT)


@pytest.mark.parametrize(
    ("collection", "key", "field"),
    [
        ("", "k", "records[0].collection"),
        ("Cart", "k", "records[0].collection"),
        ("a/b", "k", "records[0].collection"),
        ("x" * 65, "k", "records[0].collection"),
        ("cart", "", "records[0].key"),
        ("cart", "k" * 257, "records[0].key"),
    ],
)
def test_bad_record(world, collection, key, field):
    """R40: a record outside the rules is refused by the path of its field, and nothing of its message is stored"""
    device = world.device()
    device.start_as_guest()
    rows = [record_service_pb2.Record(collection=collection, key=key)]
    rows[0].updated_at.seconds = 1_790_000_000
    with pytest.raises(grpc.RpcError) as error:
        device.put(rows)
    from world import Failure

    failure = Failure(error.value)
    assert failure.code == grpc.StatusCode.INVALID_ARGUMENT
    assert any("collection" in path or "key" in path for path in failure.fields), failure.fields
    assert device.collections() == {}


def test_details_reach_a_stock_client(world):
    """R42: an error's field and reason reach a stock client as google.rpc details"""
    device = world.device()
    with refused(grpc.StatusCode.INVALID_ARGUMENT, field="password.identifier"):
        device.register("not an identifier")
    identifier = world.account().identifier
    with refused(grpc.StatusCode.ALREADY_EXISTS, reason="IDENTITY_IN_USE"):
        device.register(identifier)
    with refused(grpc.StatusCode.UNAUTHENTICATED):
        device.authenticate(identifier, password="wrong password, surely")


def test_closed_in_the_middle(any_world):
    """R42: connections that end at any byte of a call leave nothing behind"""
    framed = wire.framed(challenge_request(any_world))
    for cut in range(0, len(framed), 7):
        connection = wire.Connection(any_world, "identity")
        connection.request(CHALLENGE, framed[:cut], end=False)
        connection.close()


def test_huge_metadata(any_world):
    """R26: metadata beyond the limit is refused, and the next call is served"""
    with pytest.raises(grpc.RpcError):
        any_world.auth.GetJwks(
            auth_service_pb2.GetJwksRequest(), metadata=(("x-large", "x" * 60_000),), timeout=10
        )
    any_world.auth.GetJwks(auth_service_pb2.GetJwksRequest(), timeout=10)


def test_authorization_by_other_schemes(world):
    """R8: an authorization that is no bearer token is refused"""
    guest = world.device()
    guest.start_as_guest()
    token = guest.tokens.access_token
    for value in (token, f"Basic {token}", f"bearer{token}", f"Bearer  {token} x", "Bearer"):
        with refused(grpc.StatusCode.UNAUTHENTICATED):
            world.records.ListCollections(
                record_service_pb2.ListCollectionsRequest(), metadata=(("authorization", value),), timeout=10
            )
    with refused(grpc.StatusCode.UNAUTHENTICATED):
        world.records.ListCollections(
            record_service_pb2.ListCollectionsRequest(), metadata=bearer(token) + bearer(token + "x"), timeout=10
        )
