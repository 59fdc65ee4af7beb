"""Identity is killed again and again while people start as guests, refresh, link and log out.

`KILLS=200 SEED=7 pytest Tests/EndToEnd/test_identity_kills.py` repeats a run, as far as the scheduler lets it.
"""

import collections
import os
import random
import threading
import time

import grpc
import pytest
from latchkey.identity.v1 import auth_service_pb2, link_service_pb2, link_service_pb2_grpc
from waiting import eventually
from world import PASSWORD, UNTHROTTLED, Failure, World, is_overloaded, unique_identifier

KILLS = int(os.environ.get("KILLS", "20"))
GUESTS = 4
ACCOUNTS = 4
# Longest life of a process, in seconds: the shortest hit the first calls after a start.
LONGEST_LIFE = 0.4
# Tries in a row that were not found right, after which the next has to wait.
FREE_TRIES = 10
UNANSWERED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
# Cheap hashes: what is tried here is not their strength.
CHEAP_PASSWORDS = ["--password-memory-kib", "8192", "--password-passes", "1"]


class Violation(Exception):
    """Something acknowledged did not hold."""


class Person:
    """One device and what identity acknowledged to it; does one thing after another and checks each answer."""

    def __init__(self, world, chance):
        self.device = world.device()
        self.links = link_service_pb2_grpc.LinkServiceStub(world.channel("identity"))
        self.auth = world.auth
        self.service = world.fleet["identity"]
        self.chance = chance
        self.done = collections.Counter()
        self.sub = None
        # Processes that may have been killed while they checked this one's password.
        self.cut_off = set()
        # Token pairs of sessions whose end was acknowledged.
        self.dead = []

    def answered(self, call, checks_password=False):
        """The answer, however many kills it takes; an error that is an answer is raised."""
        deadline = time.monotonic() + 60
        while True:
            before = self.service.process
            try:
                return call()
            except grpc.RpcError as error:
                if checks_password:
                    self.cut_off |= {before, self.service.process}
                # A processor that is busy with other tests makes it refuse some, and it says so.
                wait = self.has_to_wait(error)
                if wait is not None:
                    deadline += wait
                elif error.code() not in UNANSWERED and not is_overloaded(error) or time.monotonic() > deadline:
                    raise
                time.sleep(wait or 0.02)

    def has_to_wait(self, error):
        """Seconds, for whom it happened too often that a kill cut off the check of a password: it was counted before, and
        a right password that confirms a change does not begin the count anew."""
        failure = Failure(error)
        if failure.reason != "TOO_MANY_ATTEMPTS" or len(self.cut_off) <= FREE_TRIES:
            return None
        return failure.retry_after.total_seconds()

    def act(self):
        name = self.chance.choice(self.actions)
        try:
            getattr(self, name)()
        except grpc.RpcError as error:
            raise Violation(f"{name}: {error.code().name} {error.details()}") from error
        self.done[name] += 1

    def expect(self, holds, what):
        if not holds:
            raise Violation(what)

    def expect_sub(self, sub):
        if self.sub is None:
            self.sub = sub
        self.expect(sub == self.sub, f"{sub} is a second subject beside {self.sub}")

    def bury(self):
        """The tokens in hand are dead from here on."""
        tokens = self.device.tokens
        self.dead.append((tokens.access_token, tokens.refresh_token))

    def refresh(self):
        # Whether an earlier answer was lost or not, the newest acknowledged token brings the next one (R19).
        self.answered(self.device.refresh)

    def log_out_here(self):
        """Ends the session. When an answer was lost, the next may say that there is no session left to end."""
        request = auth_service_pb2.LogoutRequest(scope=auth_service_pb2.LOGOUT_SCOPE_LOCAL)
        try:
            self.answered(lambda: self.auth.Logout(request, metadata=self.device.metadata, timeout=10))
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNAUTHENTICATED:
                raise
        self.bury()

    def check(self, buried=3):
        """What was acknowledged holds: the last tokens that died, or all of them with None."""
        for access, refresh in self.dead if buried is None else self.dead[-buried:]:
            answer = self.answered(lambda: self.device.introspect(access))
            self.expect(not answer.active, "an access token is active after its acknowledged end")
            request = auth_service_pb2.RefreshRequest(refresh_token=refresh)
            try:
                self.answered(lambda: self.auth.Refresh(request, timeout=10))
            except grpc.RpcError as error:
                self.expect(error.code() == grpc.StatusCode.UNAUTHENTICATED, f"a dead refresh token: {error.code()}")
            else:
                self.expect(False, "a refresh token was honoured after its acknowledged end")


