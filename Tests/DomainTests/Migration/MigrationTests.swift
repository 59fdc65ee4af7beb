import Domain
import LatchkeyModel
import Storage
import TestSupport
import Testing

@Suite("Migrations of guests into accounts")
struct MigrationTests {
  @Test("G17: what a migration leaves is what its policies say, for any records", arguments: MigratorEngine.allCases)
  func outcome(engine: MigratorEngine) async throws {
    let seed = SeededRandom.seed()
    var random = SeededRandom(seed: seed)
    for round in 0..<25 {
      let folder = try TemporaryFolder()
      let scenario = MigrationScenario.random(
        &random, guestRecords: .random(in: 0...80, using: &random), accountRecords: .random(in: 0...80, using: &random))
      let stores = try await engine.openMigrator(in: folder)
      let id = try await scenario.start(stores)
      _ = try await stores.finish(.worker(1))
      try await scenario.expectOutcome(stores, id, "LATCHKEY_TEST_SEED=\(seed), round \(round)")
      await stores.close()
    }
  }

  @Test(
    "R39: a plan is started only while both subjects' records are those that were planned for",
    arguments: MigratorEngine.allCases)
  func stalePlans(engine: MigratorEngine) async throws {
    let folder = try TemporaryFolder()
    let stores = try await engine.openMigrator(in: folder)
    let scenario = MigrationScenario.large(8)
    _ = try await stores.records.put(scenario.guestRecords, of: MigrationScenario.guest)
    _ = try await stores.records.put(scenario.accountRecords, of: MigrationScenario.account)
    let now = MigrationScenario.now
    let names = [MigrationScenario.guest, MigrationScenario.account]
    for (index, changed) in names.enumerated() {
      let planID = try await stores.save(scenario.rules, number: UInt8(10 + index))
      _ = try await stores.records.delete(
        scenario.guestRecords[0].name, revision: nil, of: changed)
      _ = try await stores.records.put([scenario.guestRecords[0]], of: changed)
      let outcome = try await stores.migrations.start(planID, as: migrationID(1), idempotencyKey: "k", at: now)
      #expect(outcome == .stale)
    }
    let expired = try await stores.save(scenario.rules, number: 20)
    let late = try await stores.migrations.start(
      expired, as: migrationID(1), idempotencyKey: "k", at: now + .seconds(600))
    #expect(late == .stale)
    // The next plan takes the place of the one before.
    let next = try await stores.save(scenario.rules, number: 21)
    #expect(try await stores.migrations.savedPlan(expired) == nil)
    let replaced = try await stores.migrations.start(expired, as: migrationID(1), idempotencyKey: "k", at: now)
    #expect(replaced == .stale)
    let started = try await stores.migrations.start(next, as: migrationID(1), idempotencyKey: "k", at: now)
    #expect(started == .started(migrationID(1)))
    await stores.close()
  }

  @Test(
    "R39: starting is idempotent for a plan, one key starts one plan, and one guest has one migration",
    arguments: MigratorEngine.allCases)
  func starting(engine: MigratorEngine) async throws {
    let folder = try TemporaryFolder()
    let stores = try await engine.openMigrator(in: folder)
    let scenario = MigrationScenario.large(8)
    _ = try await stores.records.put(scenario.guestRecords, of: MigrationScenario.guest)
    let now = MigrationScenario.now
    let planID = try await stores.save(scenario.rules, number: 10)
    let otherGuest = SubjectID(from: RandomSource { [UInt8](repeating: 77, count: $0) })
    _ = try await stores.records.put(scenario.guestRecords, of: otherGuest)
    let otherPlan = try await stores.save(scenario.rules, number: 11, guest: otherGuest)
    let sameGuest = try await stores.save(scenario.rules, number: 12, target: otherGuest)
    let first = try await withThrowingTaskGroup(of: StartMigration.Outcome.self) { group in
      for number in 1...8 as ClosedRange<UInt8> {
        group.addTask {
          try await stores.migrations.start(planID, as: migrationID(number), idempotencyKey: "k", at: now)
        }
      }
      return try await group.reduce(into: Set<String>()) { $0.insert("\($1)") }
    }
    #expect(first.count == 1)
    let later = try await stores.migrations.start(
      planID, as: migrationID(9), idempotencyKey: "k", at: now + .seconds(9999))
    #expect(first == ["\(later)"])
    let reused = try await stores.migrations.start(otherPlan, as: migrationID(9), idempotencyKey: "k", at: now)
    #expect(reused == .keyReused)
    let second = try await stores.migrations.start(sameGuest, as: migrationID(9), idempotencyKey: "k2", at: now)
    #expect(second == .migrating)
    _ = try await stores.finish(.worker(1))
    let third = try await stores.migrations.start(sameGuest, as: migrationID(9), idempotencyKey: "k2", at: now)
    #expect(third == .migrated)
    let planned = try await stores.migrations.plan(
      guest: MigrationScenario.guest, target: otherGuest, rules: scenario.rules, isFirstLoginOnDevice: true)
    #expect(planned == .migrated)
    await stores.close()
  }

