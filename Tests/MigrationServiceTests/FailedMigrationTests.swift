import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage
import StorageSQLite
import Testing

@testable import MigrationService

@Suite("Migrations that cannot go on")
struct FailedMigrationTests {
  private static let gone = RPCError(.notFound, "no such account", reason: "ACCOUNT_NOT_FOUND")

  @Test("C14: identity is told what a migration that failed was started with, by which it knows whose it was")
  func startedWith() async throws {
    let switcher = ScriptedSwitch(refusal: Self.gone)
    try await MigratorHarness.run(switcher: switcher) { harness in
      let (guest, account) = (try harness.person(isGuest: true), try harness.person(isGuest: false))
      try await harness.put([MigratorHarness.record("cart", "a")], as: guest)
      let plan = try await harness.plan(guest, into: account)
      let id = try await harness.start(plan, key: "of identity's merge", options: account.options)
      #expect(try await harness.states(id, options: account.options).last?.state == .failed)
      #expect(switcher.keys == ["of identity's merge"])
    }
  }

  @Test("R39: when identity refuses for good, all is undone, identity is told until it hears, and the guest is free")
  func refused() async throws {
    // Identity is away just when it is to be told.
    let switcher = ScriptedSwitch(failures: 2, refusal: Self.gone)
    try await MigratorHarness.run(switcher: switcher) { harness in
      let (guest, account) = (try harness.person(isGuest: true), try harness.person(isGuest: false))
      try await harness.put([MigratorHarness.record("cart", "a"), MigratorHarness.record("cart", "b")], as: guest)
      try await harness.put([MigratorHarness.record("cart", "mine")], as: account)
      let end = try await harness.migrate(guest, into: account)
      #expect(end.state == .failed && end.step == .switch && end.failure.contains("no such account"))
      #expect(switcher.told.count == 1)
      let left = try await harness.records.listCollections(
        MigrationV1.ListCollectionsRequest(), options: account.options)
      #expect(left.collections.map(\.count) == [1])
      try await harness.put([MigratorHarness.record("cart", "c")], as: guest)
      let own = try await harness.records.listCollections(
        MigrationV1.ListCollectionsRequest(), options: guest.options)
      #expect(own.collections.map(\.count) == [3])
    }
  }

  @Test("R39: a migration that a full disk holds up says so, and goes on when there is room")
  func fullDisk() async throws {
    try await MigratorHarness.run { harness in
      let (guest, account) = (try harness.person(isGuest: true), try harness.person(isGuest: false))
      let value = String(repeating: "v", count: 2000)
      try await harness.put((0..<400).map { MigratorHarness.record("cart", "\($0)", value) }, as: guest)
      let plan = try await harness.plan(guest, into: account)
      // Room to start it, and not for what it moves.
      func allow(_ pages: String) async throws {
        try await #require(harness.file).write { db throws(StorageError) in
          let count = try db.first("PRAGMA page_count") { $0.integer(0) } ?? 0
          _ = try db.first("PRAGMA max_page_count = \(pages == "all" ? 1_000_000 : count + 8)") { $0.integer(0) }
        }
      }
      try await allow("few")
      let id = try await harness.start(plan, options: account.options)
      let request = MigrationV1.GetMigrationRequest(migrationID: id)
      var held: MigrationV1.Migration?
      repeat {
        held = try await harness.migrations.getMigration(request, options: account.options).migration
        try await Task.sleep(for: .milliseconds(10))
      } while held?.failure.isEmpty == true && held?.state != .done
      #expect(held?.state == .running && held?.failure == "the disk of the migrator is full")
      try await allow("all")
      let end = try await harness.states(id, options: account.options).last
      #expect(end?.state == .done && end?.failure == "" && end?.report.map(\.moved) == [400])
    }
  }

  @Test("R39: the account has a failed migration tried again; nobody else can")
  func retry() async throws {
    let switcher = ScriptedSwitch(refusal: Self.gone)
    try await MigratorHarness.run(switcher: switcher) { harness in
      let (guest, account) = (try harness.person(isGuest: true), try harness.person(isGuest: false))
      let stranger = try harness.person(isGuest: false)
      try await harness.put([MigratorHarness.record("cart", "a")], as: guest)
      let failed = try await harness.migrate(guest, into: account)
      let retry = MigrationV1.RetryMigrationRequest(migrationID: failed.migrationID)
      await expectRefusal(.notFound, "MIGRATION_NOT_FOUND") {
        try await harness.migrations.retryMigration(retry, options: stranger.options)
      }
      switcher.relent()
      #expect(try await harness.migrations.retryMigration(retry, options: account.options).retried)
      let end = try #require(try await harness.states(failed.migrationID, options: account.options).last)
      #expect(end.state == .done && end.report.map(\.moved) == [1])
      #expect(try await !harness.migrations.retryMigration(retry, options: account.options).retried)
    }
  }

  @Test("R39: after a failure the guest may be planned anew; a retry of the old plan is stale then")
  func plannedAnew() async throws {
    let switcher = ScriptedSwitch(refusal: Self.gone)
    try await MigratorHarness.run(switcher: switcher) { harness in
      let (guest, account) = (try harness.person(isGuest: true), try harness.person(isGuest: false))
      try await harness.put([MigratorHarness.record("cart", "a")], as: guest)
      let failed = try await harness.migrate(guest, into: account)
      try await harness.put([MigratorHarness.record("cart", "b")], as: guest)
      await expectRefusal(.aborted, "STALE_PLAN") {
        try await harness.migrations.retryMigration(
          MigrationV1.RetryMigrationRequest(migrationID: failed.migrationID), options: account.options)
      }
      switcher.relent()
      let plan = try await harness.plan(guest, into: account)
      let id = try await harness.start(plan, key: "another", options: account.options)
      #expect(try await harness.states(id, options: account.options).last?.state == .done)
    }
  }

  @Test("R39: a refusal without identity's reason is not taken for final")
  func notFinal() async throws {
    let switcher = ScriptedSwitch(refusal: RPCError(.notFound, "no such route"))
    try await MigratorHarness.run(switcher: switcher) { harness in
      let (guest, account) = (try harness.person(isGuest: true), try harness.person(isGuest: false))
      try await harness.put([MigratorHarness.record("cart", "a")], as: guest)
      let plan = try await harness.plan(guest, into: account)
      let id = try await harness.start(plan, options: account.options)
      while switcher.calls.count < 2 { try await Task.sleep(for: .milliseconds(20)) }
      switcher.relent()
      #expect(try await harness.states(id, options: account.options).last?.state == .done)
    }
  }
}