class Guest(Person):
    actions = ("issue", "refresh", "refresh", "log_out", "log_out_to_guest", "check")

    def __init__(self, world, chance):
        super().__init__(world, chance)
        self.acknowledged = False
        self.issue()

    def issue(self):
        before = self.device.tokens
        if before is not None and (before.access_token, before.refresh_token) not in self.dead:
            self.bury()  # A new start ends the earlier session of the device.
        answer = self.answered(self.device.start_as_guest)
        self.expect(not (answer.created and self.acknowledged), "a key got a second guest")
        self.acknowledged = True
        self.expect_sub(answer.subject.sub)

    def log_out(self):
        self.log_out_here()
        self.issue()

    def log_out_to_guest(self):
        request = auth_service_pb2.LogoutRequest(
            scope=auth_service_pb2.LOGOUT_SCOPE_LOCAL, next=auth_service_pb2.LOGOUT_NEXT_GUEST
        )
        try:
            answer = self.answered(lambda: self.auth.Logout(request, metadata=self.device.metadata, timeout=10))
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNAUTHENTICATED:
                raise
            # It happened, and the answer with the new tokens is lost: the device starts again.
            self.issue()
            return
        self.bury()
        self.device.remember(answer)
        self.expect_sub(answer.subject.sub)


class Account(Person):
    actions = ("refresh", "link", "link", "unlink", "log_out", "check")

    def __init__(self, world, chance):
        super().__init__(world, chance)
        self.identifier = unique_identifier()
        self.device.register(self.identifier, as_guest=False)
        self.expect_sub(self.device.subject.sub)
        self.linked = {}

    def link(self):
        name = f"u{self.chance.randrange(10**12)}"
        if len(self.linked) >= 20:
            self.unlink()
        request = link_service_pb2.LinkIdentityRequest(identifier=name, password=PASSWORD)
        answer = self.answered(
            lambda: self.links.LinkIdentity(request, metadata=self.device.metadata, timeout=10), checks_password=True
        )
        self.linked[name] = answer.identity.identity_id

    def unlink(self):
        if not self.linked:
            return
        name = self.chance.choice(sorted(self.linked))
        request = link_service_pb2.UnlinkIdentityRequest(identity_id=self.linked.pop(name), password=PASSWORD)
        try:
            self.answered(
                lambda: self.links.UnlinkIdentity(request, metadata=self.device.metadata, timeout=10),
                checks_password=True,
            )
        except grpc.RpcError as error:
            # It happened, and the answer was lost.
            if error.code() != grpc.StatusCode.NOT_FOUND:
                raise

    def log_out(self):
        self.log_out_here()
        self.device.tokens = None
        self.answered(lambda: self.device.authenticate(self.identifier), checks_password=True)
        self.expect_sub(self.device.subject.sub)

    def check(self, buried=3):
        super().check(buried)
        request = link_service_pb2.ListIdentitiesRequest()
        answer = self.answered(lambda: self.links.ListIdentities(request, metadata=self.device.metadata, timeout=10))
        found = {identity.identity_id for identity in answer.identities} - {self.own(answer)}
        self.expect(found == set(self.linked.values()), f"linked are {found}, acknowledged {self.linked}")

    def own(self, answer):
        """The identity that the account began with."""
        return min(answer.identities, key=lambda identity: identity.linked_at.ToNanoseconds()).identity_id


def test_violations_are_found(world):
    """G2, R14: a token that lives, a second guest and a lost link are each found, so the test below can fail"""
    guest, account = Guest(world, random), Account(world, random)
    guest.bury()
    with pytest.raises(Violation, match="active after its acknowledged end"):
        guest.check()
    guest.sub = "another"
    with pytest.raises(Violation, match="second subject"):
        guest.issue()
    account.link()
    account.check()
    account.linked["lost"] = "none"
    with pytest.raises(Violation, match="linked are"):
        account.check()


@pytest.fixture
def killable(engine, binaries, tmp_path):
    with engine(binaries, tmp_path, arguments=UNTHROTTLED | {"identity": CHEAP_PASSWORDS}) as fleet:
        yield World(fleet)


@pytest.mark.every_engine
def test_kills_under_load(killable):
    """G2, R14, R19: kills under load lose no acknowledged change, make no second guest and revive no token"""
    seed = int(os.environ.get("SEED", random.randrange(2**32)))
    print(f"seed {seed}, {KILLS} kills")
    chance = random.Random(seed)
    people = [Guest(killable, random.Random(f"{seed} guest {number}")) for number in range(GUESTS)]
    people += [Account(killable, random.Random(f"{seed} account {number}")) for number in range(ACCOUNTS)]
    over = threading.Event()
    violations = []

    def done():
        return sum((person.done.copy() for person in people), collections.Counter())

    def is_a_run():
        """Everything was done, and more often than it was killed."""
        return set(done()) == set(Guest.actions) | set(Account.actions) and sum(done().values()) > KILLS

    def live(person):
        try:
            while not over.is_set():
                person.act()
        except Violation as violation:
            violations.append(str(violation))

    threads = [threading.Thread(target=live, args=[person]) for person in people]
    for thread in threads:
        thread.start()
    try:
        for _ in range(KILLS):
            time.sleep(chance.random() * LONGEST_LIFE)
            killable.fleet["identity"].restart()
        # On a slow machine people come to less between kills.
        eventually(lambda: violations or is_a_run(), "too little was done", 60)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not violations, f"seed {seed}: {violations}"
    for person in people:
        person.check(buried=None)
    print(dict(done()))
    assert is_a_run()
