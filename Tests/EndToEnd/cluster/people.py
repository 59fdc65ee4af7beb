"""Clients that use an installation as people do and write down what they were told: guests, screens with phones, apps that
store records, and people who sign out. Stock gRPC, through whatever address they are given."""

import hashlib
import random
import threading
import time

import grpc
from history import History, Operation
from latchkey.identity.v1 import auth_service_pb2
from latchkey.qr.v1 import qr_session_service_pb2 as qr_pb
from world import Failure, World, record

# For an attempt, in seconds: longer than a commit and what waits for it may take.
TIMEOUT = 40
# For as long as something is tried again: longer than any outage that is tried.
PATIENCE = 300
# Between two things that one person does: some hundred a second of all, so that two cores also serve them.
PAUSE = 0.02


def known_by(token):
    """A token in a history: enough to tell it from others, and of no use to whoever reads it."""
    return hashlib.sha256(token.encode()).hexdigest()[:12]


class Patience(grpc.UnaryUnaryClientInterceptor, grpc.StreamUnaryClientInterceptor):
    """No deadline is shorter than a commit may take: a client that gives up earlier learns nothing of the service."""

    def lengthened(self, call, details, request):
        return call(details._replace(timeout=max(details.timeout or 0, TIMEOUT)), request)

    intercept_unary_unary = intercept_stream_unary = lengthened


class PatientWorld(World):
    def new_channel(self, name, options=()):
        return grpc.intercept_channel(super().new_channel(name, options), Patience())


class Stranded(Exception):
    """Something was tried for too long."""


class Person(threading.Thread):
    """One client with connections of its own; acts until it is told to stop, then `verify` looks at everything again."""

    def __init__(self, front, name, history, seed):
        super().__init__(name=name, daemon=True)
        self.world = PatientWorld(front)
        self.history = history
        self.chance = random.Random(seed)
        self.pause = PAUSE
        self.stopped = threading.Event()
        self.failure = None

    def run(self):
        try:
            self.prepare()
            while not self.stopped.wait(self.pause * self.chance.uniform(0.5, 1.5)):
                self.act()
        except BaseException as error:
            self.failure = error

    def prepare(self):
        pass

    def attempt(self, op, key, call, read=lambda answer: None, input=None, refusals=()):
        """One call: (whether it was answered, the answer or the failure)."""
        begin = time.monotonic_ns()
        try:
            answer = call()
        except grpc.RpcError as error:
            end, failure = time.monotonic_ns(), Failure(error)
            if failure.code in refusals:
                self.note(op, key, begin, end, input, "refused")
                return True, None
            self.history.append(
                Operation(
                    self.name, op, key, begin, end, input, error=failure.code.name,
                    retry_info=failure.retry_after is not None, message=failure.message,
                )
            )  # fmt: skip
            return False, failure
        self.note(op, key, begin, time.monotonic_ns(), input, read(answer))
        return True, answer

    def note(self, op, key, begin, end, input, output):
        self.history.append(Operation(self.name, op, key, begin, end, input, output))

    def persist(self, op, key, call, **options):
        """Tried again until it is answered, each time when the service says. None: it was refused."""
        deadline = time.monotonic() + PATIENCE
        while True:
            is_answered, answer = self.attempt(op, key, call, **options)
            if is_answered:
                return answer
            if time.monotonic() > deadline:
                raise Stranded(f"{self.name}: {op} for {PATIENCE} s: {answer.code.name} {answer.message}")
            after = answer.retry_after.total_seconds() if answer.retry_after is not None else 0.2
            time.sleep(after * self.chance.uniform(0.5, 1))

    # What several of them do.

    def start_guest(self, device):
        def read(answer):
            return answer.subject.sub, "new" if answer.created else "known"

        return self.persist("guest", device.device_id, device.start_as_guest, read=read)

    def refresh(self, device, session):
        """Also of a session that is over, which is refused."""
        token = device.tokens.refresh_token
        request = auth_service_pb2.RefreshRequest(refresh_token=token)
        answer = self.persist(
            "refresh", session, lambda: self.world.auth.Refresh(request, timeout=TIMEOUT), input=known_by(token),
            read=lambda answer: known_by(answer.tokens.refresh_token), refusals=(grpc.StatusCode.UNAUTHENTICATED,),
        )  # fmt: skip
        if answer is not None:
            device.tokens = answer.tokens

    def introspect(self, device, key, token):
        def read(answer):
            return "active" if answer.active else "ended"

        return self.persist(
            "introspect", key, lambda: device.introspect(token), read=read, input=known_by(token),
            refusals=(grpc.StatusCode.UNAUTHENTICATED,),
        )  # fmt: skip


class Guest(Person):
    """Starts apps on new devices, and keeps the sessions of some alive."""

    def prepare(self):
        self.devices = []

    def act(self):
        if len(self.devices) < 5 or self.chance.random() < 0.3:
            device = self.world.device()
            self.start_guest(device)
            self.devices.append(device)
        else:
            device = self.chance.choice(self.devices[-5:])
            self.refresh(device, device.device_id)

    def verify(self):
        for device in self.devices:
            self.refresh(device, device.device_id)
            self.start_guest(device)


