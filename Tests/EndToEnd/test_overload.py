"""More than can be done in time: who cannot be served any more hears so at once, and at no cost to anybody."""

import asyncio
import base64
import collections
import concurrent.futures
import hashlib
import os
import signal
import threading
import time
import urllib.request

import grpc
from fast_client import FastClient, Refused, Unanswered
from google.rpc import error_details_pb2, status_pb2
from latchkey.identity.v1 import auth_service_pb2 as auth
from latchkey.qr.v1 import qr_session_service_pb2 as qr
from world import CLIENT_ID, PASSWORD, Failure, base64url

CALLERS = 16
ISSUE = "/latchkey.qr.v1.QrSessionService/IssueSession"
AUTHENTICATE = "/latchkey.identity.v1.AuthService/Authenticate"


def test_sign_ins_that_cannot_be_in_time(own_world):
    """R24: sign-ins that the passwords before them leave no time are told to come back, and count as no wrong tries"""
    names = [own_world.account().identifier for _ in range(CALLERS)]

    def sign_in(name, timeout=30):
        credential = auth.PasswordCredential(identifier=name, password=PASSWORD)
        try:
            own_world.auth.Authenticate(auth.AuthenticateRequest(client_id=CLIENT_ID, password=credential), timeout=timeout)
            return None
        except grpc.RpcError as error:
            return Failure(error)

    def timed():
        began = time.monotonic()
        assert sign_in(names[0]) is None
        return time.monotonic() - began

    alone = min(timed() for _ in range(5))
    # All together need five times as long, and may wait for far longer than that by the queue's own bound.
    refused = []
    for _ in range(10):
        with concurrent.futures.ThreadPoolExecutor(CALLERS) as pool:
            failures = pool.map(lambda name: sign_in(name, CALLERS / 5 * alone), names)
            refused += [failure for failure in failures if failure and failure.code == grpc.StatusCode.RESOURCE_EXHAUSTED]
    assert refused
    for failure in refused:
        assert failure.reason == "OVERLOADED" and failure.retry_after
    for name in names:
        assert sign_in(name) is None


class Slowed:
    """A service that has the processor for a tenth of the time, in short turns, or for less."""

    def __init__(self, service):
        self.pid = service.process.pid
        self.turn = 0.003
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.is_over.is_set():
            os.kill(self.pid, signal.SIGSTOP)
            time.sleep(0.027)
            os.kill(self.pid, signal.SIGCONT)
            time.sleep(self.turn)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()


def refused_early(service):
    """Calls that the service's port has refused so far, before any handler."""
    with urllib.request.urlopen(service.page_url("/metrics"), timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.split()[-1]) for line in lines if "server_refused_calls_total" in line and line[0] != "#")


def retry_info(refused):
    """What the answer says of when to come back, in seconds."""
    status = status_pb2.Status.FromString(base64.b64decode(refused.details + "=" * (-len(refused.details) % 4)))
    retry = error_details_pb2.RetryInfo()
    return next((retry.retry_delay.ToTimedelta().total_seconds() for each in status.details if each.Unpack(retry)), None)


def issue_request():
    challenge = base64url(hashlib.sha256(b"verifier").digest())
    return qr.IssueSessionRequest(client_id=CLIENT_ID, purpose=qr.PURPOSE_LOGIN, code_challenge=challenge, code_challenge_method="S256")


def test_overload_of_another_source(own_world):
    """R50: who asks for far more than can be done is refused for it, and nobody else their few calls"""
    host, port = own_world.target("qr").rsplit(":", 1)
    request = issue_request()

    async def issue(client, timeout, ends):
        try:
            await client.call_at_once(ISSUE, request, qr.IssueSessionResponse, timeout=timeout)
            ends["served"] += 1
        except Unanswered:
            ends["late"] += 1
        except Refused as error:
            ends[error.reason] += 1

    async def flood(client, is_over, ends, rate=1000):
        calls, begin, begun = set(), time.monotonic(), 0
        while not is_over.is_set():
            for _ in range(int((time.monotonic() - begin) * rate) - begun):
                call = asyncio.ensure_future(issue(client, 2, ends))
                calls.add(call)
                call.add_done_callback(calls.discard)
                begun += 1
            await asyncio.sleep(0.005)
        await asyncio.gather(*calls)

    async def run():
        many, few = FastClient(host, int(port), 50), FastClient(host, int(port), 2, source="127.0.7.1")
        is_over, of_many, of_few = asyncio.Event(), collections.Counter(), collections.Counter()
        try:
            await issue(few, 30, of_few)
            with Slowed(own_world.fleet["qr"]) as slowed:
                flooding = asyncio.ensure_future(flood(many, is_over, of_many))
                until = time.monotonic() + 90
                # Those that come first find no queue yet.
                while of_many["OVERLOADED"] < 100 and time.monotonic() < until:
                    before = of_many["OVERLOADED"]
                    await asyncio.sleep(3)
                    # It is that fast.
                    if of_many["OVERLOADED"] == before:
                        slowed.turn /= 2
                for _ in range(40):
                    await issue(few, 30, of_few)
                    await asyncio.sleep(0.05)
                is_over.set()
                await flooding
            return of_many, of_few
        finally:
            many.close()
            few.close()

    of_many, of_few = asyncio.run(run())
    assert of_many["OVERLOADED"] >= 100 and of_many["served"] > 50, of_many
    assert of_few == {"served": 41}, of_few