  @Test(
    "R39: a guest's records cannot be changed from the start of the migration on",
    arguments: MigratorEngine.allCases)
  func frozen(engine: MigratorEngine) async throws {
    let folder = try TemporaryFolder()
    let stores = try await engine.openMigrator(in: folder)
    let scenario = MigrationScenario.large(8)
    let guest = MigrationScenario.guest
    let id = try await scenario.start(stores)
    let name = scenario.guestRecords[0].name
    #expect(try await stores.records.put(scenario.accountRecords, of: guest) == .migrating)
    #expect(try await stores.records.delete(name, revision: nil, of: guest) == .migrating)
    #expect(try await stores.records.record(name, of: guest) != nil)
    // The account goes on as before.
    let extra = RecordDraft(
      name: RecordName(collection: try #require(CollectionName("notes")), key: try #require(RecordKey("mine"))),
      content: scenario.guestRecords[0].content)
    #expect(try await stores.records.put([extra], of: MigrationScenario.account) == .done(1))
    _ = try await stores.finish(.worker(1))
    #expect(try await stores.records.put(scenario.accountRecords, of: guest) == .migrated)
    #expect(try await stores.records.delete(name, revision: nil, of: guest) == .migrated)
    #expect(try await stores.records.record(extra.name, of: MigrationScenario.account)?.content == extra.content)
    #expect(try await stores.migrations.migration(id)?.migration.isFinished == true)
    await stores.close()
  }

  @Test("G16: nothing of the guest is deleted while the switch has not happened", arguments: MigratorEngine.allCases)
  func purgeIsLast(engine: MigratorEngine) async throws {
    let folder = try TemporaryFolder()
    let stores = try await engine.openMigrator(in: folder)
    let scenario = MigrationScenario.large(1200)
    _ = try await scenario.start(stores)
    let before = try await stores.records.collections(of: MigrationScenario.guest)
    var migration = try await stores.step(.worker(1), nil)
    while let current = migration, current.action != .switchSubject {
      migration = try await stores.step(.worker(1), current)
      #expect(try await stores.records.collections(of: MigrationScenario.guest) == before)
    }
    #expect(migration?.action == .switchSubject)
    await stores.close()
  }

  // MARK: Conflicts

  @Test(
    "G17: ASK and APPEND lose nothing: what is asked waits for a person, and each policy decides it as it would have",
    arguments: MigratorEngine.allCases)
  func conflicts(engine: MigratorEngine) async throws {
    let ask = try #require(CollectionName("ask"))
    let full = try #require(CollectionName("full"))
    var rules = CollectionRules([ask: CollectionRules.Rule(policy: .ask)])
    rules.rules[full] = CollectionRules.Rule(policy: .newest, maximumRows: 1)
    func draft(_ collection: CollectionName, _ key: String, _ value: String, _ number: Int64, _ time: Int64) throws
      -> RecordDraft
    {
      RecordDraft(
        name: RecordName(collection: collection, key: try #require(RecordKey(key))),
        content: RecordContent(
          value: Array(value.utf8), number: number, updatedAt: Timestamp(millisecondsSinceEpoch: time)))
    }
    let policies = MigrationPolicy.allCases.filter { $0 != .ask }
    let scenario = MigrationScenario(
      guestRecords: try policies.map { try draft(ask, $0.rawValue, "g", 5, 2) } + [
        try draft(full, "a", "g", 0, 1), try draft(full, "b", "g", 0, 2),
      ],
      accountRecords: try policies.map { try draft(ask, $0.rawValue, "a", 3, 1) }, rules: rules)
    let stores = try await engine.openMigrator(in: try TemporaryFolder())
    let id = try await scenario.start(stores)
    let name = scenario.guestRecords[0].name
    let early = try await stores.migrations.resolve(name, of: id, by: .keepSource, revision: nil)
    #expect(early == .notDone)
    _ = try await stores.finish(.worker(1))
    try await scenario.expectOutcome(stores, id)
    // In pages, each once.
    var seen: [MigrationConflict] = []
    while true {
      let page = try await stores.migrations.conflicts(of: id, beyond: seen.last?.name, count: 2, bytes: .max)
      seen += page.conflicts
      if !page.hasMore { break }
    }
    #expect(seen.map(\.name.key.description) == policies.map(\.rawValue).sorted() + ["a"])
    #expect(seen.map(\.reason) == [ConflictReason](repeating: .ask, count: policies.count) + [.noRoom])
    #expect(seen.allSatisfy { ($0.account != nil) == ($0.reason == .ask) })

    for policy in policies {
      let name = RecordName(collection: ask, key: try #require(RecordKey(policy.rawValue)))
      let conflict = try #require(seen.first { $0.name == name })
      let account = try #require(conflict.account)
      let stale = try await stores.migrations.resolve(name, of: id, by: policy, revision: account.revision + 1)
      #expect(stale == .revisionMismatch(current: account.revision))
      let outcome = try await stores.migrations.resolve(name, of: id, by: policy, revision: account.revision)
      #expect(outcome == .resolved)
      let decision = policy.merge(conflict.guest, into: account.content, hasRoom: true)
      let held = try await stores.records.record(name, of: MigrationScenario.account)?.content
      if case .append = decision {
        let key = try #require(name.key.appended(by: id))
        let appended = try await stores.records.record(
          RecordName(collection: ask, key: key), of: MigrationScenario.account)
        #expect(appended?.content == conflict.guest && held == account.content)
      } else {
        #expect(held == decision.content ?? account.content, "\(policy)")
      }
      // Once decided, deciding again changes nothing.
      #expect(try await stores.migrations.resolve(name, of: id, by: policy, revision: nil) == .notFound)
      #expect(try await stores.records.record(name, of: MigrationScenario.account)?.content == held)
    }
    let beyond = RecordName(collection: full, key: try #require(RecordKey("a")))
    #expect(try await stores.migrations.resolve(beyond, of: id, by: .keepSource, revision: nil) == .remains(.noRoom))
    let room = RecordName(collection: full, key: try #require(RecordKey("b")))
    _ = try await stores.records.delete(room, revision: nil, of: MigrationScenario.account)
    #expect(try await stores.migrations.resolve(beyond, of: id, by: .keepSource, revision: nil) == .resolved)
    #expect(try await stores.migrations.conflicts(of: id, beyond: nil, count: 9, bytes: .max).conflicts.isEmpty)

    // What a person decided is taken back with the rest; what the owner deleted stays deleted.
    #expect(try await stores.migrations.undo(id, at: MigrationScenario.now) == .begun)
    #expect(try await stores.migrations.resolve(name, of: id, by: .sum, revision: nil) == .notDone)
    _ = try await stores.finish(.worker(1))
    let account = try await stores.allRecords(of: MigrationScenario.account)
    #expect(account == Dictionary(scenario.accountRecords.map { ($0.name, $0.content) }) { $1 })
    let guest = try await stores.allRecords(of: MigrationScenario.guest)
    #expect(guest == Dictionary(scenario.guestRecords.map { ($0.name, $0.content) }) { $1 })
    await stores.close()
  }

  @Test(
    "G17: a record that APPEND finds no key for is set aside, and one of that name is never overwritten",
    arguments: MigratorEngine.allCases)
  func appendWithoutKey(engine: MigratorEngine) async throws {
    let list = try #require(CollectionName("list"))
    func draft(_ key: String, _ value: String) throws -> RecordDraft {
      RecordDraft(
        name: RecordName(collection: list, key: try #require(RecordKey(key))),
        content: RecordContent(
          value: Array(value.utf8), number: 0, updatedAt: Timestamp(millisecondsSinceEpoch: 1)))
    }
    let (long, taken) = (String(repeating: "k", count: 256), "taken")
    let key = try #require(RecordKey(taken)?.appended(by: MigrationScenario.id)?.description)
    let ownKey = try #require(RecordKey("own")?.appended(by: MigrationScenario.id)?.description)
    let scenario = MigrationScenario(
      guestRecords: [
        try draft(long, "g"), try draft(taken, "g"), try draft("own", "g"), try draft(ownKey, "g2"),
      ],
      accountRecords: [try draft(long, "a"), try draft(taken, "a"), try draft(key, "a2"), try draft("own", "a")],
      rules: CollectionRules([list: CollectionRules.Rule(policy: .append)]))
    let stores = try await engine.openMigrator(in: try TemporaryFolder())
    let id = try await scenario.start(stores)
    _ = try await stores.finish(.worker(1))
    let set = try await stores.migrations.conflicts(of: id, beyond: nil, count: 10, bytes: .max).conflicts
    #expect(set.map(\.reason).allSatisfy { $0 == .noKey })
    let account = try await stores.allRecords(of: MigrationScenario.account)
    for draft in scenario.accountRecords { #expect(account[draft.name] == draft.content) }
    // Each of the guest's is with the account or set aside.
    let texts = account.values.filter { $0.value.first == UInt8(ascii: "g") }.count
    #expect(texts + set.count == 4 && set.count >= 2)
    await stores.close()
  }
}
