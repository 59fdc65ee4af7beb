"""Many screens at once: a raw HTTP/2 client whose own memory and time stay out of what is measured.

A connection writes frames made by hand and reads what comes; one thread serves all of them. It speaks just as much
HTTP/2 as our services need of a client: no dynamic header table, windows that never close.
"""

import functools
import select
import socket
import struct
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM = ACK = 1
END_HEADERS = 4


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


@functools.lru_cache
def field_block(path, authority):
    """Literals without indexing (RFC 7541 section 6.2.2), so that every stream's block is the same bytes."""
    fields = [
        (b":method", b"POST"), (b":scheme", b"http"), (b":path", path.encode()), (b":authority", authority.encode()),
        (b"te", b"trailers"), (b"content-type", b"application/grpc"),
    ]  # fmt: skip
    return b"".join(b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value for name, value in fields)


class Connection:
    def __init__(self, host, port):
        self.authority = f"{host}:{port}"
        self.socket = socket.create_connection((host, port), 10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.input = b""
        self.output = bytearray(PREFACE)
        # SETTINGS_INITIAL_WINDOW_SIZE for the streams, WINDOW_UPDATE for the connection: as wide as the protocol allows.
        self.output += frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0x7FFFFFFF))
        self.output += frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 0x7FFF0000 - 65535))
        self.next_stream = 1
        self.tags = {}
        self.bodies = {}

    def call(self, path, message, tag):
        """Queues a whole request. Its answers come to the swarm's callback with `tag`."""
        stream, self.next_stream = self.next_stream, self.next_stream + 2
        self.tags[stream] = tag
        self.bodies[stream] = b""
        self.output += frame(HEADERS, END_HEADERS, stream, field_block(path, self.authority))
        self.output += frame(DATA, END_STREAM, stream, b"\0" + struct.pack(">I", len(message)) + message)

    def flush(self):
        while self.output:
            try:
                sent = self.socket.send(self.output)
            except BlockingIOError:
                return False
            del self.output[:sent]
        return True

    def read(self, deliver):
        """Takes what the socket has. `deliver(tag, message, is_end)` gets each message, and None with the end."""
        try:
            data = self.socket.recv(1 << 18)
        except BlockingIOError:
            return
        if not data:
            raise RuntimeError("the service closed a connection")
        data = self.input + data
        start = 0
        while len(data) - start >= 9:
            length = int.from_bytes(data[start : start + 3], "big")
            if len(data) - start < 9 + length:
                break
            kind, flags = data[start + 3], data[start + 4]
            stream = int.from_bytes(data[start + 5 : start + 9], "big")
            self._take(kind, flags, stream, data[start + 9 : start + 9 + length], deliver)
            start += 9 + length
        self.input = data[start:]

    def _take(self, kind, flags, stream, payload, deliver):
        if kind == DATA:
            body = self.bodies[stream] + payload
            while len(body) >= 5 and len(body) >= 5 + int.from_bytes(body[1:5], "big"):
                size = int.from_bytes(body[1:5], "big")
                deliver(self.tags[stream], body[5 : 5 + size], False)
                body = body[5 + size :]
            self.bodies[stream] = body
        elif kind == SETTINGS and not flags & ACK:
            self.output += frame(SETTINGS, ACK, 0, b"")
        elif kind == PING and not flags & ACK:
            self.output += frame(PING, ACK, 0, payload)
        elif kind == GOAWAY:
            raise RuntimeError(f"the service said GOAWAY: {payload[8:]!r}")
        if stream in self.tags and (kind == RST_STREAM or (kind in (DATA, HEADERS) and flags & END_STREAM)):
            del self.bodies[stream]
            deliver(self.tags.pop(stream), None, True)


class Swarm:
    """Connections to one service."""

    def __init__(self, host, port, connections):
        self.poll = select.epoll()
        self.connections, self.by_file = [], {}
        for number in range(connections):
            connection = Connection(host, port)
            # The service waits for neither the preface nor the answer to its SETTINGS until all of ten thousand stand.
            connection.flush()
            self.connections.append(connection)
            self.by_file[connection.socket.fileno()] = connection
            self.poll.register(connection.socket.fileno(), select.EPOLLIN)
            if number % 100 == 99:
                self.pump(lambda *_: None, 0)

    def close(self):
        for connection in self.connections:
            connection.socket.close()
        self.poll.close()

    def pump(self, deliver, seconds):
        """Serves the sockets once, waiting at most so long."""
        for file, _ in self.poll.poll(seconds):
            connection = self.by_file[file]
            connection.read(deliver)
            self._flush(connection)

    def _flush(self, connection):
        interest = select.EPOLLIN if connection.flush() else select.EPOLLIN | select.EPOLLOUT
        self.poll.modify(connection.socket.fileno(), interest)

    def settle(self, seconds=0.5):
        """Serves the sockets for so long: nothing is expected to come."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.pump(lambda *_: None, 0.05)

    def unary(self, path, messages, at_a_time=1000):
        """Calls with all of `messages`, so many at a time. The answers in the same order."""
        answers = [None] * len(messages)
        waiting = list(reversed(range(len(messages))))
        left = len(messages)

        def begin(connection):
            if waiting:
                index = waiting.pop()
                connection.call(path, messages[index], (connection, index))

        def deliver(tag, message, is_end):
            nonlocal left
            connection, index = tag
            if is_end:
                left -= 1
                begin(connection)
            else:
                answers[index] = message

        for number, connection in enumerate(self.connections):
            for _ in range(min(100, (at_a_time + number) // len(self.connections))):
                begin(connection)
            self._flush(connection)
        while left:
            self.pump(deliver, 1)
        if None in answers:
            raise RuntimeError(f"{answers.count(None)} of {len(answers)} calls to {path} brought no message")
        return answers

    def open_streams(self, path, messages, per_connection, at_a_time=1 << 30):
        """Opens one stream for each message, so many on a connection, tagged by number. Each must answer once; so many at
        most wait for that, and as many as a connection has."""
        answered = 0

        def deliver(tag, message, is_end):
            nonlocal answered
            if is_end:
                raise RuntimeError(f"stream {tag} ended at once")
            answered += 1

        for number, message in enumerate(messages):
            connection = self.connections[number // per_connection]
            connection.call(path, message, number)
            if number % per_connection == per_connection - 1 or number == len(messages) - 1:
                self._flush(connection)
                self.pump(deliver, 0)
                while number - answered > at_a_time:
                    self.pump(deliver, 0.2)
        deadline = time.monotonic() + max(120, len(messages) / 5000)
        while answered < len(messages):
            self.pump(deliver, 0.2)
            if time.monotonic() > deadline:
                raise RuntimeError(f"only {answered} of {len(messages)} streams answered")
