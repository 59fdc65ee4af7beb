import Domain
import LatchkeyModel
import Storage
import TestSupport
import Testing

@Suite("Migrations that are undone or taken back")
struct UndoneMigrationTests {
  @Test(
    "R39: a switch that is refused for good is undone, with a crash after any transaction: both have what they had",
    arguments: MigratorEngine.allCases)
  func undone(engine: MigratorEngine) async throws {
    let scenario = MigrationScenario.large(1200)
    var transactions = 0
    var crash = engine.firstCrash
    repeat {
      let folder = try TemporaryFolder()
      var stores = try await engine.openMigrator(in: folder)
      let id = try await scenario.start(stores)
      var migration: Migration?
      var count = 0
      repeat {
        if count == crash {
          stores = try await stores.reopened()
          try await stores.migrations.releaseAll()
          migration = nil
        }
        migration = try await stores.refusedStep(.worker(1), migration)
        count += 1
      } while migration?.isFinished == false
      transactions = count
      #expect(migration?.state == .failed(.switch, reason: "gone", at: MigrationScenario.now))
      let account = try await stores.allRecords(of: MigrationScenario.account)
      let guest = try await stores.allRecords(of: MigrationScenario.guest)
      #expect(account == Dictionary(scenario.accountRecords.map { ($0.name, $0.content) }) { $1 })
      #expect(guest == Dictionary(scenario.guestRecords.map { ($0.name, $0.content) }) { $1 })
      #expect(try await stores.migrations.conflicts(of: id, beyond: nil, count: 10, bytes: 100).conflicts.isEmpty)
      // The guest is one like any other again.
      #expect(
        try await stores.records.put(scenario.guestRecords, of: MigrationScenario.guest)
          == .done(scenario.guestRecords.count))
      await stores.close()
      crash += engine.crashStride
    } while crash <= transactions
    #expect(transactions >= 10)
  }

  @Test(
    "R39: what the account's owner changed after the merge is not undone, but the guest's part of a sum is",
    arguments: MigratorEngine.allCases)
  func undoneBesideChanges(engine: MigratorEngine) async throws {
    let name = try #require(RecordKey("k"))
    func draft(_ collection: String, _ value: String, _ number: Int64, _ time: Int64) throws -> RecordDraft {
      RecordDraft(
        name: RecordName(collection: try #require(CollectionName(collection)), key: name),
        content: RecordContent(
          value: Array(value.utf8), number: number, updatedAt: Timestamp(millisecondsSinceEpoch: time)))
    }
    var rules = CollectionRules([:])
    rules.rules[try #require(CollectionName("sum"))] = CollectionRules.Rule(policy: .sum)
    let others: [(String, MigrationPolicy)] = [("newest", .newest), ("max", .max), ("union", .unionByKey)]
    for (collection, policy) in others {
      rules.rules[try #require(CollectionName(collection))] = CollectionRules.Rule(policy: policy)
    }
    let scenario = MigrationScenario(
      guestRecords: [try draft("sum", "g", 5, 2)] + (try others.map { try draft($0.0, "g", 9, 2) }),
      accountRecords: [try draft("sum", "a", 10, 1)] + (try others.map { try draft($0.0, "a", 5, 1) }), rules: rules)
    let stores = try await engine.openMigrator(in: try TemporaryFolder())
    _ = try await scenario.start(stores)
    var migration: Migration?
    repeat { migration = try await stores.step(.worker(1), migration) } while migration?.action != .switchSubject
    let changed = [try draft("sum", "mine", 115, 9)] + (try others.map { try draft($0.0, "mine", 10, 9) })
    _ = try await stores.records.put(changed, of: MigrationScenario.account)
    repeat {
      migration = try await stores.refusedStep(.worker(1), migration)
    } while migration?.isFinished == false
    let account = try await stores.allRecords(of: MigrationScenario.account)
    for draft in changed[1...] { #expect(account[draft.name] == draft.content) }
    #expect(account[changed[0].name]?.number == 110 && account[changed[0].name]?.value == changed[0].content.value)
    await stores.close()
  }

  @Test(
    "R39: a failed migration is tried again by the same plan while the guest's records are those of the plan",
    arguments: MigratorEngine.allCases)
  func retried(engine: MigratorEngine) async throws {
    let scenario = MigrationScenario.large(40)
    let stores = try await engine.openMigrator(in: try TemporaryFolder())
    let id = try await scenario.start(stores)
    #expect(try await stores.migrations.retry(id) == .notFailed)
    #expect(try await stores.migrations.retry(migrationID(99)) == .unknown)
    var migration: Migration?
    repeat {
      migration = try await stores.refusedStep(.worker(1), migration)
    } while migration?.isFinished == false
    #expect(try await stores.migrations.retry(id) == .retried)
    #expect(try await stores.migrations.retry(id) == .notFailed)
    #expect(try await stores.records.put(scenario.guestRecords, of: MigrationScenario.guest) == .migrating)
    _ = try await stores.finish(.worker(1))
    try await scenario.expectOutcome(stores, id)
    await stores.close()

    let others = try await engine.openMigrator(in: try TemporaryFolder())
    let second = try await scenario.start(others)
    migration = nil
    repeat {
      migration = try await others.refusedStep(.worker(1), migration)
    } while migration?.isFinished == false
    _ = try await others.records.put(Array(scenario.guestRecords.prefix(1)), of: MigrationScenario.guest)
    #expect(try await others.migrations.retry(second) == .stale)
    await others.close()
  }

  // MARK: Taking back

  @Test(
    "R39: what is done is taken back, with a crash after any transaction: both have what they had",
    arguments: MigratorEngine.allCases)
  func takenBack(engine: MigratorEngine) async throws {
    let seed = SeededRandom.seed()
    var random = SeededRandom(seed: seed)
    let scenario = MigrationScenario.random(&random, guestRecords: 900, accountRecords: 900)
    var transactions = 0
    var crash = engine.firstCrash
    repeat {
      let comment: Comment = "LATCHKEY_TEST_SEED=\(seed), after \(crash) transactions"
      let folder = try TemporaryFolder()
      var stores = try await engine.openMigrator(in: folder)
      let id = try await scenario.start(stores)
      _ = try await stores.finish(.worker(1))
      try await scenario.expectOutcome(stores, id, comment)
      #expect(try await stores.migrations.undo(id, at: MigrationScenario.now) == .begun)
      var migration: Migration?
      var count = 0
      repeat {
        if count == crash {
          stores = try await stores.reopened()
          try await stores.migrations.releaseAll()
          migration = nil
        }
        // Nobody changes the guest's records meanwhile, and nobody asks twice.
        #expect(try await stores.records.put(scenario.guestRecords, of: MigrationScenario.guest) == .migrating)
        #expect(try await stores.migrations.undo(id, at: MigrationScenario.now) == .already)
        migration = try await stores.step(.worker(1), migration)
        count += 1
      } while migration?.isFinished == false
      transactions = count
      #expect(migration?.state == .undone(at: MigrationScenario.now), comment)
      #expect(
        try await stores.allRecords(of: MigrationScenario.account)
          == Dictionary(scenario.accountRecords.map { ($0.name, $0.content) }) { $1 }, comment)
      #expect(
        try await stores.allRecords(of: MigrationScenario.guest)
          == Dictionary(scenario.guestRecords.map { ($0.name, $0.content) }) { $1 }, comment)
      #expect(try await stores.migrations.conflicts(of: id, beyond: nil, count: 10, bytes: 100).conflicts.isEmpty)
      #expect(try await stores.migrations.undo(id, at: MigrationScenario.now) == .already)
      #expect(try await stores.migrations.retry(id) == .notFailed)
      if crash == engine.firstCrash {
        // The same guest again, by another plan.
        let plan = try await stores.save(scenario.rules, number: 50)
        let again = try await stores.migrations.start(
          plan, as: migrationID(51), idempotencyKey: "again", at: MigrationScenario.now)
        #expect(again == .started(migrationID(51)))
        _ = try await stores.finish(.worker(1))
        let listed = try await stores.migrations.migrations(into: MigrationScenario.account, beyond: nil, count: 10)
        #expect(Set(listed.migrations.map(\.id)) == [id, migrationID(51)] && !listed.hasMore)
      }
      await stores.close()
      crash += engine.crashStride
    } while crash <= transactions
    #expect(transactions >= 6)
  }

  @Test("R39: each step of taking back is done once, however often it is asked for", arguments: MigratorEngine.allCases)
  func takenBackTwice(engine: MigratorEngine) async throws {
    let scenario = MigrationScenario.large(1200)
    let stores = try await engine.openMigrator(in: try TemporaryFolder())
    let id = try await scenario.start(stores)
    _ = try await stores.finish(.worker(1))
    _ = try await stores.migrations.undo(id, at: MigrationScenario.now)
    var migration = try await stores.step(.worker(1), nil)
    var actions: [Migration.Action] = []
    while let current = migration, let action = current.action {
      if actions.last != action { actions.append(action) }
      migration = try await stores.migrations.perform(action, of: id, lease: .worker(1), at: MigrationScenario.now)
      // A step of several chunks goes on where it stands; any other finds that the migration has left it.
      if action == .recallSubject {
        let again = try await stores.migrations.perform(action, of: id, lease: .worker(1), at: MigrationScenario.now)
        #expect(again == nil)
      }
    }
    #expect(actions == [.recallSubject, .restoreRecords, .undoRecords])
    let account = try await stores.allRecords(of: MigrationScenario.account)
    #expect(account == Dictionary(scenario.accountRecords.map { ($0.name, $0.content) }) { $1 })
    await stores.close()
  }

  @Test(
    "R39: a migration is taken back within its time only, and what that needs is forgotten then",
    arguments: MigratorEngine.allCases)
  func undoWindow(engine: MigratorEngine) async throws {
    let (scenario, now) = (MigrationScenario.large(600), MigrationScenario.now)
    let window = MigratorStores.undoWindow
    let stores = try await engine.openMigrator(in: try TemporaryFolder())
    let id = try await scenario.start(stores)
    #expect(try await stores.migrations.undo(id, at: now) == .notDone)
    #expect(try await stores.migrations.undo(migrationID(99), at: now) == .unknown)
    _ = try await stores.finish(.worker(1))
    #expect(try await stores.migrations.migration(id)?.migration.undoUntil == now + window)
    #expect(try await stores.migrations.forgetUndo(at: now + window - .milliseconds(1), limit: 100) == 0)
    #expect(try await stores.migrations.undo(id, at: now + window) == .expired)
    var forgotten = 0
    while true {
      let count = try await stores.migrations.forgetUndo(at: now + window, limit: 100)
      #expect(count <= 100)
      if count == 0 { break }
      forgotten += count
    }
    // What became of each record, each record, and the mark on the migration.
    #expect(forgotten == 600 + 600 + 1)
    #expect(try await stores.migrations.migration(id)?.migration.undoUntil == nil)
    #expect(try await stores.migrations.undo(id, at: now) == .expired)
    try await scenario.expectOutcome(stores, id)
    await stores.close()

    let without = try await engine.openMigrator(in: try TemporaryFolder(), undoWindow: .zero)
    let other = try await scenario.start(without)
    _ = try await without.finish(.worker(1))
    #expect(try await without.migrations.undo(other, at: now) == .expired)
    try await scenario.expectOutcome(without, other)
    await without.close()
  }

  @Test(
    "R39: what has begun to be forgotten is not taken back, though the clock is set back in the middle of it",
    arguments: MigratorEngine.allCases)
  func forgettingBegun(engine: MigratorEngine) async throws {
    let (scenario, now) = (MigrationScenario.large(600), MigrationScenario.now)
    let stores = try await engine.openMigrator(in: try TemporaryFolder())
    let id = try await scenario.start(stores)
    _ = try await stores.finish(.worker(1))
    let held = try await stores.allRecords(of: MigrationScenario.account)
    #expect(try await stores.migrations.forgetUndo(at: now + MigratorStores.undoWindow, limit: 100) == 100)
    // A day earlier: the time for taking back seems to last.
    let earlier = now - .seconds(86_400)
    #expect(try await stores.migrations.undo(id, at: earlier) == .expired)
    while try await stores.migrations.forgetUndo(at: earlier, limit: 1000) > 0 {}
    #expect(try await stores.allRecords(of: MigrationScenario.account) == held)
    #expect(try await stores.migrations.migration(id)?.migration.undoUntil == nil)
    await stores.close()
  }

  @Test(
    "M2: what taking back left, because its owner had changed it, is counted for as long as the migration is listed",
    arguments: MigratorEngine.allCases)
  func remained(engine: MigratorEngine) async throws {
    let (scenario, now) = (MigrationScenario.large(40), MigrationScenario.now)
    let stores = try await engine.openMigrator(in: try TemporaryFolder())
    let id = try await scenario.start(stores)
    _ = try await stores.finish(.worker(1))
    // One that only the guest had, and one that both had.
    let changed = [scenario.guestRecords[38], scenario.guestRecords[2]].map { draft in
      var content = draft.content
      content.value = [7]
      return RecordDraft(name: draft.name, content: content)
    }
    _ = try await stores.records.put(changed, of: MigrationScenario.account)
    _ = try await stores.records.delete(scenario.guestRecords[35].name, revision: nil, of: MigrationScenario.account)
    #expect(try await stores.migrations.undo(id, at: now) == .begun)
    _ = try await stores.finish(.worker(1))
    let report = try #require(try await stores.migrations.migration(id))
    #expect(report.migration.state == .undone(at: now))
    // The account had none of the third before either.
    #expect(report.collections.map(\.report.remained).reduce(0, +) == 2)
    #expect(report.collections.allSatisfy { $0.report.remained > 0 })
    let account = try await stores.allRecords(of: MigrationScenario.account)
    for draft in changed { #expect(account[draft.name]?.value == [7]) }
    await stores.close()
  }

  @Test(
    "R39: where identity will not have the guest again, the migration is done as before, and may be tried again",
    arguments: MigratorEngine.allCases)
  func undoRefused(engine: MigratorEngine) async throws {
    let (scenario, now) = (MigrationScenario.large(40), MigrationScenario.now)
    let stores = try await engine.openMigrator(in: try TemporaryFolder())
    let id = try await scenario.start(stores)
    _ = try await stores.finish(.worker(1))
    _ = try await stores.migrations.undo(id, at: now)
    let claimed = try await stores.migrations.claim(.worker(1), at: now)
    #expect(claimed?.migration.action == .recallSubject)
    let refused = try await stores.migrations.refuseUndo(of: id, reason: "replaced", lease: .worker(1), at: now)
    #expect(refused?.undoRefusal == "replaced")
    let stored = try await stores.migrations.migration(id)?.migration
    #expect(stored == refused && stored?.state == .done(at: now))
    #expect(try await stores.records.put(scenario.guestRecords, of: MigrationScenario.guest) == .migrated)
    try await scenario.expectOutcome(stores, id)
    #expect(try await stores.migrations.undo(id, at: now) == .begun)
    _ = try await stores.finish(.worker(1))
    #expect(try await stores.migrations.migration(id)?.migration.state == .undone(at: now))
    await stores.close()
  }

  @Test(
    "R10: an account that was deleted leaves nothing of its migrations behind, and gets nothing back",
    arguments: MigratorEngine.allCases)
  func deletedAccount(engine: MigratorEngine) async throws {
    var random = SeededRandom(seed: 7)
    let scenario = MigrationScenario.random(&random, guestRecords: 400, accountRecords: 400)
    let stores = try await engine.openMigrator(in: try TemporaryFolder())
    let id = try await scenario.start(stores)
    _ = try await stores.finish(.worker(1))
    #expect(try await !stores.migrations.conflicts(of: id, beyond: nil, count: 1, bytes: 1).conflicts.isEmpty)
    // What is set aside is the account's to look at: it outlives its guest.
    #expect(
      try await stores.records.purge(MigrationScenario.guest, limit: 100)
        == .done(PurgeRecords.Purged(count: 0, isLast: true)))
    #expect(try await stores.migrations.undo(id, at: MigrationScenario.now) == .deleted)
    #expect(try await !stores.migrations.conflicts(of: id, beyond: nil, count: 1, bytes: 1).conflicts.isEmpty)
    while true {
      guard case .done(let step) = try await stores.records.purge(MigrationScenario.account, limit: 100) else {
        throw MigrationScenario.Unexpected("the purge was refused")
      }
      if step.isLast { break }
    }
    #expect(try await stores.migrations.undo(id, at: MigrationScenario.now) == .deleted)
    #expect(try await stores.migrations.conflicts(of: id, beyond: nil, count: 1, bytes: 1).conflicts.isEmpty)
    #expect(try await stores.migrations.forgetUndo(at: MigrationScenario.now + .seconds(86_400 * 30), limit: 10) == 0)
    #expect(try await stores.migrations.migration(id) != nil)
    await stores.close()
  }
}
