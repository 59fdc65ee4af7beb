import GRPC
import LatchkeyModel
import LatchkeyProtos
import Testing

@testable import MigrationService

@Suite("RecordService over gRPC")
struct RecordServiceTests {
  @Test("records that were streamed in are listed newest first, in pages, each once")
  func listing() async throws {
    try await MigratorHarness.run { migrator in
      let guest = try migrator.person(isGuest: true)
      let written = try await migrator.records.putRecords(options: guest.options) { writer throws(RPCError) in
        for chunk in 0..<3 {
          try await writer.write(
            MigrationV1.PutRecordsRequest(
              records: (0..<50).map { MigratorHarness.record("history", "\(chunk)-\($0)", at: Int64($0)) }))
        }
      }
      #expect(written.written == 150)
      var seen: [MigrationV1.Record] = []
      var token = ""
      repeat {
        let page = try await migrator.records.listRecords(
          MigrationV1.ListRecordsRequest(collection: "history", pageSize: 40, pageToken: token),
          options: guest.options)
        seen += page.records
        token = page.nextPageToken
      } while !token.isEmpty
      #expect(seen.count == 150 && Set(seen.map(\.key)).count == 150)
      let times = seen.map { $0.updatedAt?.seconds ?? -1 }
      #expect(times == times.sorted(by: >))
      #expect(seen.allSatisfy { $0.revision > 0 })
      let collections = try await migrator.records.listCollections(
        MigrationV1.ListCollectionsRequest(), options: guest.options)
      #expect(
        collections.collections == [MigrationV1.CollectionSummary(name: "history", count: 150, policy: .newest)])
    }
  }

  @Test("R40: a record is its subject's alone, whoever knows its name")
  func ownership() async throws {
    try await MigratorHarness.run { migrator in
      let (owner, other) = (try migrator.person(isGuest: true), try migrator.person(isGuest: false))
      try await migrator.put([MigratorHarness.record("cart", "apple")], as: owner)
      let get = MigrationV1.GetRecordRequest(collection: "cart", key: "apple")
      await expectRefusal(.notFound, "RECORD_NOT_FOUND") {
        try await migrator.records.getRecord(get, options: other.options)
      }
      let deleted = try await migrator.records.deleteRecord(
        MigrationV1.DeleteRecordRequest(collection: "cart", key: "apple"), options: other.options)
      #expect(!deleted.deleted)
      let listed = try await migrator.records.listRecords(
        MigrationV1.ListRecordsRequest(collection: "cart"), options: other.options)
      #expect(listed.records.isEmpty)
      #expect(try await migrator.records.getRecord(get, options: owner.options).record?.value == Array("v".utf8))
      await expectRefusal(.unauthenticated) { try await migrator.records.getRecord(get) }
      await expectRefusal(.permissionDenied, "USER_TOKEN_REQUIRED") {
        try await migrator.records.getRecord(get, options: migrator.service)
      }
    }
  }

  @Test("a field at fault is named, and the message that holds it writes nothing")
  func validation() async throws {
    try await MigratorHarness.run { migrator in
      let guest = try migrator.person(isGuest: true)
      let good = MigratorHarness.record("cart", "good")
      var large = good
      large.value = [UInt8](repeating: 1, count: RecordContent.maximumValueBytes + 1)
      var revised = good
      revised.revision = 3
      var timeless = good
      timeless.updatedAt = GoogleProtobuf.Timestamp(seconds: 1, nanos: -1)
      let wrong: [(MigrationV1.Record, String)] = [
        (MigratorHarness.record("", "k"), "records[1].collection"),
        (MigratorHarness.record("Cart", "k"), "records[1].collection"),
        (MigratorHarness.record("cart", ""), "records[1].key"),
        (MigratorHarness.record("cart", "a\0b"), "records[1].key"),
        (large, "records[1].value"), (revised, "records[1].revision"), (timeless, "records[1].updated_at"),
      ]
      for (record, field) in wrong {
        await expectRefusal(.invalidArgument, field: field) { try await migrator.put([good, record], as: guest) }
      }
      await expectRefusal(.invalidArgument, field: "page_size") {
        try await migrator.records.listRecords(
          MigrationV1.ListRecordsRequest(collection: "cart", pageSize: 1001), options: guest.options)
      }
      await expectRefusal(.invalidArgument, field: "page_token") {
        try await migrator.records.listRecords(
          MigrationV1.ListRecordsRequest(collection: "cart", pageToken: "AAAA"), options: guest.options)
      }
      let collections = try await migrator.records.listCollections(
        MigrationV1.ListCollectionsRequest(), options: guest.options)
      #expect(collections.collections.isEmpty)
    }
  }

  @Test("the largest value is stored, and a page of many such ends early instead of failing")
  func largeValues() async throws {
    try await MigratorHarness.run { migrator in
      let guest = try migrator.person(isGuest: true)
      let value = String(repeating: "x", count: RecordContent.maximumValueBytes)
      for chunk in 0..<5 {
        let records = (0..<10).map { MigratorHarness.record("history", "\(chunk)-\($0)", value, at: 1) }
        #expect(try await migrator.put(records, as: guest) == 10)
      }
      var count = 0
      var pages = 0
      var token = ""
      repeat {
        let page = try await migrator.records.listRecords(
          MigrationV1.ListRecordsRequest(collection: "history", pageSize: 1000, pageToken: token),
          options: guest.options)
        count += page.records.count
        pages += 1
        token = page.nextPageToken
      } while !token.isEmpty
      #expect(count == 50 && pages == 2)
    }
  }

  @Test("R40: a subject that is full is told so, and a guest may store less than an account")
  func full() async throws {
    let small = RecordBounds(records: 2, bytes: 1000, collections: 2)
    let large = RecordBounds(records: 3, bytes: 1000, collections: 2)
    try await MigratorHarness.run(guestBounds: small, accountBounds: large) { migrator in
      for (person, most) in [(try migrator.person(isGuest: true), 2), (try migrator.person(isGuest: false), 3)] {
        for number in 0..<most { try await migrator.put([MigratorHarness.record("cart", "\(number)")], as: person) }
        let error = await expectRefusal(.resourceExhausted, "RECORDS_FULL") {
          try await migrator.put([MigratorHarness.record("cart", "more")], as: person)
        }
        #expect(error?.details.info == [RPCError.KeyValue("bound", "records")] && error?.details.retryAfter == nil)
        // What takes the place of a record needs no room, and what is deleted gives its own back.
        try await migrator.put([MigratorHarness.record("cart", "0", "again")], as: person)
        _ = try await migrator.records.deleteRecord(
          MigrationV1.DeleteRecordRequest(collection: "cart", key: "0"), options: person.options)
        try await migrator.put([MigratorHarness.record("cart", "more")], as: person)
      }
    }
  }

  @Test("G16: a migration takes an account beyond its bounds rather than lose a record")
  func migratedBeyondBounds() async throws {
    let bounds = RecordBounds(records: 3, bytes: 1000, collections: 1)
    try await MigratorHarness.run(guestBounds: bounds, accountBounds: bounds) { migrator in
      let (guest, account) = (try migrator.person(isGuest: true), try migrator.person(isGuest: false))
      try await migrator.put((0..<3).map { MigratorHarness.record("cart", "g\($0)") }, as: guest)
      try await migrator.put((0..<2).map { MigratorHarness.record("notes", "a\($0)") }, as: account)
      let end = try await migrator.migrate(guest, into: account)
      #expect(end.state == .done && end.report.map(\.moved) == [3])
      await expectRefusal(.resourceExhausted, "RECORDS_FULL") {
        try await migrator.put([MigratorHarness.record("notes", "more")], as: account)
      }
      try await migrator.put([MigratorHarness.record("notes", "a0", "again")], as: account)
    }
  }

  @Test("a record that was written since is not deleted by its old revision")
  func revisions() async throws {
    try await MigratorHarness.run { migrator in
      let guest = try migrator.person(isGuest: true)
      let get = MigrationV1.GetRecordRequest(collection: "cart", key: "apple")
      try await migrator.put([MigratorHarness.record("cart", "apple")], as: guest)
      let old = try await migrator.records.getRecord(get, options: guest.options).record?.revision ?? 0
      try await migrator.put([MigratorHarness.record("cart", "apple")], as: guest)
      await expectRefusal(.aborted, "REVISION_MISMATCH") {
        try await migrator.records.deleteRecord(
          MigrationV1.DeleteRecordRequest(collection: "cart", key: "apple", expectedRevision: old),
          options: guest.options)
      }
      let new = try await migrator.records.getRecord(get, options: guest.options).record?.revision ?? 0
      #expect(new > old)
      let deleted = try await migrator.records.deleteRecord(
        MigrationV1.DeleteRecordRequest(collection: "cart", key: "apple", expectedRevision: new),
        options: guest.options)
      #expect(deleted.deleted)
    }
  }
}
