import Domain
import Glibc
import LatchkeyModel
import Storage
import TestSupport
import Testing

@Suite("Migrations that are cut off, claimed by others or damaged")
struct CutOffMigrationTests {
  @Test(
    "R39: a crash after any transaction of any step, chunks included, changes nothing of the outcome",
    arguments: MigratorEngine.allCases)
  func crashAtEachStep(engine: MigratorEngine) async throws {
    // Three chunks of APPLY, as many of PURGE and one that finds nothing left.
    let scenario = MigrationScenario.large(1200)
    let undisturbed = try TemporaryFolder()
    let stores = try await engine.openMigrator(in: undisturbed)
    let id = try await scenario.start(stores)
    let transactions = try await stores.finish(.worker(1))
    try await scenario.expectOutcome(stores, id)
    await stores.close()
    #expect(transactions >= 9)

    for crash in stride(from: engine.firstCrash, through: transactions, by: engine.crashStride) {
      let folder = try TemporaryFolder()
      var stores = try await engine.openMigrator(in: folder)
      _ = try await scenario.start(stores)
      var migration: Migration?
      for _ in 0..<crash { migration = try await stores.step(.worker(1), migration) }
      // The process is gone with its claim; the file is what it was.
      stores = try await stores.reopened()
      try await stores.migrations.releaseAll()
      if migration?.isFinished != true { _ = try await stores.finish(.worker(2)) }
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
    var migration = try await stores.step(.worker(1), nil)
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
      _ = try await reopened.finish(.worker(99))
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
    let plan = try await stores.save(
      MigrationScenario.large(4).rules, number: 70, guest: other,
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
    var migration = try await stores.step(.worker(1), nil)
    while let current = migration, current.action != .verify { migration = try await stores.step(.worker(1), current) }
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
}
