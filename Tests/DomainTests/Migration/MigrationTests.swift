import Domain
import Glibc
import LatchkeyModel
import Storage
import TestSupport
import Testing

@Suite("Migrations of guests into accounts")
struct MigrationTests {
  /// Does the next transaction of whichever migration is due. Nil: none is.
  private func step(_ stores: MigratorStores, _ lease: JobLease, _ migration: Migration?) async throws -> Migration? {
    guard let migration else {
      return try await stores.migrations.claim(lease, at: MigrationScenario.now)?.migration
    }
    guard let action = migration.action else { return migration }
    return try await stores.migrations.perform(action, of: migration.id, lease: lease, at: MigrationScenario.now)
  }

  private func finish(_ stores: MigratorStores, _ lease: JobLease) async throws -> Int {
    var migration: Migration?
    var transactions = 0
    repeat {
      migration = try await step(stores, lease, migration)
      transactions += 1
    } while migration?.isFinished == false
    return transactions
  }

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
      _ = try await finish(stores, .worker(1))
      try await scenario.expectOutcome(stores, id, "LATCHKEY_TEST_SEED=\(seed), round \(round)")
      await stores.close()
    }
  }

  @Test(
    "R39: a crash after any transaction of any step, chunks included, changes nothing of the outcome",
    arguments: MigratorEngine.allCases)
  func crashAtEachStep(engine: MigratorEngine) async throws {
    // Three chunks of APPLY, as many of PURGE and one that finds nothing left.
    let scenario = MigrationScenario.large(1200)
    let undisturbed = try TemporaryFolder()
    let stores = try await engine.openMigrator(in: undisturbed)
    let id = try await scenario.start(stores)
    let transactions = try await finish(stores, .worker(1))
    try await scenario.expectOutcome(stores, id)
    await stores.close()
    #expect(transactions >= 9)

    for crash in stride(from: engine.firstCrash, through: transactions, by: engine.crashStride) {
      let folder = try TemporaryFolder()
      var stores = try await engine.openMigrator(in: folder)
      _ = try await scenario.start(stores)
      var migration: Migration?
      for _ in 0..<crash { migration = try await step(stores, .worker(1), migration) }
      // The process is gone with its claim; the file is what it was.
      stores = try await stores.reopened()
      try await stores.migrations.releaseAll()
      if migration?.isFinished != true { _ = try await finish(stores, .worker(2)) }
      try await scenario.expectOutcome(stores, id, "after \(crash) transactions")
      await stores.close()
    }
  }

  @Test("R39: a step that is done again, as after a lost answer, changes nothing", arguments: MigratorEngine.allCases)
  func everyStepTwice(engine: MigratorEngine) async throws {
    let folder = try TemporaryFolder()
    let scenario = MigrationScenario.large(1200)
    let stores = try await engine.openMigrator(in: folder)
    let id = try await scenario.start(stores)
    var migration = try await step(stores, .worker(1), nil)
    var repeats = 0
    while let current = migration, let action = current.action {
      migration = try await stores.migrations.perform(action, of: id, lease: .worker(1), at: MigrationScenario.now)
      // PURGE may be done again: it deletes what is left. Every other step finds that the migration stands elsewhere.
      if action != .purgeRecords {
        let again = try await stores.migrations.perform(action, of: id, lease: .worker(1), at: MigrationScenario.now)
        #expect(again == nil, "\(action)")
        repeats += 1
      }
    }
    #expect(repeats >= 6)
    try await scenario.expectOutcome(stores, id)
    await stores.close()
  }

  @Test(
    "R39: a process that is killed at any moment loses nothing and doubles nothing")
  func killed() async throws {
    let folder = try TemporaryFolder()
    let scenario = MigrationScenario.large(1200)
    let stores = try await MigratorEngine.sqlite.openMigrator(in: folder)
    let id = try await scenario.start(stores)
    await stores.close()
    let path = folder.file("test.db")
    for round in 1...6 {
      await #expect(processExitsWith: .signal(SIGKILL)) {
        [path = path as String, round = round as Int] in
        let stores = try MigratorEngine.openFile(at: path)
        try await stores.migrations.releaseAll()
        let lease = JobLease.worker(UInt8(round))
        let killer = Task.detached {
          // Somewhere within the work of this round, which takes some tens of milliseconds.
          try? await Task.sleep(for: .microseconds(500 * round * round))
          kill(getpid(), SIGKILL)
        }
        var migration = try await stores.migrations.claim(lease, at: MigrationScenario.now)?.migration
        while let current = migration, let action = current.action {
          migration = try await stores.migrations.perform(
            action, of: current.id, lease: lease, at: MigrationScenario.now)
        }
        await killer.value
      }
    }
    let reopened = try await MigratorEngine.sqlite.openMigrator(in: folder)
    try await reopened.migrations.releaseAll()
    if try await reopened.migrations.migration(id)?.migration.isFinished == false {
      _ = try await finish(reopened, .worker(99))
    }
    try await scenario.expectOutcome(reopened, id)
    await reopened.close()
  }

  @Test(
    "R39: two workers that both believe to hold the migration do each step once",
    arguments: MigratorEngine.allCases)
  func twoWorkers(engine: MigratorEngine) async throws {
    let folder = try TemporaryFolder()
    let scenario = MigrationScenario.large(1200)
    let stores = try await engine.openMigrator(in: folder)
    let id = try await scenario.start(stores)
    let moves = try await withThrowingTaskGroup(of: Int.self) { group in
      for worker in 1...2 as ClosedRange<UInt8> {
        group.addTask {
          // A claim that runs out at once: the other one takes over in the middle of everything.
          let lease = JobLease.worker(worker, lasting: .milliseconds(1))
          var moves = 0
          while try await stores.migrations.migration(id)?.migration.isFinished == false {
            guard let claimed = try await stores.migrations.claim(lease, at: MigrationScenario.now) else {
              try await stores.migrations.releaseAll()
              continue
            }
            var migration: Migration? = claimed.migration
            while let current = migration, let action = current.action {
              migration = try await stores.migrations.perform(
                action, of: current.id, lease: lease, at: MigrationScenario.now)
              if migration != nil { moves += 1 }
              // Whoever comes next may have it.
              try await stores.migrations.releaseAll()
            }
          }
          return moves
        }
      }
      return try await group.reduce(0, +)
    }
    // SNAPSHOT, three chunks, VERIFY, SWITCH and at least two chunks of PURGE, each by one of the two.
    #expect(moves >= 8)
    try await scenario.expectOutcome(stores, id)
    await stores.close()
  }

  @Test("a claim keeps others away until it runs out, and is renewed by every step", arguments: MigratorEngine.allCases)
  func leases(engine: MigratorEngine) async throws {
    let folder = try TemporaryFolder()
    let stores = try await engine.openMigrator(in: folder)
    let id = try await MigrationScenario.large(10).start(stores)
    let start = MigrationScenario.now
    let (one, two) = (JobLease.worker(1), JobLease.worker(2))
    #expect(try await stores.migrations.claim(one, at: start)?.migration.id == id)
    #expect(try await stores.migrations.claim(two, at: start + .seconds(29)) == nil)
    #expect(try await stores.migrations.nextDue() == start + .seconds(30))
    #expect(try await stores.migrations.perform(.countRecords, of: id, lease: two, at: start) == nil)
    #expect(try await stores.migrations.perform(.countRecords, of: id, lease: one, at: start + .seconds(29)) != nil)
    #expect(try await stores.migrations.claim(two, at: start + .seconds(31)) == nil)
    let expired = try await stores.migrations.perform(
      .applyRecords(after: nil), of: id, lease: one, at: start + .seconds(60))
    #expect(expired == nil)
    #expect(try await stores.migrations.claim(two, at: start + .seconds(60))?.migration.id == id)
    try await stores.migrations.release(id, lease: two, until: start + .seconds(90))
    #expect(try await stores.migrations.claim(one, at: start + .seconds(89)) == nil)
    #expect(try await stores.migrations.nextDue() == start + .seconds(90))
    #expect(try await stores.migrations.claim(one, at: start + .seconds(90))?.failures == 1)
    await stores.close()
  }

  @Test(
    "M4: a claim that was lost can do nothing more, at any step, and each claim has a higher number than those before",
    arguments: MigratorEngine.allCases)
  func lostClaim(engine: MigratorEngine) async throws {
    let scenario = MigrationScenario.large(1200)
    let stores = try await engine.openMigrator(in: try TemporaryFolder())
    let id = try await scenario.start(stores)
    var now = MigrationScenario.now
    var lost = JobLease.worker(1)
    var claimed = try #require(try await stores.migrations.claim(lost, at: now))
    var epochs = [claimed.epoch]
    var number: UInt8 = 1
    while let action = claimed.migration.action {
      // The worker stands still until its claim has run out, and another one takes over.
      now = now + .seconds(31)
      number += 1
      let held = JobLease.worker(number)
      claimed = try #require(try await stores.migrations.claim(held, at: now))
      epochs.append(claimed.epoch)
      for time in [now, now - .seconds(31)] {
        #expect(try await stores.migrations.perform(action, of: id, lease: lost, at: time) == nil)
        #expect(try await stores.migrations.refuseSwitch(of: id, reason: "no", lease: lost, at: time) == nil)
        #expect(try await stores.migrations.refuseUndo(of: id, reason: "no", lease: lost, at: time) == nil)
        try await stores.migrations.release(id, lease: lost, until: time)
        try await stores.migrations.rest(id, lease: lost, at: time)
      }
      #expect(try await stores.migrations.migration(id)?.migration == claimed.migration)
      let moved = try await stores.migrations.perform(action, of: id, lease: held, at: now)
      claimed = ClaimMigration.Claimed(
        migration: try #require(moved), failures: 0, epoch: claimed.epoch, idempotencyKey: claimed.idempotencyKey)
      lost = held
    }
    #expect(epochs.count >= 9 && epochs == epochs.sorted() && Set(epochs).count == epochs.count)
    await stores.close()
  }

  @Test(
    "M6: a migration that has had its turn stands behind every other one that is due",
    arguments: MigratorEngine.allCases)
  func turns(engine: MigratorEngine) async throws {
    let stores = try await engine.openMigrator(in: try TemporaryFolder())
    let first = try await MigrationScenario.large(10).start(stores)
    let other = SubjectID(from: RandomSource { [UInt8](repeating: 71, count: $0) })
    _ = try await stores.records.put(MigrationScenario.large(4).guestRecords, of: other)
    let plan = try await save(
      stores, MigrationScenario.large(4).rules, number: 70, guest: other,
      target: SubjectID(from: RandomSource { [UInt8](repeating: 72, count: $0) }))
    var now = MigrationScenario.now
    #expect(try await stores.migrations.claim(.worker(1), at: now)?.migration.id == first)
    now = now + .milliseconds(1)
    let second = migrationID(73)
    #expect(try await stores.migrations.start(plan, as: second, idempotencyKey: "k", at: now) == .started(second))
    for turn in 1...6 as ClosedRange<UInt8> {
      now = now + .milliseconds(1)
      try await stores.migrations.rest(turn.isMultiple(of: 2) ? second : first, lease: .worker(turn), at: now)
      let next = try await stores.migrations.claim(.worker(turn + 1), at: now)
      #expect(next?.migration.id == (turn.isMultiple(of: 2) ? first : second) && next?.failures == 0)
    }
    await stores.close()
  }

  /// What no operation does.
  enum Damage: String, CaseIterable, Sendable {
    case none
    case notMerged = "1 records were not merged"
    case foreign = "1 records were merged that the guest does not have"
    case lost = "a refused record was not set aside"
    case counted = "collection-1"
    case outcome = "collection-0: the counts differ"

    /// Each of them in memory, where the rules are the same; elsewhere one that is found by reading and none.
    static var cases: [(MigratorEngine, Damage)] {
      allCases.map { (.memory, $0) } + [.sqlite, .postgresql].flatMap { [($0, .none), ($0, .lost)] }
    }

    func happen(to id: MigrationID, in rows: any MigrationTransaction) async throws(StorageError) {
      let all = try await rows.merged.first(of: id, limit: .max - 1)
      guard let first = all.first, let last = all.last else { return }
      switch self {
      case .none: break
      case .notMerged: try await rows.merged.remove([last.name], of: id)
      case .foreign:
        guard let collection = CollectionName("zzz"), let key = RecordKey("z") else { return }
        let name = RecordName(collection: collection, key: key)
        try await rows.merged.insert([MergedRecord(name: name, outcome: .moved)], of: id)
      case .lost: try await rows.merged.change([MergedRecord(name: last.name, outcome: .asked)], of: id)
      case .counted:
        var reports = try await rows.reports.all(of: id).filter { $0.collection.description == "collection-1" }
        reports[0].count(.moved)
        try await rows.reports.change(reports[0], of: id)
      case .outcome:
        for outcome in [MergeOutcome.moved, .kept] where (outcome == .kept) == first.isWritten {
          try await rows.merged.change([MergedRecord(name: first.name, outcome: outcome)], of: id)
        }
      }
    }
  }

  @Test(
    "M7: VERIFY finds what is missing, foreign or lost in any stretch of the records, and else goes on",
    arguments: Damage.cases)
  func verification(engine: MigratorEngine, damage: Damage) async throws {
    let stores = try await engine.openMigrator(in: try TemporaryFolder())
    let id = try await MigrationScenario.large(10_400).start(stores)
    var migration = try await step(stores, .worker(1), nil)
    while let current = migration, current.action != .verify { migration = try await step(stores, .worker(1), current) }
    try await stores.write { rows throws(StorageError) in try await damage.happen(to: id, in: rows) }
    var stretches = 0
    while migration?.action == .verify {
      migration = try await stores.migrations.perform(.verify, of: id, lease: .worker(1), at: MigrationScenario.now)
      stretches += 1
    }
    if damage == .none { #expect(stretches == 2) }
    switch (migration?.state, damage) {
    case (.switching, .none): break
    case (.undoing(.verify, let reason), _): #expect(reason.hasPrefix(damage.rawValue) && damage != .none)
    default: Issue.record("\(migration as Any)")
    }
    await stores.close()
  }

  @Test(
    "R39: a clock that is set back holds no migration up, be it new, put off or claimed",
    arguments: MigratorEngine.allCases)
  func clockSetBack(engine: MigratorEngine) async throws {
    let stores = try await engine.openMigrator(in: try TemporaryFolder())
    let id = try await MigrationScenario.large(10).start(stores)
    let hourBefore = MigrationScenario.now - .seconds(3600)
    #expect(try await stores.migrations.claim(.worker(1), at: hourBefore)?.migration.id == id)
    #expect(try await stores.migrations.claim(.worker(2), at: hourBefore + .seconds(1)) == nil)
    // Claimed by a worker that is gone, then put off, each before the clock was set back.
    let dayBefore = hourBefore - .seconds(86_400)
    #expect(try await stores.migrations.claim(.worker(2), at: dayBefore)?.migration.id == id)
    try await stores.migrations.release(id, lease: .worker(2), until: dayBefore + .seconds(30))
    #expect(try await stores.migrations.claim(.worker(1), at: dayBefore) == nil)
    #expect(try await stores.migrations.claim(.worker(1), at: dayBefore - .seconds(31))?.migration.id == id)
    await stores.close()
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
      let planID = try await save(stores, scenario.rules, number: UInt8(10 + index))
      _ = try await stores.records.delete(
        scenario.guestRecords[0].name, revision: nil, of: changed)
      _ = try await stores.records.put([scenario.guestRecords[0]], of: changed)
      let outcome = try await stores.migrations.start(planID, as: migrationID(1), idempotencyKey: "k", at: now)
      #expect(outcome == .stale)
    }
    let expired = try await save(stores, scenario.rules, number: 20)
    let late = try await stores.migrations.start(
      expired, as: migrationID(1), idempotencyKey: "k", at: now + .seconds(600))
    #expect(late == .stale)
    // The next plan takes the place of the one before.
    let next = try await save(stores, scenario.rules, number: 21)
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
    let planID = try await save(stores, scenario.rules, number: 10)
    let otherGuest = SubjectID(from: RandomSource { [UInt8](repeating: 77, count: $0) })
    _ = try await stores.records.put(scenario.guestRecords, of: otherGuest)
    let otherPlan = try await save(stores, scenario.rules, number: 11, guest: otherGuest)
    let sameGuest = try await save(stores, scenario.rules, number: 12, target: otherGuest)
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
    _ = try await finish(stores, .worker(1))
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
    _ = try await finish(stores, .worker(1))
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
    var migration = try await step(stores, .worker(1), nil)
    while let current = migration, current.action != .switchSubject {
      migration = try await step(stores, .worker(1), current)
      #expect(try await stores.records.collections(of: MigrationScenario.guest) == before)
    }
    #expect(migration?.action == .switchSubject)
    await stores.close()
  }

  // MARK: Helpers

  /// All of a subject's records.
  private func records(_ stores: MigratorStores, of subject: SubjectID) async throws -> [RecordName: RecordContent] {
    var all: [RecordName: RecordContent] = [:]
    for count in try await stores.records.collections(of: subject) {
      let page = try await stores.records.records(
        in: count.collection, of: subject, beyond: nil, count: .max - 1, bytes: .max)
      #expect(page.records.count == count.count)
      for record in page.records { all[record.name] = record.content }
    }
    return all
  }

  /// Does the next transaction of a migration whose switch identity refuses for good.
  private func refusedStep(
    _ stores: MigratorStores, _ lease: JobLease, _ migration: Migration?
  ) async throws -> Migration? {
    guard let migration, migration.action == .switchSubject else { return try await step(stores, lease, migration) }
    return try await stores.migrations.refuseSwitch(
      of: migration.id, reason: "gone", lease: lease, at: MigrationScenario.now)
  }

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
        migration = try await refusedStep(stores, .worker(1), migration)
        count += 1
      } while migration?.isFinished == false
      transactions = count
      #expect(migration?.state == .failed(.switch, reason: "gone", at: MigrationScenario.now))
      let account = try await records(stores, of: MigrationScenario.account)
      let guest = try await records(stores, of: MigrationScenario.guest)
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
    repeat { migration = try await step(stores, .worker(1), migration) } while migration?.action != .switchSubject
    let changed = [try draft("sum", "mine", 115, 9)] + (try others.map { try draft($0.0, "mine", 10, 9) })
    _ = try await stores.records.put(changed, of: MigrationScenario.account)
    repeat {
      migration = try await refusedStep(stores, .worker(1), migration)
    } while migration?.isFinished == false
    let account = try await records(stores, of: MigrationScenario.account)
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
      migration = try await refusedStep(stores, .worker(1), migration)
    } while migration?.isFinished == false
    #expect(try await stores.migrations.retry(id) == .retried)
    #expect(try await stores.migrations.retry(id) == .notFailed)
    #expect(try await stores.records.put(scenario.guestRecords, of: MigrationScenario.guest) == .migrating)
    _ = try await finish(stores, .worker(1))
    try await scenario.expectOutcome(stores, id)
    await stores.close()

    let others = try await engine.openMigrator(in: try TemporaryFolder())
    let second = try await scenario.start(others)
    migration = nil
    repeat {
      migration = try await refusedStep(others, .worker(1), migration)
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
      _ = try await finish(stores, .worker(1))
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
        migration = try await step(stores, .worker(1), migration)
        count += 1
      } while migration?.isFinished == false
      transactions = count
      #expect(migration?.state == .undone(at: MigrationScenario.now), comment)
      #expect(
        try await records(stores, of: MigrationScenario.account)
          == Dictionary(scenario.accountRecords.map { ($0.name, $0.content) }) { $1 }, comment)
      #expect(
        try await records(stores, of: MigrationScenario.guest)
          == Dictionary(scenario.guestRecords.map { ($0.name, $0.content) }) { $1 }, comment)
      #expect(try await stores.migrations.conflicts(of: id, beyond: nil, count: 10, bytes: 100).conflicts.isEmpty)
      #expect(try await stores.migrations.undo(id, at: MigrationScenario.now) == .already)
      #expect(try await stores.migrations.retry(id) == .notFailed)
      if crash == engine.firstCrash {
        // The same guest again, by another plan.
        let plan = try await save(stores, scenario.rules, number: 50)
        let again = try await stores.migrations.start(
          plan, as: migrationID(51), idempotencyKey: "again", at: MigrationScenario.now)
        #expect(again == .started(migrationID(51)))
        _ = try await finish(stores, .worker(1))
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
    _ = try await finish(stores, .worker(1))
    _ = try await stores.migrations.undo(id, at: MigrationScenario.now)
    var migration = try await step(stores, .worker(1), nil)
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
    let account = try await records(stores, of: MigrationScenario.account)
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
    _ = try await finish(stores, .worker(1))
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
    _ = try await finish(without, .worker(1))
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
    _ = try await finish(stores, .worker(1))
    let held = try await records(stores, of: MigrationScenario.account)
    #expect(try await stores.migrations.forgetUndo(at: now + MigratorStores.undoWindow, limit: 100) == 100)
    // A day earlier: the time for taking back seems to last.
    let earlier = now - .seconds(86_400)
    #expect(try await stores.migrations.undo(id, at: earlier) == .expired)
    while try await stores.migrations.forgetUndo(at: earlier, limit: 1000) > 0 {}
    #expect(try await records(stores, of: MigrationScenario.account) == held)
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
    _ = try await finish(stores, .worker(1))
    // One that only the guest had, and one that both had.
    let changed = [scenario.guestRecords[38], scenario.guestRecords[2]].map { draft in
      var content = draft.content
      content.value = [7]
      return RecordDraft(name: draft.name, content: content)
    }
    _ = try await stores.records.put(changed, of: MigrationScenario.account)
    _ = try await stores.records.delete(scenario.guestRecords[35].name, revision: nil, of: MigrationScenario.account)
    #expect(try await stores.migrations.undo(id, at: now) == .begun)
    _ = try await finish(stores, .worker(1))
    let report = try #require(try await stores.migrations.migration(id))
    #expect(report.migration.state == .undone(at: now))
    // The account had none of the third before either.
    #expect(report.collections.map(\.report.remained).reduce(0, +) == 2)
    #expect(report.collections.allSatisfy { $0.report.remained > 0 })
    let account = try await records(stores, of: MigrationScenario.account)
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
    _ = try await finish(stores, .worker(1))
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
    _ = try await finish(stores, .worker(1))
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
    _ = try await finish(stores, .worker(1))
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
    _ = try await finish(stores, .worker(1))
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
    _ = try await finish(stores, .worker(1))
    let account = try await records(stores, of: MigrationScenario.account)
    #expect(account == Dictionary(scenario.accountRecords.map { ($0.name, $0.content) }) { $1 })
    let guest = try await records(stores, of: MigrationScenario.guest)
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
    _ = try await finish(stores, .worker(1))
    let set = try await stores.migrations.conflicts(of: id, beyond: nil, count: 10, bytes: .max).conflicts
    #expect(set.map(\.reason).allSatisfy { $0 == .noKey })
    let account = try await records(stores, of: MigrationScenario.account)
    for draft in scenario.accountRecords { #expect(account[draft.name] == draft.content) }
    // Each of the guest's is with the account or set aside.
    let texts = account.values.filter { $0.value.first == UInt8(ascii: "g") }.count
    #expect(texts + set.count == 4 && set.count >= 2)
    await stores.close()
  }

  private func save(
    _ stores: MigratorStores,
    _ rules: CollectionRules,
    number: UInt8,
    guest: SubjectID = MigrationScenario.guest,
    target: SubjectID = MigrationScenario.account
  ) async throws -> PlanID {
    let planned = try await stores.migrations.plan(
      guest: guest, target: target, rules: rules, isFirstLoginOnDevice: false)
    guard case .done(let plan) = planned else { throw MigrationScenario.Unexpected("\(planned)") }
    let id = PlanID(from: RandomSource { [UInt8](repeating: number, count: $0) })
    try await stores.migrations.save(
      plan, as: id, digest: [number], at: MigrationScenario.now, expiresAt: MigrationScenario.now + .seconds(600))
    return id
  }
}

private func migrationID(_ number: UInt8) -> MigrationID {
  MigrationID(from: RandomSource { [UInt8](repeating: number, count: $0) })
}
