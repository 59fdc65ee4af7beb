"""Attacks that keep what they take, and those that once ended a service or shut everybody else out: for attacks.py --calls.

Each is made anew after some seconds, with what the server took away from it. What is taken, what is kept and what is let go are
measured alike: a server may be busy with the one and not with the other.
"""

import base64
import contextlib
import functools
import gzip
import hashlib
import json
import resource
import secrets
import socket
import struct
import time

import frames
import honest_calls  # noqa: F401  (makes the stubs)
import test_fairness
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils
from frames import data, fields, headers, message

REFRESH = "/latchkey.identity.v1.AuthService/Refresh"
# How long what was taken is kept before it is taken anew.
KEPT = 5


def keeping(take, taking, services=None, by_tls=None):
    """`take(target, stack)` takes it, in `taking` seconds at most, or in `by_tls`, since handshakes take some milliseconds."""

    def make():
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

        def attack(target):
            with contextlib.ExitStack() as stack:
                take(target, stack)
                time.sleep(KEPT)

        return attack

    # The second time, what was taken before is let go.
    make.taking, make.by_tls, make.kept, make.services = taking, by_tls or taking, KEPT, services
    return make


def again(attack, services=None):
    def make():
        return attack

    make.services = services
    return make


def reset_at_end(peer):
    """Who closes a connection has its port taken for a minute; there are not enough of them."""
    peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return peer


def closed_windows(connections, request_of, target, stack):
    asked = b"".join(request_of(number) for number in range(1, 200, 2))
    for _ in range(connections):
        with contextlib.suppress(OSError, test_fairness.Closed):
            peer = stack.enter_context(target.connect((frames.INITIAL_WINDOW_SIZE, 0), timeout=2))
            peer.send(asked)


def silent_streams(target, stack):
    """As many as a server waits for, from connections of a hundred each."""
    asked = b"".join(headers(number, fields(frames.REFLECTION)) for number in range(1, 200, 2))
    for _ in range(1250):
        with contextlib.suppress(OSError, test_fairness.Closed):
            stack.enter_context(target.connect(timeout=2)).send(asked)


def silent_requests(target, stack):
    """The same with calls of one request, which does not come: some that a handler would take, and some that none would."""
    asked = b"".join(headers(number, fields(frames.ISSUE if number % 4 == 1 else frames.POLL)) for number in range(1, 200, 2))
    for _ in range(1250):
        with contextlib.suppress(OSError, test_fairness.Closed):
            stack.enter_context(target.connect(timeout=2)).send(asked)


def half_requests(target, stack):
    """Bytes of requests that are not whole, so few of each that its window is not half full: more than a server holds."""
    body = message(bytes(31_000), length=32_000)
    pieces = [
        headers(number, fields(frames.ISSUE)) + data(number, body[:16_000], flags=0) + data(number, body[16_000:], flags=0)
        for number in range(1, 63, 2)
    ]
    for _ in range(350):
        with contextlib.suppress(OSError, test_fairness.Closed):
            stack.enter_context(target.connect(timeout=2)).send(b"".join(pieces))


# A field of nearly all that the compression table holds, which a byte each stands for afterwards (RFC 7541 §6.1, §6.2.1).
LONG_FIELD = b"\x40\x01x" + frames.integer(3900, 7) + b"v" * 3900
AGAIN = b"\xbe"


def long_fields(target, stack):
    """Calls whose requests do not come, each with four times a field of four kilobytes: a few bytes that stand for many."""
    block = {path: frames.block(fields(path)) + 4 * AGAIN for path in (frames.ISSUE, frames.POLL)}
    asked = b"".join(headers(number, raw=block[frames.ISSUE if number % 4 == 1 else frames.POLL]) for number in range(3, 200, 2))
    first = headers(1, raw=frames.block(fields(frames.POLL)) + LONG_FIELD)
    for _ in range(250):
        with contextlib.suppress(OSError, test_fairness.Closed):
            stack.enter_context(target.connect(timeout=2)).send(first + asked)


def open_blocks(target, stack):
    """Header blocks that do not end, of a few bytes that stand for more than a request may have."""
    asked = headers(1, raw=frames.block(fields(frames.POLL)) + LONG_FIELD + 100 * AGAIN, flags=0)
    for _ in range(500):
        with contextlib.suppress(OSError, test_fairness.Closed):
            stack.enter_context(target.connect(timeout=2)).send(asked)


def compressed_requests(target, stack):
    """Messages that are hundreds of times as long as what is sent of them, of requests that do not end."""
    body = data(1, message(gzip.compress(bytes(60_000)), compressed=1), flags=0)[9:]
    asked = b"".join(
        headers(number, fields(frames.ISSUE, ("grpc-encoding", "gzip"))) + data(number, body, flags=0)
        for number in range(1, 200, 2)
    )
    for _ in range(160):
        with contextlib.suppress(OSError, test_fairness.Closed):
            stack.enter_context(target.connect(timeout=2)).send(asked)


