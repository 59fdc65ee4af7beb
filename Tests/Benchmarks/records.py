"""Attacks on TLS, on its handshakes and its records: for attacks.py."""

import contextlib
import os
import secrets
import socket
import ssl
import struct
import tempfile
import time

import frames
import key_updates
import tls_records
from hoards import again, keeping, reset_at_end

APPLICATION_DATA, HANDSHAKE = 23, 22
# The largest record (RFC 8446 §5.2): 2^14 bytes and what encrypting adds.
LONGEST = 2**14 + 256


def record(kind, payload, length=None):
    """A record; its length may lie."""
    return struct.pack(">BHH", kind, 0x0303, len(payload) if length is None else length) + payload


def beneath(peer):
    """What a connection runs over, past its TLS."""
    return socket.socket(fileno=os.dup(peer.socket.fileno()))


def client_hello(*protocols):
    hello = ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.set_alpn_protocols(protocols or ["h2"])
    session = context.wrap_bio(ssl.MemoryBIO(), hello, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        session.do_handshake()
    return hello.read()


def slow_handshake(target):
    half = client_hello()[:100]
    with contextlib.ExitStack() as stack:
        for peer in [stack.enter_context(target.raw(timeout=2)) for _ in range(100)]:
            peer.send(half)
        time.sleep(0.2)


def handshakes_at_once(target):
    """The same hello each time: the server has to make a key and a signature for each."""
    hello = client_hello()
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(target.raw(timeout=2)) for _ in range(50)]
        for peer in peers:
            peer.send(hello)
        for peer in peers:
            peer.socket.recv(65536)


def handshakes(target):
    """Whole handshakes, one after the other, and nothing else."""
    for _ in range(20):
        with target.connect(timeout=2):
            pass


def unknown_protocols(target):
    """Hellos of kilobytes that offer nothing that anybody speaks."""
    hello = client_hello(*(secrets.token_hex(50) for _ in range(100)))
    for _ in range(20):
        with target.raw(timeout=2) as peer:
            reset_at_end(peer).send(hello)
            peer.socket.recv(65536)


def hellos_by_the_byte(target):
    """A hello in as many records as it has bytes."""
    hello = b"".join(record(HANDSHAKE, bytes([byte])) for byte in client_hello()[5:])
    for _ in range(20):
        with target.raw(timeout=2) as peer:
            reset_at_end(peer).send(hello)
            peer.socket.recv(65536)


def updating(asks):
    """New keys again and again, of the attacker's or of both sides (RFC 8446 §4.6.3)."""

    def attack(target):
        with key_updates.Client(target.port) as client:
            client.update(20_000, asks)

    return attack


def records_of_a_byte(target):
    """Calls of which each byte is a record of its own."""
    with target.connect(timeout=2) as peer:
        for number in range(1, 200, 2):
            for byte in frames.call(number):
                peer.socket.send(bytes([byte]))


def records_of_nothing(target):
    """Records that are no one's: the first ends the connection."""
    for _ in range(20):
        with target.connect(timeout=2) as peer, beneath(reset_at_end(peer)) as raw:
            raw.sendall(record(APPLICATION_DATA, secrets.token_bytes(2**14)) * 4)


def half_records(target, stack):
    """The beginning of a record as long as one may be, on each of thousands of connections."""
    begun = record(APPLICATION_DATA, bytes(LONGEST - 100), LONGEST)
    for _ in range(4000):
        with contextlib.suppress(OSError):
            peer = reset_at_end(stack.enter_context(target.connect(timeout=2)))
            stack.enter_context(beneath(peer)).send(begun)


def another_hello(target):
    """Six bytes of another handshake, in a session of TLS 1.2 (RFC 5246 §7.4.1.1)."""
    hello = tls_records.message(tls_records.CLIENT_HELLO, 131_000, b"\3\3")
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        for _ in range(50):
            client = stack.enter_context(tls_records.Client(target.port, folder, ssl.TLSVersion.TLSv1_2))
            client.send(HANDSHAKE, hello)


HANDSHAKES = {
    "slow handshake": lambda: slow_handshake,
    "handshakes": lambda: handshakes,
    "handshakes at once": lambda: handshakes_at_once,
}
ATTACKS = HANDSHAKES | {
    "hellos with unknown protocols": again(unknown_protocols),
    "hellos by the byte": again(hellos_by_the_byte),
    "another hello": again(another_hello),
    "new keys": again(updating(False)),
    "new keys, of both": again(updating(True)),
    "records of a byte": again(records_of_a_byte),
    "records of nothing": again(records_of_nothing),
    "half records": keeping(half_records, 15, by_tls=15),
}
