"""Proofs of possession (DPoP, RFC 9449) as any client can make them, by PyJWT: for the story and the end-to-end tests."""

import base64
import hashlib
import json
import secrets
import time

import jwt


def make(key, url, token=None, nonce=None, at=None):
    """A proof by `key` (P-256, of the package cryptography) for one gRPC call: by `token`, or to begin a session. `at` is in
    seconds, now if left out."""
    claims = {"jti": secrets.token_urlsafe(12), "htm": "POST", "htu": url, "iat": int(time.time() if at is None else at)}
    if nonce:
        claims["nonce"] = nonce
    if token:
        digest = hashlib.sha256(token.encode()).digest()
        claims["ath"] = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    jwk = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key()))
    header = {"typ": "dpop+jwt", "jwk": {name: jwk[name] for name in ("kty", "crv", "x", "y")}}
    return jwt.encode(claims, key, "ES256", headers=header)
