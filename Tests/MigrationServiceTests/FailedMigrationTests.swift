import GRPC
import LatchkeyModel
import LatchkeyProtos
import Testing

@testable import MigrationService

@Suite("Migrations that cannot go on")
struct FailedMigrationTests {
  private static let gone = RPCError(.notFound, "no such account", reason: "ACCOUNT_NOT_FOUND")

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
