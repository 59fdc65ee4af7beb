"""gRPC-Web by hand, as a browser's library would speak it: over HTTP/1.1 or HTTP/2, in bytes or in base64."""

import base64
import http.client
import ssl
import struct

import wire

BINARY = "application/grpc-web+proto"
TEXT = "application/grpc-web-text+proto"


class Reply:
    """An answer taken apart: the header fields, the messages, and the fields of the trailers frame."""

    def __init__(self, status, headers, body):
        self.http_status = status
        self.headers = headers
        self.messages = []
        self.trailers = None
        if headers.get("content-type", "").startswith("application/grpc-web-text"):
            body = decode_pieces(body)
        while body:
            flag, length = struct.unpack(">BI", body[:5])
            part, body = body[5 : 5 + length], body[5 + length :]
            assert len(part) == length, "the body ends within a frame"
            assert self.trailers is None, "a frame after the trailers"
            if flag & 0x80:
                lines = part.decode().split("\r\n")
                assert lines.pop() == "", "the trailers do not end in a line break"
                self.trailers = dict(line.split(": ", 1) for line in lines)
            else:
                self.messages.append(part)

    @property
    def status(self):
        return int(self.trailers["grpc-status"])


def decode_pieces(text):
    """Base64 in one piece or several, each padded."""
    assert len(text) % 4 == 0
    return b"".join(base64.b64decode(text[index : index + 4], validate=True) for index in range(0, len(text), 4))


def encode(body, content_type):
    return base64.b64encode(body) if "-text" in content_type else body


class HTTP1:
    """A connection of HTTP/1.1."""

    def __init__(self, world, name, source="127.0.0.1"):
        host, port = world.fleet.host, world.fleet.ports[name][0]
        origin = (source, 0)
        if world.authority is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10, source_address=origin)
        else:
            context = ssl.create_default_context(cafile=str(world.authority))
            context.set_alpn_protocols(["http/1.1"])
            self.connection = http.client.HTTPSConnection(
                host, port, timeout=10, context=context, source_address=origin
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def request(self, method, path, body=b"", headers=()):
        """(status, headers, body)"""
        self.connection.request(method, path, body=body, headers=dict(headers))
        answer = self.connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()

    def call(self, path, body, content_type=BINARY, headers=()):
        fields = {"content-type": content_type, "x-grpc-web": "1", **dict(headers)}
        return Reply(*self.request("POST", path, encode(body, content_type), fields))


class HTTP2:
    """A connection of HTTP/2."""

    def __init__(self, world, name, source="127.0.0.1"):
        self.connection = wire.Connection(world, name, source=source)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.socket.close()

    def request(self, method, path, body=b"", headers=()):
        headers = dict(headers)
        content_type = headers.pop("content-type", None)
        stream = self.connection.request(
            path, body, method=method, content_type=content_type, headers=list(headers.items())
        )
        fields, answer, trailers = self.connection.answer(stream)
        assert not trailers, "gRPC-Web has its trailers in the body"
        return int(fields[":status"]), fields, answer

    call = HTTP1.call