class Screen(Person):
    """Signs screens in by a phone, one after the other; each polls on two connections."""

    def prepare(self):
        self.phone = self.world.account()
        self.other = PatientWorld(self.world.fleet)
        self.last = time.monotonic()
        self.handed_over = []

    def act(self):
        screen = self.world.device()
        code = self.persist("issue", screen.device_id, screen.issue_qr)
        if time.monotonic() > self.last + 60:
            # An access token lives for some minutes.
            self.refresh(self.phone, self.phone.device_id)
            self.last = time.monotonic()
        refusals = (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.PERMISSION_DENIED)
        scan = self.persist("scan", screen.device_id, lambda: self.phone.scan(code.qr_payload), refusals=refusals)
        if scan is None:
            return
        confirmed = self.persist("confirm", screen.device_id, lambda: self.phone.confirm(scan, code.check_code), refusals=refusals)
        if confirmed is None:
            return
        tokens = {self.redeem(screen, world, refusals) for world in (self.world, self.other)}
        self.handed_over.append((screen, tokens - {None}))
        if self.chance.random() < 0.3:
            self.look(screen, tokens - {None})

    def redeem(self, screen, world, refusals):
        """The access token that a connection gets; nil if none comes."""
        request = qr_pb.PollSessionRequest(device_code=screen.code.device_code, code_verifier=screen.verifier)

        def read(answer):
            return known_by(answer.tokens.access_token) if answer.tokens.access_token else None

        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            answer = self.persist(
                "redeem", screen.device_id, lambda: world.qr.PollSession(request, timeout=TIMEOUT), read=read, refusals=refusals
            )
            if answer is None:
                return None
            if answer.tokens.access_token:
                return answer.tokens.access_token
            # The instance has not heard of the confirmation yet.
            time.sleep(0.05)
        return None

    def look(self, screen, tokens):
        for token in tokens:
            self.introspect(self.phone, screen.device_id, token)

    def verify(self):
        self.refresh(self.phone, self.phone.device_id)
        for screen, tokens in self.handed_over:
            self.look(screen, tokens)


class App(Person):
    """Stores numbers that only grow in a few records of its guest, and reads them."""

    def prepare(self):
        self.device = self.world.device()
        self.start_guest(self.device)
        self.numbers = {}
        self.last = time.monotonic()

    def act(self):
        if time.monotonic() > self.last + 60:
            self.refresh(self.device, self.device.device_id)
            self.last = time.monotonic()
        if self.chance.random() < 0.2:
            self.read()
        else:
            self.put()

    def put(self):
        name = f"k{self.chance.randrange(8)}"
        # Each attempt is a number of its own: one that failed may still be found.
        while True:
            number = self.numbers[name] = self.numbers.get(name, 0) + 1
            row = record("cart", name, b"", number, seconds=1_790_000_000 + number)
            key = f"{self.device.device_id} {name}"
            is_answered, failure = self.attempt("put", key, lambda row=row: self.device.put([row]), input=number)
            if is_answered:
                return
            time.sleep(failure.retry_after.total_seconds() * self.chance.uniform(0.5, 1) if failure.retry_after else 0.2)
            if self.stopped.is_set():
                return

    def read(self):
        begin = time.monotonic_ns()
        rows = self.persist("list", self.device.device_id, lambda: self.device.rows("cart"))
        end = time.monotonic_ns()
        for name in self.numbers:
            found = int(rows[name].number) if name in rows else None
            self.note("read", f"{self.device.device_id} {name}", begin, end, None, found)

    def verify(self):
        self.refresh(self.device, self.device.device_id)
        self.read()


class Leaver(Person):
    """Starts sessions and ends them, and tries whether they are over."""

    def prepare(self):
        self.left = []

    def act(self):
        device = self.world.device()
        session = device.device_id
        self.start_guest(device)
        request = auth_service_pb2.RevokeRequest(token=device.tokens.refresh_token)
        self.persist("revoke", session, lambda: self.world.auth.Revoke(request, timeout=TIMEOUT))
        self.left.append(device)
        self.look(self.chance.choice(self.left[-20:]))

    def look(self, device):
        self.introspect(device, device.device_id, device.tokens.access_token)
        self.refresh(device, device.device_id)
        self.use(device)

    def use(self, device):
        """At a service that knows ended sessions by hearsay."""
        begin = time.monotonic_ns()
        try:
            device.collections()
            output = "let in"
        except grpc.RpcError as error:
            output = "refused"
            if error.code() != grpc.StatusCode.UNAUTHENTICATED:
                return
        self.note("use", device.device_id, begin, time.monotonic_ns(), None, output)

    def verify(self):
        for device in self.left:
            self.look(device)


KINDS = (Guest, Guest, Screen, Screen, App, App, Leaver)


class Crowd:
    """Some of each kind, who act in a `with` block; `history` is what they were told."""

    def __init__(self, front, seed, pause=PAUSE):
        self.history = History()
        self.people = [kind(front, f"{kind.__name__} {number}", self.history, seed + number) for number, kind in enumerate(KINDS)]
        for person in self.people:
            person.pause = pause

    def __enter__(self):
        for person in self.people:
            person.start()
        return self

    def __exit__(self, *_):
        for person in self.people:
            person.stopped.set()
        for person in self.people:
            person.join()
        self.expect_no_failure()

    def expect_no_failure(self):
        for person in self.people:
            if person.failure is not None:
                raise person.failure

    def wait_for_writes(self, count, seconds=60):
        """Until so many more of each service's writes were acknowledged."""
        from history import WRITES

        start, deadline = len(self.history), time.monotonic() + seconds
        while True:
            done = [WRITES.get(operation.op) for operation in self.history[start:] if operation.error is None]
            if all(done.count(service) >= count for service in set(WRITES.values())):
                return
            self.expect_no_failure()
            if time.monotonic() > deadline:
                raise Stranded(f"{count} writes of each service did not come about in {seconds} s")
            time.sleep(0.05)

    def verify(self):
        """Everything that was acknowledged, looked at again."""
        for person in self.people:
            person.verify()
