import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage
import Testing

@testable import MigrationService

@Suite("Migrations that are looked at and taken back")
struct UndoMigrationTests {
  private static func undo(_ id: String) -> MigrationV1.UndoMigrationRequest {
    MigrationV1.UndoMigrationRequest(migrationID: id)
  }

  @Test("R39: who merged by mistake takes it back: both have their records, and the guest is one again")
  func takenBack() async throws {
    try await MigratorHarness.run { harness in
      let (guest, account) = (try harness.person(isGuest: true), try harness.person(isGuest: false))
      try await harness.put(
        [MigratorHarness.record("cart", "a", number: 2), MigratorHarness.record("cart", "b")], as: guest)
      try await harness.put([MigratorHarness.record("cart", "a", number: 3)], as: account)
      let done = try await harness.migrate(guest, into: account)
      #expect(done.state == .done && done.undoUntil != nil)
      #expect(
        try await harness.migrations.undoMigration(Self.undo(done.migrationID), options: account.options).begun)
      let end = try #require(try await harness.states(done.migrationID, options: account.options).last)
      #expect(end.state == .undone && end.undoUntil == nil && end.report.isEmpty)
      #expect(harness.switcher.restored == [guest.id])
      let own = try await harness.records.listRecords(
        MigrationV1.ListRecordsRequest(collection: "cart"), options: guest.options
      ).records
      #expect(Set(own.map(\.key)) == ["a", "b"] && Set(own.map(\.number)) == [2, 0])
      let left = try await harness.records.listRecords(
        MigrationV1.ListRecordsRequest(collection: "cart"), options: account.options
      ).records
      #expect(left.map(\.key) == ["a"] && left.map(\.number) == [3])
      // Again changes nothing, and the guest may be moved once more.
      #expect(
        try await !harness.migrations.undoMigration(Self.undo(done.migrationID), options: account.options).begun)
      let plan = try await harness.plan(guest, into: account)
      let id = try await harness.start(plan, key: "again", options: account.options)
      #expect(try await harness.states(id, options: account.options).last?.state == .done)
    }
  }

  @Test("R39: a guest that cannot be one again stays merged, and the account is told why")
  func refused() async throws {
    try await MigratorHarness.run { harness in
      let (guest, account) = (try harness.person(isGuest: true), try harness.person(isGuest: false))
      try await harness.put([MigratorHarness.record("cart", "a")], as: guest)
      let id = try await harness.migrate(guest, into: account).migrationID
      harness.switcher.refuse(RPCError(.failedPrecondition, "another guest", reason: "GUEST_REPLACED"))
      _ = try await harness.migrations.undoMigration(Self.undo(id), options: account.options)
      let end = try #require(try await harness.states(id, options: account.options).last)
      #expect(end.state == .done && end.failure.contains("another guest") && end.undoUntil != nil)
      await expectRefusal(.failedPrecondition, "SUBJECT_MIGRATED") {
        try await harness.put([MigratorHarness.record("cart", "b")], as: guest)
      }
      let held = try await harness.records.listCollections(
        MigrationV1.ListCollectionsRequest(), options: account.options)
      #expect(held.collections.map(\.count) == [1])
      harness.switcher.relent()
      _ = try await harness.migrations.undoMigration(Self.undo(id), options: account.options)
      #expect(try await harness.states(id, options: account.options).last?.state == .undone)
    }
  }

  @Test("R39: it is too late when the time is over, and then nothing is kept for it")
  func expired() async throws {
    try await MigratorHarness.run { harness in
      let (guest, account) = (try harness.person(isGuest: true), try harness.person(isGuest: false))
      try await harness.put([MigratorHarness.record("cart", "a")], as: guest)
      let id = try await harness.migrate(guest, into: account).migrationID
      harness.clock.advance(by: .seconds(3600))
      let later = MigratorHarness.Person(
        id: account.id, isGuest: false, token: try harness.token(of: account.id, isGuest: false))
      await expectRefusal(.failedPrecondition, "UNDO_EXPIRED") {
        try await harness.migrations.undoMigration(Self.undo(id), options: later.options)
      }
      await UndoUpkeep(harness.core).forget()
      let kept = try await #require(harness.file).read { db throws(StorageError) in
        try db.first(
          "SELECT (SELECT count(*) FROM moved_records) + (SELECT count(*) FROM migration_records)"
        ) { $0.integer(0) }
      }
      #expect(kept == 0)
      let report = try await harness.migrations.getMigration(
        MigrationV1.GetMigrationRequest(migrationID: id), options: later.options
      ).migration
      #expect(report?.undoUntil == nil && report?.report.map(\.moved) == [1])
    }
  }

  @Test("R40: nobody else takes a migration back, decides about it or sees that there is one")
  func others() async throws {
    try await MigratorHarness.run { harness in
      let (guest, account) = (try harness.person(isGuest: true), try harness.person(isGuest: false))
      let stranger = try harness.person(isGuest: false)
      try await harness.put([MigratorHarness.record("cart", "a")], as: guest)
      let id = try await harness.migrate(guest, into: account).migrationID
      await expectRefusal(.notFound, "MIGRATION_NOT_FOUND") {
        try await harness.migrations.undoMigration(Self.undo(id), options: stranger.options)
      }
      await expectRefusal(.notFound, "MIGRATION_NOT_FOUND") {
        try await harness.migrations.listConflicts(
          MigrationV1.ListConflictsRequest(migrationID: id), options: stranger.options)
      }
      await expectRefusal(.notFound, "MIGRATION_NOT_FOUND") {
        try await harness.migrations.resolveConflict(
          MigrationV1.ResolveConflictRequest(migrationID: id, collection: "cart", key: "a", policy: .keepSource),
          options: stranger.options)
      }
      await expectRefusal(.permissionDenied, "NOT_THE_TARGET") {
        try await harness.migrations.listMigrations(
          MigrationV1.ListMigrationsRequest(targetSub: account.id.description), options: stranger.options)
      }
      await expectRefusal(.permissionDenied) {
        try await harness.migrations.listMigrations(MigrationV1.ListMigrationsRequest(), options: guest.options)
      }
      let none = try await harness.migrations.listMigrations(
        MigrationV1.ListMigrationsRequest(), options: stranger.options)
      #expect(none.migrations.isEmpty)
    }
  }

  @Test("the migrations into an account are listed newest first, in pages, each once; a service names the account")
  func listing() async throws {
    try await MigratorHarness.run { harness in
      let account = try harness.person(isGuest: false)
      var ids: [String] = []
      for number in 0..<5 {
        let guest = try harness.person(isGuest: true)
        try await harness.put([MigratorHarness.record("cart", "\(number)")], as: guest)
        let plan = try await harness.plan(guest, into: account)
        let id = try await harness.start(plan, key: "\(number)", options: account.options)
        #expect(try await harness.states(id, options: account.options).last?.state == .done)
        ids.append(id)
        harness.clock.advance(by: .seconds(1))
      }
      for options in [account.options, harness.service] {
        var seen: [MigrationV1.Migration] = []
        var token = ""
        repeat {
          let page = try await harness.migrations.listMigrations(
            MigrationV1.ListMigrationsRequest(
              targetSub: account.id.description, pageSize: 2, pageToken: token), options: options)
          seen += page.migrations
          token = page.nextPageToken
        } while !token.isEmpty
        #expect(seen.map(\.migrationID) == ids.reversed())
        #expect(seen.allSatisfy { $0.state == .done && $0.report.isEmpty && $0.done == 1 })
      }
      await expectRefusal(.invalidArgument, field: "target_sub") {
        try await harness.migrations.listMigrations(MigrationV1.ListMigrationsRequest(), options: harness.service)
      }
      await expectRefusal(.invalidArgument, field: "page_token") {
        try await harness.migrations.listMigrations(
          MigrationV1.ListMigrationsRequest(pageToken: "AAAA"), options: account.options)
      }
    }
  }

  @Test("G17, G18: what was set aside is listed with both rows, and decided once")
  func conflicts() async throws {
    let cart = try #require(CollectionName("cart"))
    try await MigratorHarness.run(rules: CollectionRules([cart: CollectionRules.Rule(policy: .ask)])) { harness in
      let (guest, account) = (try harness.person(isGuest: true), try harness.person(isGuest: false))
      try await harness.put(
        [MigratorHarness.record("cart", "a", "guest", number: 2), MigratorHarness.record("cart", "b", "guest")],
        as: guest)
      try await harness.put([MigratorHarness.record("cart", "a", "account", number: 3)], as: account)
      let done = try await harness.migrate(guest, into: account)
      #expect(done.report.map(\.asked) == [1] && done.report.map(\.moved) == [1])
      let list = MigrationV1.ListConflictsRequest(migrationID: done.migrationID)
      let found = try await harness.migrations.listConflicts(list, options: account.options).conflicts
      let conflict = try #require(found.first)
      #expect(found.count == 1 && conflict.collection == "cart" && conflict.key == "a" && conflict.reason == .ask)
      #expect(conflict.guest?.value == Array("guest".utf8) && conflict.account?.value == Array("account".utf8))
      func resolve(
        _ policy: MigrationV1.Policy, revision: Int64 = 0, collection: String = "cart"
      ) async throws -> Bool {
        try await harness.migrations.resolveConflict(
          MigrationV1.ResolveConflictRequest(
            migrationID: done.migrationID, collection: collection, key: "a", policy: policy,
            expectedRevision: revision), options: account.options
        ).resolved
      }
      for policy in [.ask, .unspecified, .unrecognized(99)] as [MigrationV1.Policy] {
        await expectRefusal(.invalidArgument, field: "policy") { try await resolve(policy) }
      }
      await expectRefusal(.invalidArgument, field: "expected_revision") { try await resolve(.sum, revision: -1) }
      await expectRefusal(.invalidArgument, field: "collection") { try await resolve(.sum, collection: "") }
      await expectRefusal(.aborted, "REVISION_MISMATCH") { try await resolve(.sum, revision: 99) }
      #expect(try await resolve(.sum, revision: conflict.account?.revision ?? -1))
      #expect(try await !resolve(.sum))
      let record = try await harness.records.getRecord(
        MigrationV1.GetRecordRequest(collection: "cart", key: "a"), options: account.options
      ).record
      #expect(record?.number == 5)
      #expect(try await harness.migrations.listConflicts(list, options: account.options).conflicts.isEmpty)
    }
  }

  @Test("M1: conflicts are listed to the last page, whatever their keys begin with")
  func conflictPages() async throws {
    let keys = ["\u{301}", "\u{20DD}a", "\u{E9}", "e\u{301}", "a/b"]
    let notes = try #require(CollectionName("notes"))
    try await MigratorHarness.run(rules: CollectionRules([notes: CollectionRules.Rule(policy: .ask)])) { harness in
      let (guest, account) = (try harness.person(isGuest: true), try harness.person(isGuest: false))
      for person in [guest, account] {
        try await harness.put(keys.map { MigratorHarness.record("notes", $0) }, as: person)
      }
      let id = try await harness.migrate(guest, into: account).migrationID
      var seen: [[UInt8]] = []
      var token = ""
      repeat {
        let page = try await harness.migrations.listConflicts(
          MigrationV1.ListConflictsRequest(migrationID: id, pageSize: 1, pageToken: token), options: account.options)
        seen += page.conflicts.map { Array($0.key.utf8) }
        token = page.nextPageToken
      } while !token.isEmpty && seen.count <= keys.count
      #expect(seen == keys.map { Array($0.utf8) }.sorted { $0.lexicographicallyPrecedes($1) })
    }
  }

  @Test("G18: a record that the account has no room for stays set aside until there is some")
  func noRoom() async throws {
    let downloads = try #require(CollectionName("downloads"))
    let rules = CollectionRules([downloads: CollectionRules.Rule(policy: .keepTarget, maximumRows: 1)])
    try await MigratorHarness.run(rules: rules) { harness in
      let (guest, account) = (try harness.person(isGuest: true), try harness.person(isGuest: false))
      try await harness.put([MigratorHarness.record("downloads", "g", "guest")], as: guest)
      try await harness.put([MigratorHarness.record("downloads", "a")], as: account)
      let id = try await harness.migrate(guest, into: account).migrationID
      let request = MigrationV1.ResolveConflictRequest(
        migrationID: id, collection: "downloads", key: "g", policy: .keepSource)
      let error = await expectRefusal(.failedPrecondition, "CONFLICT_REMAINS") {
        try await harness.migrations.resolveConflict(request, options: account.options)
      }
      #expect(error?.details.info == [RPCError.KeyValue("conflict", "no_room")])
      _ = try await harness.records.deleteRecord(
        MigrationV1.DeleteRecordRequest(collection: "downloads", key: "a"), options: account.options)
      #expect(try await harness.migrations.resolveConflict(request, options: account.options).resolved)
      let held = try await harness.records.getRecord(
        MigrationV1.GetRecordRequest(collection: "downloads", key: "g"), options: account.options
      ).record
      #expect(held?.value == Array("guest".utf8))
    }
  }
}
