"""The story of the product in steps, by a stock gRPC client, so that a test may do something between any two."""

import time

import grpc
import story_records
from latchkey.identity.v1 import auth_service_pb2
from latchkey.migration.v1 import migration_service_pb2
from latchkey.qr.v1 import qr_session_service_pb2
from world import Device, record, unique_identifier


def persistently(call, seconds=60):
    """What an app does when a service is away for a moment: the same again."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return call()
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNAVAILABLE or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def rows_of(visit, share=8):
    """Every eighth record of a visit, as messages."""
    return [
        record(row["collection"], row["key"], row["value"].encode(), row["number"], 1_790_000_000 + 100_000 * visit + index)
        for index, row in enumerate(story_records.records(visit))
        if hash_of(row["key"]) % share == 0
    ]


def hash_of(key):
    return sum(key.encode())


class Story:
    STEPS = (
        "guest", "records", "register", "second_guest", "second_records", "conflict", "merge", "merged",
        "issue_code", "scan", "confirm", "collect",
    )  # fmt: skip

    def __init__(self, world):
        self.world = world
        self.phone = Device(world, "phone")
        self.second = Device(world, "second phone")
        self.screen = Device(world, "desktop")
        self.identifier = unique_identifier()

    def play(self, between=lambda step: None):
        for step in self.STEPS:
            persistently(getattr(self, step))
            between(step)
        self.check()

    def guest(self):
        answer = self.phone.start_as_guest()
        assert answer.subject.is_guest
        self.account = answer.subject.sub

    def records(self):
        self.first_rows = rows_of(1)
        assert self.phone.put(self.first_rows) == len(self.first_rows)

    def register(self):
        try:
            answer = self.phone.register(self.identifier)
        except grpc.RpcError as error:
            # The answer of a registration that was acknowledged to nobody was lost with the service.
            if error.code() != grpc.StatusCode.ALREADY_EXISTS:
                raise
            answer = self.phone.authenticate(self.identifier, on_conflict=auth_service_pb2.ON_CONFLICT_SWITCH)
        assert answer.subject.sub == self.account and not answer.subject.is_guest

    def second_guest(self):
        self.second_sub = self.second.start_as_guest().subject.sub
        assert self.second_sub != self.account

    def second_records(self):
        self.second_rows = rows_of(2)
        assert self.second.put(self.second_rows) == len(self.second_rows)
        self.guest_metadata = self.second.metadata

    def conflict(self):
        answer = self.second.authenticate(self.identifier)
        assert answer.HasField("conflict") and not answer.HasField("tokens")
        assert auth_service_pb2.ON_CONFLICT_MERGE in answer.conflict.choices
        self.ticket = answer.conflict.link_ticket

    def merge(self):
        answer = self.second.choose(self.ticket, auth_service_pb2.ON_CONFLICT_MERGE)
        assert answer.subject.sub == self.account
        self.migration = answer.account_change.migration_id
        if not self.migration:
            assert answer.account_change.migration_pending

    def merged(self):
        """Waits for the end of the merge by asking, which no restart of a service can disturb."""
        if not self.migration:
            # The migrator was away at the sign-in. The guest's records arrive all the same.
            return self.await_rows()
        deadline = time.monotonic() + 60
        while True:
            merge = self.second.merge(self.migration)
            if merge.state == migration_service_pb2.MIGRATION_STATE_DONE:
                break
            assert merge.state != migration_service_pb2.MIGRATION_STATE_FAILED, merge.failure
            assert time.monotonic() < deadline, f"the merge does not end: {merge}"
            time.sleep(0.05)
        told = sum(row.moved + row.kept + row.replaced + row.summed + row.refused for row in merge.report)
        assert told == len(self.second_rows), merge.report

    def await_rows(self):
        deadline = time.monotonic() + 60
        while self.second.collections() != self.expected_counts():
            assert time.monotonic() < deadline, "the merge does not begin"
            time.sleep(0.1)

    def issue_code(self):
        self.code = self.screen.issue_qr()

    def scan(self):
        self.scanned = self.phone.scan(self.code.qr_payload)
        assert self.scanned.initiator.label == "desktop"

    def confirm(self):
        try:
            self.phone.confirm(self.scanned, self.code.check_code)
        except grpc.RpcError as error:
            # A confirmation whose answer was lost is done, and says so to whoever tries again.
            if error.code() == grpc.StatusCode.UNAVAILABLE:
                raise
            assert self.screen.poll().state == qr_session_service_pb2.SESSION_STATE_CONSUMED, error

    def collect(self):
        answer = self.screen.poll(wait_ms=5000)
        assert answer.HasField("tokens"), answer
        assert answer.subject.sub == self.account
        assert answer.tokens.sid not in (self.phone.tokens.sid, self.second.tokens.sid)
        self.screen.remember(answer)

    # What must be true at the end.

    def expected_counts(self):
        keys = {(row.collection, row.key) for row in self.first_rows + self.second_rows}
        return {name: sum(1 for collection, _ in keys if collection == name) for name, _ in keys}

    def check(self):
        for device in (self.phone, self.second, self.screen):
            assert persistently(device.collections) == self.expected_counts(), device.label
            status = persistently(device.introspect)
            assert status.active and status.sub == self.account, device.label
            persistently(device.refresh)
        self.check_values()
        self.check_guest()
        again = persistently(self.phone.start_as_guest)
        assert not again.created or again.subject.sub != self.account

    def check_values(self):
        """No row lost, none merged twice: sums and times tell."""
        first = {(row.collection, row.key): row for row in self.first_rows}
        second = {(row.collection, row.key): row for row in self.second_rows}
        for collection in ("history", "favourites", "cart", "downloads"):
            for key, row in self.screen.rows(collection).items():
                ours, theirs = first.get((collection, key)), second.get((collection, key))
                if ours is None or theirs is None:
                    assert row.number == (ours or theirs).number, (collection, key)
                elif collection == "cart":
                    assert row.number == ours.number + theirs.number, key
                elif collection == "history":
                    assert row.value == theirs.value and row.updated_at == theirs.updated_at, key
                elif collection == "downloads":
                    assert row.number == ours.number and row.updated_at == ours.updated_at, key

    def check_guest(self):
        """The guest is gone: its token opens nothing."""
        from latchkey.migration.v1 import record_service_pb2

        request = record_service_pb2.ListCollectionsRequest()
        try:
            answer = self.world.records.ListCollections(request, metadata=self.guest_metadata, timeout=10)
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNAUTHENTICATED, error
        else:
            assert not answer.collections, answer
