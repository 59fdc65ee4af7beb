"""Memory follows the load down: what a burst took is the system's again, with its connections open and after them."""

import concurrent.futures
import contextlib
import time

import frames
from frames import call
from target import Target
from test_fairness import script_requests

CONNECTIONS, CALLS = 300, 100
# Answered by a handler, which has an object of its own on its stream: an error, for the request is empty.
POLL, INVALID_ARGUMENT = "/latchkey.qr.v1.QrSessionService/PollSession", 3
# What an idle connection may keep, and what the process may for itself.
PER_CONNECTION = 48 * 1024
SLACK = 8 * 1024 * 1024
# Connections free what they keep for more calls after 5 s, and the pages are given back within 15 s after that.
PATIENCE = 60


# What a password's hash works in, at the standard cost.
HASH = 19 * 1024 * 1024


def wait_until_below(target, bytes_more, before):
    end = time.monotonic() + PATIENCE
    while target.resident - before > bytes_more:
        assert time.monotonic() < end, f"{(target.resident - before) >> 10} KiB more, not {bytes_more >> 10}"
        time.sleep(0.5)


def test_memory_after_a_burst(tls_target):
    """Connections that have made a hundred calls at once and idle keep 48 KiB each, and nothing when they are closed"""
    burst = b"".join(call(number, POLL) for number in range(1, 2 * CALLS, 2))
    tls_target.call()
    before = tls_target.resident
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(tls_target.connect()) for _ in range(CONNECTIONS)]
        # One after the other: what all of them ask for at once would be refused for the most part, and leave less behind.
        for client in clients:
            client.send(burst)
            assert all(client.status(number) == INVALID_ARGUMENT for number in range(1, 2 * CALLS, 2))
        wait_until_below(tls_target, CONNECTIONS * PER_CONNECTION + SLACK, before)
    wait_until_below(tls_target, SLACK, before)


def test_memory_of_a_page_that_nobody_reads(tls_target):
    """A page that is kept is in memory once, however many answers of it wait for windows that stay closed"""
    requests = b"".join(script_requests(number) for number in range(1, 2 * CALLS, 2))
    tls_target.call()
    before = tls_target.resident
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            client = stack.enter_context(tls_target.connect((frames.INITIAL_WINDOW_SIZE, 0)))
            client.send(requests)
            client.barrier()
        waiting = int(tls_target.metrics()["server_buffered_bytes"])
        assert waiting > 100 * CALLS * 8 * 1024, "not all of it waits: this test measures nothing"
        more = tls_target.resident - before
        assert more < waiting / 2, f"{more >> 20} MiB more for {waiting >> 20} MiB of answers"
    wait_until_below(tls_target, SLACK, before)


def test_memory_after_sign_ins(own_world):
    """What passwords were hashed in is the system's again once nobody signs in"""
    service = own_world.fleet["identity"]
    identity = Target(service.process, service.grpc_port, None, service.management_port)
    before = identity.resident
    phone = own_world.account()
    with concurrent.futures.ThreadPoolExecutor(8) as people:
        list(people.map(lambda _: own_world.device().authenticate(phone.identifier), range(32)))
    assert identity.resident - before > HASH, "the hashes took no memory: this test measures nothing"
    wait_until_below(identity, SLACK, before)
