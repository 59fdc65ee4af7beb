"""A proxy that names the client of each request in X-Forwarded-For, and has its clients share connections to a service.

It keeps to the service's limits, reads all that comes, and carries what its clients ask for, be they honest or not. A request
goes to a connection that has room for one more, by turns, and where none has to a new one. Its loop is a thread of its own;
whoever calls is another one.
"""

import collections
import contextlib
import functools
import queue
import select
import socket
import struct
import threading
import time

import frames
import grpc
import hpack
from frames import DATA, END_STREAM, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE

# Connections that are always there, and requests on each: of anybody, and of whoever takes all that there is.
FEW, STREAMS, STREAMS_OF_MANY = 4, 100, 80
# The largest window of a connection, and the protocol's first one of it and of a stream (RFC 9113 §6.9).
WIDEST, WINDOW = 0x7FFFFFFF, 65_535
# What the kernel keeps of what is to be sent: with more of it one client's requests would wait long behind another's.
SEND_BUFFER = 64 * 1024


@functools.lru_cache(4096)
def decoded(block):
    """The fields of a block. Without a dynamic table equal blocks are equal fields."""
    decoder = hpack.Decoder()
    decoder.max_allowed_table_size = decoder.header_table_size = 0
    return dict(decoder.decode(block))


def block(path, client, *extra):
    """The header block of a request of a client of that address."""
    listed = frames.fields(path, ("x-forwarded-for", client), *extra)
    return b"".join(frames.literal(name.encode(), value.encode()) for name, value in listed)


class Stream:
    """What was answered so far to an honest client."""

    def __init__(self):
        self.fields, self.body, self.messages = {}, b"", queue.SimpleQueue()

    def received(self, payload):
        self.body += payload
        while len(self.body) >= 5 and len(self.body) >= (end := 5 + int.from_bytes(self.body[1:5], "big")):
            self.messages.put(self.body[5:end])
            self.body = self.body[end:]

    def ended(self, why=None):
        """The end, with what the answer says of it or with why there is none."""
        self.messages.put((int(self.fields.get("grpc-status", 13)), self.fields.get("grpc-message", "")) if why is None else why)


