"""HTTP/2 by hand, for what a well-behaved gRPC library never sends."""

import socket
import ssl
import struct

import h2.config
import h2.connection
import h2.events


class Connection:
    """One HTTP/2 connection to a service."""

    def __init__(self, world, name, timeout=10, source="127.0.0.1"):
        host, port = world.fleet.host, world.fleet.ports[name][0]
        raw = socket.create_connection(("127.0.0.1", port), timeout=timeout, source_address=(source, 0))
        if world.authority is not None:
            context = ssl.create_default_context(cafile=str(world.authority))
            context.set_alpn_protocols(["h2"])
            raw = context.wrap_socket(raw, server_hostname=host)
        self.socket = raw
        self.scheme = world.fleet.scheme
        self.host = f"{host}:{port}"
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.flush()

    def flush(self):
        data = self.h2.data_to_send()
        if data:
            self.socket.sendall(data)

    def request(self, path, body=b"", *, headers=(), method="POST", content_type="application/grpc", end=True):
        """Sends a request and returns its stream id. The body is sent as it is: with or without a gRPC prefix."""
        stream = self.h2.get_next_available_stream_id()
        fields = [
            (":method", method), (":scheme", self.scheme), (":path", path), (":authority", self.host), ("te", "trailers"),
            *((("content-type", content_type),) if content_type else ()),
            *headers,
        ]  # fmt: skip
        self.h2.send_headers(stream, fields, end_stream=end and not body)
        if body:
            view = memoryview(body)
            while view:
                size = min(len(view), self.h2.max_outbound_frame_size, self.h2.local_flow_control_window(stream))
                assert size > 0, "the server's window is full"
                self.h2.send_data(stream, bytes(view[:size]), end_stream=end and size == len(view))
                view = view[size:]
        self.flush()
        return stream

    def answer(self, stream):
        """(headers, body, trailers) of a stream; trailers-only answers have all of theirs in the headers."""
        headers, body, trailers = {}, b"", {}
        while True:
            data = self.socket.recv(65536)
            assert data, "the server closed the connection"
            for event in self.h2.receive_data(data):
                if getattr(event, "stream_id", None) != stream:
                    assert not isinstance(event, h2.events.ConnectionTerminated), f"GOAWAY {event.error_code}"
                    continue
                if isinstance(event, h2.events.ResponseReceived):
                    headers = dict(event.headers)
                elif isinstance(event, h2.events.DataReceived):
                    body += event.data
                    self.h2.acknowledge_received_data(event.flow_controlled_length, stream)
                elif isinstance(event, h2.events.TrailersReceived):
                    trailers = dict(event.headers)
                elif isinstance(event, h2.events.StreamReset):
                    self.flush()
                    return headers, body, trailers | {"reset": str(event.error_code)}
                elif isinstance(event, h2.events.StreamEnded):
                    self.flush()
                    return headers, body, trailers
            self.flush()

    def status(self, stream):
        """The gRPC status of a stream's answer, as a number."""
        headers, _, trailers = self.answer(stream)
        assert headers.get(":status") == "200", headers
        fields = headers | trailers
        assert "grpc-status" in fields, fields
        return int(fields["grpc-status"])

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def framed(message, compressed=0, length=None):
    """A gRPC message with its five-byte prefix, which may lie about the length."""
    return struct.pack(">BI", compressed, len(message) if length is None else length) + message
