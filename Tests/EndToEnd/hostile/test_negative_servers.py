"""Our client against servers that break off, ping, go away and pad: the cases of gRPC's negative HTTP/2 servers.

Source: grpc/grpc doc/http2-interop-test-descriptions.md. The cases' own call, of 271,828 bytes there and 314,159 back, is
`large_unary` of the public cases, which the program makes between two small calls on the same channel.
"""

import contextlib
import socket
import subprocess
import threading

import h2.config
import h2.connection
import h2.errors
import h2.events
import pytest

import services

SIZE = 314_159
UNARY = "/grpc.testing.TestService/UnaryCall"
HEAD = [(":status", "200"), ("content-type", "application/grpc")]
TRAILERS = [("grpc-status", "0")]


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def field(number, payload):
    return bytes([number << 3 | 2]) + varint(len(payload)) + payload


def message(payload):
    return b"\0" + len(payload).to_bytes(4, "big") + payload


# SimpleResponse, its payload's body of zeros.
ANSWER = message(field(1, field(2, bytes(SIZE))))


class Connection:
    """One connection of the client's: what `script` does about the large call, and sound answers to the small ones."""

    def __init__(self, server, accepted):
        self.server = server
        self.socket = accepted
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        self.paths = {}
        self.received = {}
        self.waiting = []
        self.pings = self.answered = 0

    def serve(self):
        self.h2.initiate_connection()
        with self.socket, contextlib.suppress(ConnectionError):
            self.flush()
            while some := self.socket.recv(65536):
                for event in self.h2.receive_data(some):
                    self.take(event)
                self.flush()

    def flush(self):
        while self.waiting:
            stream, step = self.waiting[0]
            if not step(stream):
                break
            self.waiting.pop(0)
        self.socket.sendall(self.h2.data_to_send())

    def take(self, event):
        if isinstance(event, h2.events.RequestReceived):
            self.paths[event.stream_id] = dict(event.headers)[":path"]
        elif isinstance(event, h2.events.DataReceived):
            self.received[event.stream_id] = self.received.get(event.stream_id, 0) + len(event.data)
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.PingAckReceived):
            self.answered += 1
        elif isinstance(event, h2.events.StreamEnded):
            steps = self.server.script(self) if self.paths[event.stream_id] == UNARY else self.answer(message(b""))
            self.waiting += [(event.stream_id, step) for step in steps]

    # Steps answer whether they are done: what the client's windows have no room for goes on when they have.

    def answer(self, body, size=16384, padding=None):
        return [self.head, self.data(body, size, padding), self.trailers]

    def head(self, stream):
        self.h2.send_headers(stream, HEAD)
        return True

    def trailers(self, stream):
        self.h2.send_headers(stream, TRAILERS, end_stream=True)
        return True

    def data(self, body, size=16384, padding=None):
        left = memoryview(body)

        def step(stream):
            nonlocal left
            more = 0 if padding is None else padding + 1
            while len(left) > 0:
                count = min(len(left), size, self.h2.local_flow_control_window(stream) - more)
                if count <= 0:
                    return False
                self.h2.send_data(stream, bytes(left[:count]), pad_length=padding)
                left = left[count:]
            return True

        return step

    def reset(self, stream):
        self.h2.reset_stream(stream, h2.errors.ErrorCodes.NO_ERROR)
        return True

    def ping(self, _):
        self.pings += 1
        self.h2.ping(self.pings.to_bytes(8, "big"))
        return True

    def go_away(self, stream):
        """By hand: the library sends nothing more after a GOAWAY of its own."""
        payload = stream.to_bytes(4, "big") + bytes(4)
        self.socket.sendall(self.h2.data_to_send() + len(payload).to_bytes(3, "big") + bytes([7, 0, 0, 0, 0, 0]) + payload)
        return True


class Server:
    def __init__(self, script):
        self.script = script
        self.connections = []
        self.threads = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                accepted, _ = self.listener.accept()
                connection = Connection(self, accepted)
                self.connections.append(connection)
                self.threads.append(threading.Thread(target=connection.serve))
                self.threads[-1].start()


@contextlib.contextmanager
def serving(script):
    server = Server(script)
    acceptor = threading.Thread(target=server.accept)
    acceptor.start()
    try:
        yield server
    finally:
        # Wakes the acceptor; each connection ends with the client's process.
        server.listener.shutdown(socket.SHUT_RDWR)
        server.listener.close()
        acceptor.join()
        for thread in server.threads:
            thread.join()


@pytest.fixture(scope="session")
def program(qr_binary):
    return qr_binary / "latchkey-interop"


def outcome(program, script):
    """What the client printed of the large call, and the connections that it made."""
    with serving(script) as server:
        done = subprocess.run(
            [str(program), "--client", f"127.0.0.1:{server.port}", "--case", "large_unary"],
            capture_output=True, text=True, timeout=60, env=services.clean_environment(),
        )  # fmt: skip
    assert server.connections, done.stdout + done.stderr
    return done.stdout.splitlines()[0], server.connections


def test_goaway(program):
    """goaway: the call that a GOAWAY covers ends well, and the next one takes another connection by itself"""
    line, connections = outcome(program, lambda one: [one.go_away, *one.answer(ANSWER)])
    assert line == "passed large_unary"
    assert [sorted(one.paths.values()) for one in connections] == [
        ["/grpc.testing.TestService/EmptyCall", UNARY],
        ["/grpc.testing.TestService/EmptyCall"],
    ]


@pytest.mark.parametrize(
    "script",
    [
        lambda one: [one.head, one.reset],
        lambda one: [one.head, one.data(ANSWER[: SIZE // 2]), one.reset],
        lambda one: [one.head, one.data(ANSWER), one.reset],
    ],
    ids=["rst_after_header", "rst_during_data", "rst_after_data"],
)
def test_reset(program, script):
    """rst_after_header, rst_during_data, rst_after_data: a call whose stream is reset before its status fails, once"""
    line, connections = outcome(program, script)
    assert line.startswith("FAILED large_unary: ") and "the server reset the stream (NO_ERROR)" in line, line
    # Its answer had begun, so that it is not tried again.
    assert [list(one.paths.values()).count(UNARY) for one in connections] == [1]


def test_ping(program):
    """ping: each of the server's pings is answered, before and after the fields and the body of an answer"""
    line, connections = outcome(
        program,
        lambda one: [
            one.ping, one.head, one.ping, one.data(ANSWER[:1000]), one.ping, one.data(ANSWER[1000:]), one.ping,
            one.trailers,
        ],
    )  # fmt: skip
    assert line == "passed large_unary"
    assert [(one.pings, one.answered) for one in connections] == [(4, 4)]


@pytest.mark.parametrize("padding", [255, None], ids=["data_frame_padding", "no_df_padding_sanity_test"])
def test_small_frames(program, padding):
    """data_frame_padding: an answer in thousands of small frames, mostly padding, comes whole"""
    line, _ = outcome(program, lambda one: one.answer(ANSWER, size=50, padding=padding))
    assert line == "passed large_unary"
