import Domain
import LatchkeyModel
import Storage
import TestSupport
import Testing

@Suite("Migrations that several instances work on")
struct InstancesTests {
  private let now = MigrationScenario.now

  /// Does what is due next, up to a step.
  private func drive(
    _ stores: MigratorStores, _ lease: JobLease, to isReached: (Migration.Action?) -> Bool
  ) async throws -> Migration {
    var migration = try #require(try await stores.migrations.claim(lease, at: now)?.migration)
    while let action = migration.action, !isReached(action) {
      migration = try #require(
        try await stores.migrations.perform(action, of: migration.id, lease: lease, at: now))
    }
    return migration
  }

  @Test(
    "C14: what an instance has verified of a migration counts no more when others have failed and begun it again",
    arguments: MigratorEngine.allCases)
  func verifiedBefore(engine: MigratorEngine) async throws {
    let one = try await engine.openMigrator(in: try TemporaryFolder())
    let two = MigratorStores(one.storage, undoWindow: MigratorStores.undoWindow)
    // Two stretches of VERIFY.
    let id = try await MigrationScenario.large(10_400).start(one)
    _ = try await drive(one, .worker(1)) { $0 == .verify }
    let half = try await one.migrations.perform(.verify, of: id, lease: .worker(1), at: now)
    #expect(half?.action == .verify)
    try await one.migrations.rest(id, lease: .worker(1), at: now)

    let switching = try await drive(two, .worker(2)) { $0 == .switchSubject }
    #expect(switching.action == .switchSubject)
    let refused = try await two.migrations.refuseSwitch(of: id, reason: "gone", lease: .worker(2), at: now)
    var failed = try #require(refused)
    while let action = failed.action {
      failed = try #require(try await two.migrations.perform(action, of: id, lease: .worker(2), at: now))
    }
    #expect(try await two.migrations.retry(id) == .retried)
    _ = try await drive(two, .worker(3)) { $0 == .verify }
    try await two.migrations.rest(id, lease: .worker(3), at: now)
    try await two.write { rows throws(StorageError) in
      guard let first = try await rows.merged.first(of: id, limit: .max - 1).first else { return }
      try await rows.merged.remove([first.name], of: id)
    }

    let verified = try await drive(one, .worker(4)) { $0 != .verify }
    guard case .undoing(.verify, let reason) = verified.state else {
      Issue.record("\(verified)")
      return
    }
    #expect(reason == "1 records were not merged")
    await one.close()
  }

  @Test(
    "C14: every instance can say why a migration was put off, until it moves on", arguments: MigratorEngine.allCases)
  func hindrance(engine: MigratorEngine) async throws {
    let one = try await engine.openMigrator(in: try TemporaryFolder())
    let two = MigratorStores(one.storage, undoWindow: MigratorStores.undoWindow)
    let id = try await MigrationScenario.large(4).start(one)
    #expect(try await one.migrations.claim(.worker(1), at: now) != nil)
    try await one.migrations.release(id, lease: .worker(1), until: now)
    let held = try await two.migrations.migration(id)
    #expect(held?.hindrance == "away" && held?.epoch == 1)
    let claimed = try await two.migrations.claim(.worker(2), at: now)
    #expect(claimed?.epoch == 2 && claimed?.failures == 1)
    #expect(try await one.migrations.migration(id)?.hindrance == "away")
    _ = try await two.migrations.perform(.countRecords, of: id, lease: .worker(2), at: now)
    let moved = try await one.migrations.migration(id)
    #expect(moved?.hindrance == nil && moved?.epoch == 2)
    await one.close()
  }
}
