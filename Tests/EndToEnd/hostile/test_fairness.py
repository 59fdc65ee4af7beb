"""Peers that take all there is, from one address and from 200: everybody else's real calls are served meanwhile."""

import contextlib
import itertools
import time

import authority
import frames
import grpc
import pytest
import sharing_proxy
from frames import data, fields, headers, message, rst_stream
from latchkey.qr.v1 import qr_session_service_pb2 as qr
from latchkey.qr.v1 import qr_session_service_pb2_grpc
from peer import DEADLINE, Closed
from target import serving

CONNECTIONS, CALLS = 700, 600
SOURCES = {
    "one source": ["127.0.5.1"],
    "200 sources": [f"127.0.6.{number}" for number in range(1, 201)],
}


BUFFERED_BYTES = 256 * 1024 * 1024
NO_RATES = ["--poll-interval", "0s", "--poll-long-interval", "0s"]


@pytest.fixture
def roomy_target(qr_binary, tmp_path):
    with serving(qr_binary, tmp_path, *NO_RATES) as target:
        yield target


@pytest.fixture
def tight_target(qr_binary, tmp_path):
    limits = ["--limits-connections", str(CONNECTIONS), "--limits-calls", str(CALLS)]
    with serving(qr_binary, tmp_path, *limits, *NO_RATES) as target:
        yield target


@pytest.fixture
def tight_tls_target(qr_binary, tmp_path):
    files = authority.issue(tmp_path / "tls")
    tls = ["--tls-certificate-file", str(files.certificate), "--tls-key-file", str(files.key)]
    limits = ["--limits-connections", str(CONNECTIONS), "--limits-calls", str(CALLS)]
    with serving(qr_binary, tmp_path, *limits, *tls, *NO_RATES, authority=files.authority) as target:
        yield target


@pytest.fixture
def sharing_target(qr_binary, tmp_path):
    """One behind a proxy that names its clients and has them share its connections."""
    with (
        serving(qr_binary, tmp_path, "--limits-calls", str(CALLS), "--proxies-trusted", "127.0.0.1", *NO_RATES) as target,
        contextlib.closing(sharing_proxy.Proxy(target.port, "127.0.0.1")) as target.proxy,
    ):
        yield target


class Honest:
    """A screen that asks for codes and polls them, on a connection that was there before and on new ones."""

    def __init__(self, target):
        self.address = f"127.0.0.1:{target.port}"
        self.authority = target.authority
        self.old = self._channel()
        self.times = []

    def _channel(self):
        options = [("grpc.use_local_subchannel_pool", 1)]
        if self.authority is None:
            return grpc.insecure_channel(self.address, options)
        return grpc.secure_channel(self.address, grpc.ssl_channel_credentials(self.authority.read_bytes()), options)

    def calls(self):
        """Issues and polls a code, by a short poll and by one that waits, on the old connection and on a new one."""
        for channel in (self.old, self._channel()):
            stub = qr_session_service_pb2_grpc.QrSessionServiceStub(channel)
            for wait in (0, 200):
                start = time.monotonic()
                code = stub.IssueSession(
                    qr.IssueSessionRequest(
                        client_id="latchkey-demo", purpose=qr.PURPOSE_LOGIN, code_challenge="A" * 43,
                        code_challenge_method="S256", initiator=qr.Initiator(label="a screen"),
                    ),
                    timeout=DEADLINE,
                )  # fmt: skip
                poll = qr.PollSessionRequest(device_code=code.device_code, wait_ms=wait, last_version=1 if wait else 0)
                assert stub.PollSession(poll, timeout=DEADLINE).state == qr.SESSION_STATE_PENDING
                self.times.append(time.monotonic() - start)
            if channel is not self.old:
                channel.close()


class HonestBehindProxy(Honest):
    """Screens whose calls a proxy carries among others': one that is known, and others that are new."""

    numbers = itertools.count(1)

    def __init__(self, target):
        self.proxy = target.proxy
        self.old, self.times = self._channel(), []

    def _channel(self):
        return sharing_proxy.Channel(self.proxy, f"127.0.9.{next(self.numbers)}")

    def calls(self):
        """Once more where there was no time: on a busy machine what all of the proxy's clients ask for together takes some."""
        end = time.monotonic() + DEADLINE
        while True:
            try:
                return super().calls()
            except grpc.RpcError as error:
                if "in time" not in error.details() or time.monotonic() > end:
                    raise
                time.sleep(0.2)


