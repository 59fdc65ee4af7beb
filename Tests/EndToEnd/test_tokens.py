"""Access tokens as other people's libraries see them, and forged ones as ours does."""

import hmac
import json

import grpc
import joserfc.jwk
import joserfc.jwt
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from world import base64url, bearer, from_base64url, refused
from latchkey.migration.v1 import record_service_pb2
from latchkey.identity.v1 import auth_service_pb2


@pytest.fixture
def guest(world):
    device = world.device()
    device.start_as_guest()
    return device


def list_collections(world, token):
    """A call that needs a token, to another service than the one that made it."""
    return world.records.ListCollections(
        record_service_pb2.ListCollectionsRequest(), metadata=bearer(token), timeout=10
    )


def signing_key(world, token):
    header = jwt.get_unverified_header(token)
    keys = {key["kid"]: key for key in world.jwks()["keys"]}
    return keys[header["kid"]]


def claims_of(token):
    return json.loads(from_base64url(token.split(".")[1]))


def test_pyjwt_verifies(world, guest):
    """R11: PyJWT verifies our tokens by the published keys"""
    token = guest.tokens.access_token
    key = jwt.PyJWK(signing_key(world, token))
    assert jwt.get_unverified_header(token)["typ"] == "at+jwt"
    audience = claims_of(token)["aud"]
    claims = jwt.decode(
        token, key.key, algorithms=["ES256"], audience=audience, issuer=world.fleet.issuer,
        options={"require": ["exp", "iat", "iss", "aud", "sub", "jti", "client_id"]},
    )  # fmt: skip
    assert claims["sub"] == guest.subject.sub
    assert claims["exp"] - claims["iat"] == guest.tokens.expires_in


def test_joserfc_verifies(world, guest):
    """R11: joserfc verifies our tokens by the published keys"""
    key_set = joserfc.jwk.KeySet.import_key_set(world.jwks())
    token = joserfc.jwt.decode(guest.tokens.access_token, key_set, algorithms=["ES256"])
    assert token.claims["sub"] == guest.subject.sub
    joserfc.jwt.JWTClaimsRegistry(iss={"essential": True, "value": world.fleet.issuer}).validate(token.claims)


def test_keys_by_rpc(world):
    """R11: GetJwks and the page hold the same public keys, and no private part"""
    by_rpc = json.loads(world.auth.GetJwks(auth_service_pb2.GetJwksRequest(), timeout=10).jwks_json)
    assert by_rpc == world.jwks()
    assert all(set(key) <= {"kty", "crv", "x", "y", "kid", "use", "alg"} for key in by_rpc["keys"])


def test_genuine_token_serves(world, guest):
    """R9: the token of the tests below is good before it is bent"""
    list_collections(world, guest.tokens.access_token)


def test_flipped_bytes(world, guest):
    """R4: a token with any one byte changed is refused"""
    header, payload, signature = guest.tokens.access_token.split(".")
    raw = [from_base64url(part) for part in (header, payload, signature)]
    for part in range(3):
        # Every byte of the signature, every third of the rest: some 300 forged tokens.
        for index in range(0, len(raw[part]), 1 if part == 2 else 3):
            changed = list(raw)
            changed[part] = bytes(byte ^ 1 if at == index else byte for at, byte in enumerate(raw[part]))
            with pytest.raises(grpc.RpcError) as error:
                list_collections(world, ".".join(base64url(piece) for piece in changed))
            # A header that names another key may name a new one: such a token is refused until the keys were asked for.
            refusals = {grpc.StatusCode.UNAUTHENTICATED} | ({grpc.StatusCode.UNAVAILABLE} if part == 0 else set())
            assert error.value.code() in refusals, (part, index)
    world.assert_alive()


def test_no_algorithm(world, guest):
    """R5: a token without a signature is refused, however its algorithm is spelt"""
    claims = claims_of(guest.tokens.access_token)
    kid = jwt.get_unverified_header(guest.tokens.access_token)["kid"]
    payload = base64url(json.dumps(claims).encode())
    for spelling in ("none", "None", "NONE", "nOnE", ""):
        header = base64url(json.dumps({"alg": spelling, "typ": "at+jwt", "kid": kid}).encode())
        for signature in ("", guest.tokens.access_token.split(".")[2]):
            with refused(grpc.StatusCode.UNAUTHENTICATED):
                list_collections(world, f"{header}.{payload}.{signature}")
    unsigned = jwt.encode(claims, None, algorithm="none", headers={"typ": "at+jwt", "kid": kid})
    with refused(grpc.StatusCode.UNAUTHENTICATED):
        list_collections(world, unsigned)