def test_sign_ins_of_another_source(own_world):
    """R50: more sign-ins of one address than passwords can be looked at in time keep nobody at another from signing in"""
    host, port = own_world.target("identity").rsplit(":", 1)
    names = [own_world.account().identifier for _ in range(20)]

    async def sign_in(client, name, timeout):
        request = auth.AuthenticateRequest(
            client_id=CLIENT_ID, password=auth.PasswordCredential(identifier=name, password=PASSWORD)
        )
        try:
            answer = await client.call_at_once(AUTHENTICATE, request, auth.AuthenticateResponse, timeout=timeout)
            return "served" if answer.tokens.access_token else "nothing"
        except Unanswered:
            return "late"
        except Refused as error:
            return error.reason

    async def keep_asking(client, name, is_over, ends):
        while not is_over.is_set():
            ends[await sign_in(client, name, 30)] += 1
            await asyncio.sleep(0.05)

    async def run():
        many, few = FastClient(host, int(port), 5), FastClient(host, int(port), 1, source="127.0.7.1")
        is_over, of_many, of_few = asyncio.Event(), collections.Counter(), collections.Counter()
        try:
            asking = [asyncio.ensure_future(keep_asking(many, names[number % 20], is_over, of_many)) for number in range(400)]
            until = time.monotonic() + 90
            while of_many["OVERLOADED"] < 400 and time.monotonic() < until:
                await asyncio.sleep(0.1)
            for number in range(10):
                of_few[await sign_in(few, names[number], 20)] += 1
            is_over.set()
            await asyncio.gather(*asking)
            return of_many, of_few
        finally:
            many.close()
            few.close()

    of_many, of_few = asyncio.run(run())
    assert of_many["OVERLOADED"] >= 400 and of_many["served"] > 20, of_many
    assert of_few == {"served": 10}, of_few


def test_codes_that_cannot_be_issued_in_time(own_world):
    """R26: asked for far more than it can do a service answers a part in time and refuses the rest before it costs much"""
    request = issue_request()
    host, port = own_world.target("qr").rsplit(":", 1)
    service = own_world.fleet["qr"]

    async def issue(client, timeout):
        try:
            await client.call_at_once(ISSUE, request, qr.IssueSessionResponse, timeout=timeout)
            return "served"
        except Unanswered:
            return "late"
        except Refused as error:
            return error

    async def offer(client, seconds, rate=1000):
        """Calls begun on a schedule, however long those before take."""
        calls, begin = [], time.monotonic()
        while (passed := time.monotonic() - begin) < seconds:
            calls += [asyncio.ensure_future(issue(client, 2)) for _ in range(int(passed * rate) - len(calls))]
            await asyncio.sleep(0.005)
        return await asyncio.gather(*calls)

    async def overload(client):
        """Until some were refused by their headers alone and others served meanwhile: then the rest of the calls is."""
        before = refused_early(service)
        refusals, until = [], time.monotonic() + 90
        with Slowed(service) as slowed:
            while time.monotonic() < until:
                ends = await offer(client, 3)
                refused = [end for end in ends if isinstance(end, Refused)]
                refusals += refused
                counts = collections.Counter(end if isinstance(end, str) else "refused" for end in ends)
                if counts["refused"] > 100 and counts["served"] > 10:
                    break
                # It is that fast.
                if counts["refused"] <= 100:
                    slowed.turn /= 2
        early = refused_early(service) - before
        return refusals, counts, early

    async def burst(client):
        """As many as come when a train arrives, on a service that has nothing else to do."""
        until = time.monotonic() + 90
        while time.monotonic() < until:
            await asyncio.sleep(3)
            assert await issue(client, 30) == "served"
            ends = await asyncio.gather(*(issue(client, 60) for _ in range(300)))
            if all(end == "served" for end in ends):
                return True
        return False

    async def run():
        client = FastClient(host, int(port), 50)
        try:
            return await overload(client), await burst(client)
        finally:
            client.close()

    (refusals, counts, early), is_burst_served = asyncio.run(run())
    assert counts["refused"] > 100 and counts["served"] > 10, counts
    for refused in refusals:
        assert refused.status == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0], refused
        assert refused.reason == "OVERLOADED" and 0.5 <= retry_info(refused) <= 1.5
    # A handler's refusal is no refusal of the server's.
    assert early > len(refusals) / 2, (early, len(refusals))
    assert is_burst_served