def attackers(stack, target, sources, count, sent=b""):
    """So many connections, in turn from each source, on which that is sent; those that are refused are none."""
    made = []
    for number in range(count):
        with contextlib.suppress(Closed, OSError):
            made.append(stack.enter_context(target.connect(source=sources[number % len(sources)])))
            made[-1].send(sent)
    return made


def assert_served(honest, rounds=5):
    """Real calls in a row, all the while the attackers hold what they have."""
    for _ in range(rounds):
        honest.calls()
    assert max(honest.times) < DEADLINE


@pytest.mark.parametrize("sources", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize(
    "path", [frames.REFLECTION, frames.WATCH, frames.ISSUE, frames.POLL], ids=["reflection", "watch", "issue", "poll"]
)
def test_silent_streams(tight_target, sources, path):
    """R50: streams that wait for ever take no waiting call from who has few"""
    honest = Honest(tight_target)
    honest.calls()
    with contextlib.ExitStack() as stack:
        for attacker in attackers(stack, tight_target, sources, 200):
            for number in range(1, 21, 2):
                with contextlib.suppress(OSError):
                    # The other calls wait for their request.
                    request = [data(number, message())] if path == frames.WATCH else []
                    attacker.send(headers(number, fields(path)), *request)
            with contextlib.suppress(Closed):
                attacker.barrier()
        assert_served(honest)
        # A poll is looked at with its request: before anybody wants their room, they are only counted.
        assert tight_target.metrics()["server_refused_calls_total"] > 0
    tight_target.call()


@pytest.mark.parametrize("sources", SOURCES.values(), ids=SOURCES)
def test_hoarded_connections(tight_target, sources):
    """R50: connections that are kept, each with a silent stream, take no place from who has few"""
    hoard_connections(tight_target, sources)


def test_hoarded_connections_by_tls(tight_tls_target):
    """R50: connections by TLS that are kept, each with a silent stream, take no place from who has few"""
    hoard_connections(tight_tls_target, SOURCES["200 sources"])


def hoard_connections(target, sources):
    honest = Honest(target)
    honest.calls()
    with contextlib.ExitStack() as stack:
        # Those that do nothing for ten seconds go by themselves.
        made = attackers(stack, target, sources, CONNECTIONS + 50, headers(1, fields(frames.REFLECTION)))
        assert target.metrics()["server_refused_connections_total"] > 0
        assert_served(honest)
        for attacker in made:
            with contextlib.suppress(Closed, OSError):
                attacker.barrier()
        assert (frames.ENHANCE_YOUR_CALM, b"too_many_connections") in [(each.goaway, each.debug) for each in made]
    target.call()


@pytest.mark.parametrize("sources", SOURCES.values(), ids=SOURCES)
def test_clients_of_one_proxy(sharing_target, sources):
    """R50: silent requests and cancelled ones of some clients of a proxy keep none of its others from being served"""
    proxy, honest, names = sharing_target.proxy, HonestBehindProxy(sharing_target), itertools.cycle(sources)
    honest.calls()

    def silent(number):
        return headers(number, raw=sharing_proxy.block(frames.ISSUE, next(names)))

    def cancelled(number):
        return headers(number, raw=sharing_proxy.block(frames.CHECK, next(names))) + rst_stream(number)

    for connection in [*proxy.all(), *(proxy.connect() for _ in range(CALLS // sharing_proxy.STREAMS_OF_MANY))]:
        assert len(connection.begin(sharing_proxy.STREAMS_OF_MANY, silent))
    for _ in range(5):
        for connection in proxy.all():
            connection.begin(20, cancelled, kept=False)
        assert_served(honest, 1)
    assert sharing_target.metrics()["server_refused_calls_total"] > 0
    assert not proxy.ended
    proxy.shrink()
    sharing_target.call()


@pytest.mark.parametrize("sources", SOURCES.values(), ids=SOURCES)
def test_half_requests_through_a_proxy(sharing_target, sources):
    """R50: windows that some clients of a proxy fill with requests that do not end are not its others'"""
    proxy, honest, names = sharing_target.proxy, HonestBehindProxy(sharing_target), itertools.cycle(sources)
    honest.calls()
    body = message(bytes(31_000), length=32_000)

    def half(number):
        pieces = data(number, body[:16_000], flags=0) + data(number, body[16_000:], flags=0)
        return headers(number, raw=sharing_proxy.block(frames.ISSUE, next(names))) + pieces

    for connection in proxy.all():
        # A few at a time, since the service takes some of it before the proxy may send more.
        begun, end = 0, time.monotonic() + DEADLINE
        while begun < sharing_proxy.STREAMS_OF_MANY and time.monotonic() < end:
            begun += len(connection.begin(min(sharing_proxy.STREAMS_OF_MANY - begun, 10), half, len(body)))
            time.sleep(0.005)
        assert begun == sharing_proxy.STREAMS_OF_MANY
    assert_served(honest)
    assert not proxy.ended
    proxy.shrink()
    sharing_target.call()


def test_late_data_through_a_proxy(sharing_target):
    """R50: what a client of a proxy sends for a request that was reset ends no connection that others share"""
    proxy = sharing_target.proxy
    connection = proxy.all()[0]
    endless = message(b"", length=0xFFFFFFFF)

    def refused(number):
        return headers(number, raw=sharing_proxy.block(frames.ISSUE, "127.0.5.1")) + data(number, endless, flags=0)

    (number,) = connection.begin(1, refused, len(endless))
    end = time.monotonic() + DEADLINE
    while number in connection.streams:
        assert time.monotonic() < end
        time.sleep(0.01)
    assert connection.go_on(data(number, b"x", flags=0) * 2000, 2000)
    assert_served(HonestBehindProxy(sharing_target))
    assert not proxy.ended and connection in proxy.all()


def script_requests(number):
    """The page's script: a request of a few bytes, and an answer of some thousand."""
    return frames.headers(
        number, [(":method", "GET"), (":scheme", "http"), (":path", "/signin/screen.js"), (":authority", "localhost")],
        flags=frames.END_HEADERS | frames.END_STREAM,
    )  # fmt: skip


def reflection_requests(number):
    """What describes a whole service, again and again, on one stream."""
    symbol = b"latchkey.qr.v1.QrSessionService"
    question = message(b"\x22" + bytes([len(symbol)]) + symbol)
    return headers(number, fields(frames.REFLECTION)) + data(number, question * 20, flags=0)


@pytest.mark.parametrize("sources", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize(
    ("connections", "request_of"), [(350, script_requests), (50, reflection_requests)], ids=["script", "reflection"]
)
def test_answers_nobody_takes(roomy_target, sources, connections, request_of):
    """R50: answers that wait for closed windows until the server holds no more keep nobody else from being served"""
    honest = Honest(roomy_target)
    honest.calls()
    requests = [request_of(number) for number in range(1, 200, 2)]
    with contextlib.ExitStack() as stack:
        made = []
        for number in range(connections):
            source = sources[number % len(sources)]
            attacker = roomy_target.connect((frames.INITIAL_WINDOW_SIZE, 0), source=source)
            made.append(stack.enter_context(attacker))
            with contextlib.suppress(OSError):
                attacker.send(*requests)
        for attacker in made:
            attacker.barrier()
        # From many sources they make room for one another already.
        assert roomy_target.metrics()["server_buffered_bytes"] > BUFFERED_BYTES / 2
        assert_served(honest)
        # On a busy machine what fills the rest may still be on its way.
        end = time.monotonic() + DEADLINE
        while not any(frames.ENHANCE_YOUR_CALM in attacker.resets.values() for attacker in made):
            assert time.monotonic() < end
            for attacker in made:
                attacker.barrier()
            assert_served(honest)
    roomy_target.call()
