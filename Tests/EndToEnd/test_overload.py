"""More than can be done in time: who cannot be served any more hears so at once, and at no cost to anybody."""

import concurrent.futures
import time

import grpc
from latchkey.identity.v1 import auth_service_pb2 as auth
from world import CLIENT_ID, PASSWORD, Failure

CALLERS = 16


def test_sign_ins_that_cannot_be_in_time(own_world):
    """R24: sign-ins that the passwords before them leave no time are told to come back, and count as no wrong tries"""
    names = [own_world.account().identifier for _ in range(CALLERS)]

    def sign_in(name, timeout=30):
        credential = auth.PasswordCredential(identifier=name, password=PASSWORD)
        try:
            own_world.auth.Authenticate(
                auth.AuthenticateRequest(client_id=CLIENT_ID, password=credential), timeout=timeout
            )
            return None
        except grpc.RpcError as error:
            return Failure(error)

    began = time.monotonic()
    assert sign_in(names[0]) is None
    alone = time.monotonic() - began
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
