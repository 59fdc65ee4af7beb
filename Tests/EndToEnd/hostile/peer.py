"""One HTTP/2 connection made of raw frames, and what the server answered on it."""

import collections
import contextlib
import functools
import os
import socket
import ssl
import struct
import time

import frames
import hpack

# An honest call beside an attack has this long: far beyond what it takes, far below what a client would wait.
DEADLINE = 5

Frame = collections.namedtuple("Frame", "kind flags stream payload")

# How the server took something: a connection error ("connection", code), a stream error ("stream", code), the end of
# the TCP connection without a GOAWAY ("closed", None), or business as usual ("open", None).
Verdict = collections.namedtuple("Verdict", "scope code")


class Closed(Exception):
    """The server closed the connection."""


@functools.cache
def trusting(authority, protocol):
    context = ssl.create_default_context(cafile=str(authority))
    context.set_alpn_protocols([protocol])
    return context


class Peer:
    def __init__(self, port, tls=None, timeout=10, receive_buffer=None, source=None, protocol="h2"):
        raw = socket.socket()
        if receive_buffer:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        raw.settimeout(timeout)
        if source:
            raw.bind((source, 0))
        raw.connect(("127.0.0.1", port))
        # The frames of a test leave as they are written.
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            raw = trusting(tls, protocol).wrap_socket(raw, server_hostname="localhost")
        self.socket = raw
        self.received = b""
        self.decoder = hpack.Decoder()
        self.goaway = None
        self.debug = b""
        self.resets = {}
        self.answers = {}
        self.ended = set()
        self.seen = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, *parts):
        self.socket.sendall(b"".join(parts))

    def hello(self, *settings):
        """The client preface; waits for the server's SETTINGS and acknowledges them."""
        self.send(frames.PREFACE, frames.settings(*settings))
        while True:
            got = self.next()
            if got.kind == frames.SETTINGS and not got.flags & frames.ACK:
                self.send(frames.settings(flags=frames.ACK))
                return self

    def next(self):
        """The server's next frame. Throws `Closed` at the end."""
        while len(self.received) < 9 or len(self.received) < 9 + self._length():
            try:
                some = self.socket.recv(65536)
            except (ConnectionError, ssl.SSLError) as error:
                raise Closed from error
            if not some:
                raise Closed
            self.received += some
        length = self._length()
        kind, flags, stream = struct.unpack(">BBI", self.received[3:9])
        got = Frame(kind, flags, stream, self.received[9 : 9 + length])
        self.received = self.received[9 + length :]
        if kind == frames.GOAWAY:
            code = struct.unpack(">I", got.payload[4:8])[0]
            if code != frames.NO_ERROR or self.goaway is None:
                self.goaway, self.debug = code, got.payload[8:]
        elif kind == frames.RST_STREAM:
            self.resets.setdefault(stream, struct.unpack(">I", got.payload)[0])
        elif kind == frames.HEADERS:
            # In the order they come, or the compression tables part.
            self.answers.setdefault(stream, ({}, bytearray()))[0].update(self.decoder.decode(got.payload))
        elif kind == frames.DATA:
            self.answers.setdefault(stream, ({}, bytearray()))[1].extend(got.payload)
        if kind == frames.RST_STREAM or kind in (frames.HEADERS, frames.DATA) and flags & frames.END_STREAM:
            self.ended.add(stream)
        self.seen.append(got)
        return got

    def _length(self):
        return int.from_bytes(self.received[:3], "big")

    def barrier(self):
        """Sends a PING and reads up to its answer: what was sent before is dealt with."""
        token = os.urandom(8)
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            self.send(frames.frame(frames.PING, payload=token))
        while True:
            got = self.next()
            if got.kind == frames.PING and got.flags & frames.ACK and got.payload == token:
                return

    def read_to_end(self):
        """Everything up to the server's closing the connection."""
        with contextlib.suppress(Closed):
            while True:
                self.next()

    def verdict(self, stream=None):
        """How the server took what was sent so far; `stream` is the one whose reset counts."""
        try:
            # A PING is answered before what else the same read made the server say: the second one has all of it.
            self.barrier()
            self.barrier()
        except Closed:
            return Verdict("connection", self.goaway) if self.goaway is not None else Verdict("closed", None)
        if self.goaway not in (None, frames.NO_ERROR):
            self.read_to_end()
            return Verdict("connection", self.goaway)
        if stream in self.resets:
            return Verdict("stream", self.resets[stream])
        return Verdict("open", None)

    def answer(self, stream):
        """Header fields, trailers joined to them, and the body of a stream's answer, up to its end."""
        while stream not in self.ended:
            self.next()
        got_fields, body = self.answers.get(stream, ({}, b""))
        return got_fields, bytes(body)

    def status(self, stream):
        got_fields, _ = self.answer(stream)
        return int(got_fields.get("grpc-status", -1))

    def is_closed_within(self, seconds):
        """Whether the server ends the connection in that time."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                if not self.socket.recv(65536):
                    return True
            except TimeoutError:
                return False
            except (ConnectionError, ssl.SSLError):
                return True
        return False
