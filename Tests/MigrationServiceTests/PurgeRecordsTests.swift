import GRPC
import LatchkeyModel
import LatchkeyProtos
import Testing

@testable import MigrationService

@Suite("Records of deleted subjects")
struct PurgeRecordsTests {
  @Test(
    "R10: identity purges a deleted subject: all records go, repeating is harmless, and nothing is written any more")
  func purges() async throws {
    try await MigratorHarness.run { harness in
      let (guest, other) = (try harness.person(isGuest: true), try harness.person(isGuest: true))
      for chunk in 0..<3 {
        try await harness.put(
          (0..<900).map { MigratorHarness.record("cart", "k\(chunk)-\($0)") }, as: guest)
      }
      try await harness.put([MigratorHarness.record("cart", "mine")], as: other)
      let describe = MigrationV1.DescribeRecordsRequest(sub: guest.id.description)
      let before = try await harness.records.describeRecords(describe, options: harness.service)
      #expect(before.records == 2700 && before.version == 2700)
      let purge = MigrationV1.PurgeRecordsRequest(sub: guest.id.description)
      #expect(try await harness.records.purgeRecords(purge, options: harness.service).deleted == 2700)
      #expect(try await harness.records.purgeRecords(purge, options: harness.service).deleted == 0)
      #expect(try await harness.records.describeRecords(describe, options: harness.service).records == 0)
      await expectRefusal(.failedPrecondition, "SUBJECT_DELETED") {
        try await harness.put([MigratorHarness.record("cart", "late")], as: guest)
      }
      let left = try await harness.records.listCollections(
        MigrationV1.ListCollectionsRequest(), options: other.options)
      #expect(left.collections.map(\.count) == [1] && left.version == 1)
    }
  }

  @Test("R54: identity is told when guests' records leave hardly any room, and that it is there again")
  func guestsFull() async throws {
    let bounds = RecordBounds(records: 100, bytes: 10_000, collections: 1, guestTotal: 2800)
    try await MigratorHarness.run(guestBounds: bounds) { harness in
      let guest = try harness.person(isGuest: true)
      let describe = MigrationV1.DescribeRecordsRequest(sub: guest.id.description)
      func isFull() async throws -> Bool {
        try await harness.records.describeRecords(describe, options: harness.service).guestsFull
      }
      try await harness.put((0..<9).map { MigratorHarness.record("cart", "\($0)") }, as: guest)
      #expect(try await !isFull())
      try await harness.put([MigratorHarness.record("cart", "tenth")], as: guest)
      #expect(try await isFull())
      let refused = await expectRefusal(.resourceExhausted, "RECORDS_FULL") {
        try await harness.put(
          [MigratorHarness.record("cart", "more"), MigratorHarness.record("cart", "most")], as: guest)
      }
      #expect(refused?.details.info == [RPCError.KeyValue("bound", "guestTotal")])
      let purge = MigrationV1.PurgeRecordsRequest(sub: guest.id.description)
      _ = try await harness.records.purgeRecords(purge, options: harness.service)
      #expect(try await !isFull())
    }
  }

  @Test("R8: nobody but a service purges or asks about somebody's records")
  func refusals() async throws {
    try await MigratorHarness.run { harness in
      let guest = try harness.person(isGuest: true)
      await expectRefusal(.permissionDenied, "SERVICE_ONLY") {
        try await harness.records.purgeRecords(
          MigrationV1.PurgeRecordsRequest(sub: guest.id.description), options: guest.options)
      }
      await expectRefusal(.permissionDenied, "SERVICE_ONLY") {
        try await harness.records.describeRecords(
          MigrationV1.DescribeRecordsRequest(sub: guest.id.description), options: guest.options)
      }
      await expectRefusal(.invalidArgument, field: "sub") {
        try await harness.records.purgeRecords(MigrationV1.PurgeRecordsRequest(), options: harness.service)
      }
    }
  }

  @Test("R39: records on their way into an account are not purged under the migration's hands")
  func migrating() async throws {
    let switcher = ScriptedSwitch(failures: 1_000_000)
    try await MigratorHarness.run(switcher: switcher) { harness in
      let (guest, account) = (try harness.person(isGuest: true), try harness.person(isGuest: false))
      try await harness.put([MigratorHarness.record("cart", "a")], as: guest)
      let plan = try await harness.plan(guest, into: account)
      _ = try await harness.start(plan, options: account.options)
      for sub in [guest.id, account.id] {
        await expectRefusal(.aborted, "SUBJECT_MIGRATING") {
          try await harness.records.purgeRecords(
            MigrationV1.PurgeRecordsRequest(sub: sub.description), options: harness.service)
        }
      }
    }
  }
}