class Connection:
    def __init__(self, proxy):
        self.proxy, self.lock = proxy, threading.Lock()
        # Requests that have not ended: their streams, or None for what nobody waits for.
        self.streams, self.next = {}, 1
        # What may be sent: on the connection, and requests that wait until more may be.
        self.room, self.late = WINDOW, collections.deque()
        self.input, self.output = b"", bytearray()
        self.is_open = True
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        self.socket.bind((proxy.address, 0))
        self.socket.connect(("127.0.0.1", proxy.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        with self.lock:
            self.write(frames.PREFACE + frames.settings((frames.HEADER_TABLE_SIZE, 0), (frames.ENABLE_PUSH, 0)))
            self.write(frames.window_update(0, WIDEST - WINDOW))

    # All of these with the lock.

    def write(self, sent):
        if not self.output:
            try:
                sent = sent[self.socket.send(sent) :]
            except BlockingIOError:
                pass
            except OSError:
                # The loop finds it closed.
                return
        self.output += sent

    def flush(self):
        while self.output:
            try:
                del self.output[: self.socket.send(self.output)]
            except OSError:
                return

    def take(self, kind, flags, number, payload):
        if kind == DATA:
            if stream := self.streams.get(number):
                stream.received(payload)
        elif kind == HEADERS:
            if stream := self.streams.get(number):
                stream.fields |= decoded(payload)
        elif kind == RST_STREAM:
            if stream := self.streams.pop(number, None):
                stream.ended((8, f"reset with {int.from_bytes(payload, 'big')}"))
        elif kind == SETTINGS and not flags & frames.ACK:
            self.write(frames.settings(flags=frames.ACK))
        elif kind == PING and not flags & frames.ACK:
            self.write(frames.frame(PING, frames.ACK, 0, payload))
        elif kind == WINDOW_UPDATE and number == 0:
            self.room += int.from_bytes(payload, "big")
            while self.late and len(self.late[0][1]) <= self.room:
                late, body = self.late.popleft()
                if late in self.streams:
                    self.send(late, body)
        elif kind == GOAWAY:
            self.is_open = False
            self.proxy.ended[payload[8:].decode() or f"code {int.from_bytes(payload[4:8], 'big')}"] += 1
        if kind in (DATA, HEADERS) and flags & END_STREAM and (stream := self.streams.pop(number, None)):
            stream.ended()

    def send(self, number, body):
        self.room -= len(body)
        self.write(frames.data(number, body))

    # These take it.

    def received(self, some):
        with self.lock:
            some = self.input + some if self.input else some
            start = 0
            while len(some) - start >= 9:
                end = start + 9 + int.from_bytes(some[start : start + 3], "big")
                if len(some) < end:
                    break
                number = int.from_bytes(some[start + 5 : start + 9], "big")
                self.take(some[start + 3], some[start + 4], number, some[start + 9 : end])
                start = end
            self.input = some[start:]

    def call(self, head, body):
        """An honest client's request; its number and its stream. None where there is no room any more."""
        with self.lock:
            if not self.is_open or len(self.streams) >= STREAMS:
                return None
            number, self.next = self.next, self.next + 2
            stream = self.streams[number] = Stream()
            self.write(frames.headers(number, raw=head))
            if len(body) <= self.room and not self.late:
                self.send(number, body)
            else:
                self.late.append((number, body))
        return number, stream

    def begin(self, count, make, length=0, kept=True):
        """Requests of whoever wants all that there is: what `make` makes for their numbers, with `length` bytes of DATA in each.

        How many were begun is not more than there is room for; none while what was sent before waits to be. `kept` are those
        that have no end.
        """
        with self.lock:
            if not self.is_open or self.output:
                return []
            if kept:
                count = min(count, STREAMS_OF_MANY - len(self.streams))
            if length:
                count = min(count, self.room // length)
            numbers = range(self.next, self.next + 2 * max(count, 0), 2)
            self.next = numbers.stop if numbers else self.next
            if kept:
                self.streams.update(dict.fromkeys(numbers))
            self.room -= length * len(numbers)
            self.write(b"".join(map(make, numbers)))
        return numbers

    def go_on(self, parts, length=0):
        """More of what was begun. Whether there was room for it."""
        with self.lock:
            if not self.is_open or self.output or length > self.room:
                return False
            self.room -= length
            self.write(parts)
        return True

    def reset(self, numbers):
        with self.lock:
            self.write(b"".join(frames.rst_stream(number) for number in numbers if number in self.streams))
            for number in numbers:
                self.streams.pop(number, None)

    def close(self):
        """Lets those know who wait for it. Each closes it at most once, so that its number is not another's by then."""
        with self.lock:
            self.is_open = False
            for stream in self.streams.values():
                if stream:
                    stream.ended((14, "the proxy has lost the connection"))
            self.streams = {}
            self.socket.close()


class Proxy:
    def __init__(self, port, address):
        self.port, self.address = port, address
        # Why connections have ended that were not the proxy's to end.
        self.ended = collections.Counter()
        self.lock, self.epoll = threading.Lock(), select.epoll()
        self.connections, self.turn = {}, 0
        self.is_closed = False
        self.thread = threading.Thread(target=self._loop, daemon=True)
        self.thread.start()
        self.shrink()

    def connect(self):
        made = Connection(self)
        with self.lock:
            self.connections[made.socket.fileno()] = made
        self.epoll.register(made.socket.fileno(), select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
        return made

    def all(self):
        with self.lock:
            return list(self.connections.values())

    def call(self, head, body):
        """An honest client's request: its connection, its number and its stream."""
        with self.lock:
            self.turn += 1
            open_ones = list(self.connections.values())
        for index in range(len(open_ones)):
            connection = open_ones[(self.turn + index) % len(open_ones)]
            if len(connection.streams) < STREAMS and (begun := connection.call(head, body)):
                return connection, *begun
        try:
            connection = self.connect()
        except OSError as error:
            raise Refused(14, str(error)) from error
        if begun := connection.call(head, body):
            return connection, *begun
        raise Refused(14, "the service ends new connections")

    def shrink(self):
        """Has so many connections as are always there, and on those no request that nobody waits for."""
        for connection in self.all()[FEW:]:
            self._close(connection)
        for connection in self.all():
            connection.reset([number for number, stream in list(connection.streams.items()) if stream is None])
        for _ in range(FEW - len(self.connections)):
            self.connect()

    def _close(self, connection):
        with self.lock:
            numbers = [number for number, each in self.connections.items() if each is connection]
            for number in numbers:
                del self.connections[number]
        if numbers:
            connection.close()

    def _loop(self):
        while not self.is_closed:
            for number, event in self.epoll.poll(0.2):
                with self.lock:
                    connection = self.connections.get(number)
                if connection is None:
                    continue
                if event & select.EPOLLOUT:
                    with connection.lock:
                        connection.flush()
                if event & ~select.EPOLLOUT and not self._read(connection):
                    self._close(connection)

    def _read(self, connection):
        """Whether more may come."""
        while True:
            try:
                some = connection.socket.recv(1 << 18)
            except BlockingIOError:
                return True
            except OSError:
                some = b""
            if not some:
                if connection.is_open:
                    self.ended["closed without a word"] += 1
                return False
            connection.received(some)

    def close(self):
        self.is_closed = True
        self.thread.join()
        for connection in self.all():
            self._close(connection)
        self.epoll.close()


class Refused(grpc.RpcError):
    def __init__(self, code, message):
        super().__init__(f"{code}: {message}")
        self._code, self._message = code, message

    def code(self):
        return next(code for code in grpc.StatusCode if code.value[0] == self._code)

    def details(self):
        return self._message


class Answers:
    """The messages of an answer as they come."""

    def __init__(self, proxy, head, body, deserialize, timeout):
        self.end = time.monotonic() + (timeout or 3600)
        self.deserialize = deserialize
        self.connection, self.number, self.stream = proxy.call(head, body)

    def __iter__(self):
        return self

    def __next__(self):
        try:
            got = self.stream.messages.get(timeout=max(self.end - time.monotonic(), 0))
        except queue.Empty:
            self.cancel()
            raise Refused(4, "no answer before the deadline") from None
        if isinstance(got, bytes):
            return self.deserialize(got)
        if got[0] == 0:
            raise StopIteration
        raise Refused(*got)

    def cancel(self):
        with contextlib.suppress(OSError):
            self.connection.reset([self.number])


class Channel:
    """What stubs want of a channel, for one client of a proxy."""

    def __init__(self, proxy, client):
        self.proxy, self.client = proxy, client

    def unary_unary(self, path, request_serializer, response_deserializer, **_):
        return lambda request, **given: self._one(path, [request], request_serializer, response_deserializer, **given)

    def stream_unary(self, path, request_serializer, response_deserializer, **_):
        return lambda requests, **given: self._one(path, requests, request_serializer, response_deserializer, **given)

    def unary_stream(self, path, request_serializer, response_deserializer, **_):
        return lambda request, **given: self._begin(path, [request], request_serializer, response_deserializer, **given)

    def stream_stream(self, path, request_serializer, response_deserializer, **_):
        return lambda requests, **given: self._begin(path, requests, request_serializer, response_deserializer, **given)

    def _begin(self, path, requests, serialize, deserialize, timeout=None, metadata=()):
        limit = [("grpc-timeout", f"{int(timeout * 1000)}m")] if timeout else []
        body = b"".join(frames.message(serialize(request)) for request in requests)
        return Answers(self.proxy, block(path, self.client, *limit, *(metadata or ())), body, deserialize, timeout)

    def _one(self, *given, **options):
        answers = self._begin(*given, **options)
        (answer,) = answers
        return answer

    def close(self):
        """Its connections are others' as well."""


def header_of(client, address, port):
    """The PROXY protocol's header of version 2 by which a proxy says whose connection it is (section 2.2)."""
    addresses = socket.inet_aton(client) + socket.inet_aton(address) + struct.pack(">HH", 40_000, port)
    return b"\r\n\r\n\0\r\nQUIT\n\x21\x11" + struct.pack(">H", len(addresses)) + addresses