def test_public_key_as_secret(world, guest):
    """R5: HS256 with the public key as its secret is refused"""
    token = guest.tokens.access_token
    claims, key = claims_of(token), signing_key(world, token)
    pem = jwt.PyJWK(key).key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    secrets = [pem, pem.strip(), json.dumps(key).encode(), from_base64url(key["x"])]
    header = {"alg": "HS256", "typ": "at+jwt", "kid": key["kid"]}
    signed = base64url(json.dumps(header).encode()) + "." + base64url(json.dumps(claims).encode())
    for secret in secrets:
        # By hand: the libraries refuse to make this mistake.
        forged = f"{signed}.{base64url(hmac.digest(secret, signed.encode(), 'sha256'))}"
        with refused(grpc.StatusCode.UNAUTHENTICATED):
            list_collections(world, forged)


@pytest.mark.parametrize("header", ["jwk", "jku", "x5u", "kid", "no-kid", "crit"])
def test_keys_that_the_token_brings(world, guest, header):
    """R6: a key that the token itself names or brings is not believed"""
    claims = claims_of(guest.tokens.access_token)
    kid = jwt.get_unverified_header(guest.tokens.access_token)["kid"]
    key = ec.generate_private_key(ec.SECP256R1())
    numbers = key.public_key().public_numbers()
    jwk = {
        "kty": "EC", "crv": "P-256",
        "x": base64url(numbers.x.to_bytes(32, "big")), "y": base64url(numbers.y.to_bytes(32, "big")),
    }  # fmt: skip
    headers = {
        "jwk": {"kid": kid, "jwk": jwk},
        "jku": {"kid": kid, "jku": f"{world.fleet.issuer}/.well-known/jwks.json"},
        "x5u": {"kid": kid, "x5u": "https://evil.test/chain.pem"},
        "kid": {"kid": "../../../dev/null"},
        "no-kid": {},
        "crit": {"kid": kid, "crit": ["exp"], "exp": 1},
    }[header]
    forged = jwt.encode(claims, key, algorithm="ES256", headers={"typ": "at+jwt", **headers})
    with refused(grpc.StatusCode.UNAUTHENTICATED):
        list_collections(world, forged)
    world.assert_alive()


@pytest.mark.parametrize("kind", ["refresh", "garbage", "many-dots", "long"])
def test_not_an_access_token(world, guest, kind):
    """R8: what is no access token is refused where one belongs"""
    token = {
        "refresh": guest.tokens.refresh_token,
        "garbage": "garbage",
        "many-dots": "." * 50,
        "long": "A" * 6000,
    }[kind]
    with refused(grpc.StatusCode.UNAUTHENTICATED):
        list_collections(world, token)
    world.assert_alive()


def test_no_token(world):
    """R8: a method that needs a caller refuses a call without one"""
    with refused(grpc.StatusCode.UNAUTHENTICATED):
        world.records.ListCollections(record_service_pb2.ListCollectionsRequest(), timeout=10)


def test_users_cannot_act_as_services(world):
    """R8: no user's token reaches a method between services"""
    from latchkey.identity.v1 import grant_service_pb2

    device = world.account()
    for metadata in (device.metadata, bearer(device.tokens.refresh_token), bearer("x"), ()):
        with pytest.raises(grpc.RpcError) as error:
            world.grants.IssueForQr(
                grant_service_pb2.IssueForQrRequest(qr_session_id="x", sub=device.subject.sub),
                metadata=metadata, timeout=10,
            )  # fmt: skip
        assert error.value.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)


def test_introspection(world, guest):
    """R11: introspection and the token say the same"""
    answer = guest.introspect()
    claims = claims_of(guest.tokens.access_token)
    assert answer.active and answer.is_guest
    assert (answer.sub, answer.iss, answer.client_id) == (claims["sub"], claims["iss"], claims["client_id"])
    assert answer.expires_at.seconds == claims["exp"]
    assert not guest.introspect("garbage").active


def test_refresh_rotates(world, guest):
    """R18: a refresh token is good once its child is used no more; reuse ends the family"""
    first = guest.tokens
    guest.refresh()
    second = guest.tokens
    assert second.refresh_token != first.refresh_token
    guest.refresh()
    guest_tokens = guest.tokens
    with refused(grpc.StatusCode.UNAUTHENTICATED, reason="REFRESH_TOKEN_REUSED"):
        world.auth.Refresh(auth_service_pb2.RefreshRequest(refresh_token=first.refresh_token), timeout=10)
    with refused(grpc.StatusCode.UNAUTHENTICATED):
        world.auth.Refresh(auth_service_pb2.RefreshRequest(refresh_token=guest_tokens.refresh_token), timeout=10)


def test_lost_refresh_answer(world, guest):
    """R19: the parent of an unused child is answered with the same child"""
    parent = guest.tokens.refresh_token
    request = auth_service_pb2.RefreshRequest(refresh_token=parent)
    first = world.auth.Refresh(request, timeout=10)
    again = world.auth.Refresh(request, timeout=10)
    assert first.tokens.refresh_token == again.tokens.refresh_token
    guest.tokens = again.tokens
    guest.refresh()
