"""A TLS client that sends records of any type once its keys are agreed, by keys that Python's own client logs."""

import hashlib
import hmac
import pathlib
import socket
import ssl
import struct

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

HANDSHAKE, DATA = 22, 23
CLIENT_HELLO, CERTIFICATE, KEY_UPDATE = 1, 11, 24
RANDOM = slice(11, 43)


def message(kind, length, body=b""):
    """The head of a handshake message, and what is sent of it (RFC 8446 §4)."""
    return bytes([kind]) + length.to_bytes(3, "big") + body


class Client:
    """Connected, with HTTP/2 agreed. Trusts any certificate: it has nothing to lose.

    `finishes=False` leaves out the last flight of a TLS 1.3 handshake, and has the keys of the handshake.
    """

    def __init__(self, port, folder, version, finishes=True):
        log = pathlib.Path(folder) / "keys"
        log.unlink(missing_ok=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.minimum_version = context.maximum_version = version
        context.set_ciphers("ECDHE+AESGCM")
        context.set_alpn_protocols(["h2"])
        context.keylog_filename = str(log)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = context.wrap_bio(incoming, outgoing)
        self.socket = socket.create_connection(("127.0.0.1", port), 10)
        sent = received = b""
        while True:
            try:
                session.do_handshake()
                break
            except ssl.SSLWantReadError:
                flight = outgoing.read()
                sent += flight
                self.socket.sendall(flight)
                more = self.socket.recv(65536)
                received += more
                incoming.write(more)
        self.last_flight = outgoing.read()
        if finishes:
            self.socket.sendall(self.last_flight)
        lines = [line.split() for line in log.read_text().splitlines() if not line.startswith("#")]
        secrets = {line[0]: bytes.fromhex(line[2]) for line in lines}
        # Of suites with GCM those with the long hash have the long key.
        is_long = session.cipher()[0].endswith("SHA384")
        size = 32 if is_long else 16
        self.is_old = version == ssl.TLSVersion.TLSv1_2
        if self.is_old:
            randoms = received[RANDOM] + sent[RANDOM]
            digest = hashlib.sha384 if is_long else hashlib.sha256
            keys = expand(secrets["CLIENT_RANDOM"], b"key expansion" + randoms, 2 * size + 8, digest)
            self.cipher, self.vector, self.count = AESGCM(keys[:size]), keys[2 * size : 2 * size + 4], 1
        else:
            secret = secrets["CLIENT_TRAFFIC_SECRET_0" if finishes else "CLIENT_HANDSHAKE_TRAFFIC_SECRET"]
            algorithm = hashes.SHA384() if is_long else hashes.SHA256()
            self.cipher = AESGCM(expand_label(secret, b"key", size, algorithm))
            self.vector, self.count = expand_label(secret, b"iv", 12, algorithm), 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def record(self, kind, body):
        """One record, encrypted (RFC 5288 §3, RFC 8446 §5.2)."""
        if self.is_old:
            number = struct.pack(">Q", self.count)
            head = number + bytes([kind, 3, 3]) + struct.pack(">H", len(body))
            sealed = number + self.cipher.encrypt(self.vector + number, body, head)
            record = bytes([kind, 3, 3]) + struct.pack(">H", len(sealed)) + sealed
        else:
            head = bytes([DATA, 3, 3]) + struct.pack(">H", len(body) + 17)
            nonce = (int.from_bytes(self.vector, "big") ^ self.count).to_bytes(12, "big")
            record = head + self.cipher.encrypt(nonce, body + bytes([kind]), head)
        self.count += 1
        return record

    def send(self, kind, body):
        self.socket.sendall(self.record(kind, body))

    def is_ended(self, within=5):
        """Whether the server ends the connection, whatever it says before."""
        self.socket.settimeout(within)
        try:
            while self.socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except ConnectionError:
            pass
        return True


def expand(secret, seed, count, digest):
    """The PRF of TLS 1.2 (RFC 5246 §5)."""
    made, step = b"", seed
    while len(made) < count:
        step = hmac.new(secret, step, digest).digest()
        made += hmac.new(secret, step + seed, digest).digest()
    return made[:count]


def expand_label(secret, label, count, algorithm):
    """RFC 8446 §7.1."""
    label = b"tls13 " + label
    info = struct.pack(">H", count) + bytes([len(label)]) + label + b"\0"
    return HKDFExpand(algorithm, count, info).derive(secret)