def silent_connections(target, stack):
    """More than a server has, each with a stream that asks for nothing."""
    hello = frames.PREFACE + frames.settings() + headers(1, fields(frames.REFLECTION))
    for _ in range(20_500):
        with contextlib.suppress(OSError):
            reset_at_end(stack.enter_context(target.begun(timeout=2))).socket.send(hello)


# A page, a call of gRPC-Web that no service has, and a page, of which nobody waits for an answer.
MIXED = (
    b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
    b"POST /none/none HTTP/1.1\r\nhost: x\r\ncontent-type: application/grpc-web\r\ncontent-length: 5\r\n\r\n\0\0\0\0\0"
    b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
)


def mixed_pages(target):
    for _ in range(50):
        with contextlib.suppress(OSError), target.begun("http/1.1", timeout=2) as peer:
            reset_at_end(peer).socket.send(MIXED)


def encoded(value):
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


# A refresh token.
NOBODYS = "lkr_" + encoded(hashlib.sha256(b"nobody's").digest())


def proofs(target):
    """Proofs of possession of one key, each with a refresh token that nobody has (RFC 9449 §4.2)."""
    key = ec.generate_private_key(ec.SECP256R1())
    numbers = key.public_key().public_numbers()
    x, y = (encoded(value.to_bytes(32, "big")) for value in (numbers.x, numbers.y))
    head = encoded(json.dumps({"typ": "dpop+jwt", "alg": "ES256", "jwk": {"kty": "EC", "crv": "P-256", "x": x, "y": y}}).encode())

    def proof():
        claims = {"jti": secrets.token_urlsafe(16), "htm": "POST", "htu": f"http://localhost{REFRESH}", "iat": int(time.time())}
        signed = f"{head}.{encoded(json.dumps(claims).encode())}"
        r, s = utils.decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{encoded(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"

    body = b"\x0a" + bytes([len(NOBODYS)]) + NOBODYS.encode()
    with target.connect((frames.INITIAL_WINDOW_SIZE, 0x3FFFFFFF), timeout=2) as peer:
        for number in range(1, 4000, 2):
            peer.send(headers(number, fields(REFRESH, ("dpop", proof()))) + data(number, message(body)))


def padding(target):
    """DATA that carries nothing but padding (RFC 9113 §6.1)."""
    piece = frames.frame(frames.DATA, frames.PADDED, 1, b"\xff" + bytes(255))
    with target.connect(timeout=2) as peer:
        peer.send(headers(1, fields(frames.REFLECTION)))
        for _ in range(200):
            peer.send(piece * 50)


def ended_stream(target):
    """DATA for a stream that the server has reset."""
    piece = data(1, b"x", flags=0)
    with target.connect(timeout=2) as peer:
        peer.send(headers(1, fields(frames.CHECK, ("content-length", "1"))) + data(1, message()))
        for _ in range(200):
            peer.send(piece * 50)


def long_string(target):
    """A header field of more than 64 KiB in as many CONTINUATION frames as it takes."""
    raw = frames.block(fields()) + frames.literal(b"x", bytes(70_000))
    pieces = [raw[start : start + 16_000] for start in range(0, len(raw), 16_000)]
    for _ in range(20):
        with target.connect(timeout=2) as peer:
            peer.send(headers(1, raw=pieces[0], flags=frames.END_STREAM))
            for piece in pieces[1:-1]:
                peer.send(frames.frame(frames.CONTINUATION, 0, 1, piece))
            peer.send(frames.frame(frames.CONTINUATION, frames.END_HEADERS, 1, pieces[-1]))


REFLECTED = functools.partial(closed_windows, 50, test_fairness.reflection_requests)
HOARDS = {
    "pages beside gRPC-Web, all at once": again(mixed_pages),
    "the page's script, windows closed": keeping(
        functools.partial(closed_windows, 350, test_fairness.script_requests), 3, ["qr"]
    ),
    "reflection, windows closed": keeping(REFLECTED, 2),
    "silent streams": keeping(silent_streams, 5, by_tls=8),
    "silent requests": keeping(silent_requests, 5, ["qr"], 8),
    "half requests": keeping(half_requests, 5, ["qr"]),
    "long fields, no request": keeping(long_fields, 5, ["qr"], 8),
    "header blocks without an end": keeping(open_blocks, 3, ["qr"], 8),
    "compressed requests without an end": keeping(compressed_requests, 5, ["qr"], 8),
    "silent connections": keeping(silent_connections, 12, by_tls=60),
    "proofs of nothing": again(proofs, ["identity"]),
    "padding": again(padding),
    "DATA for a stream that was reset": again(ended_stream),
    "header strings over 64 KiB": again(long_string),
}
