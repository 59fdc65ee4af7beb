import Domain
import LatchkeyModel
import Storage
import TestSupport
import Testing

/// What many do at once leaves what some order of them, one after the other, would leave: engines that run transactions
/// beside each other have rows locked, in one order, before anything is decided on them.
@Suite("C3: merges, their undoing and writes, forty at once")
struct MergesAtOnceTests {
  private let now = MigrationScenario.now
  private let account = MigrationScenario.account

  @Test(
    "C3: forty merges of different guests into one account and the same keys at once all arrive, once each",
    arguments: MigratorEngine.allCases)
  func merges(engine: MigratorEngine) async throws {
    let stores = try await engine.openMigrator(in: try TemporaryFolder(), connections: 8)
    _ = try await stores.records.put(try drafts(0..<5, number: 1000), of: account)
    var ids: [MigrationID] = []
    for guest in 1...40 as ClosedRange<UInt8> {
      ids.append(try await start(guest, try drafts(0..<20, number: 1), stores))
    }
    try await forty { number in try await drive(stores, worker: number) }
    for id in ids { #expect(try await stores.migrations.migration(id)?.migration.state == .done(at: now)) }
    try await expectNumbers(stores, old: 1040, new: 40)
    var counts: [[MergeOutcome: Int]] = []
    for id in ids {
      counts += try await stores.migrations.migration(id)?.collections.map(\.report.counts) ?? []
    }
    // One of them brought what the account did not have; it is added to for every other.
    var totals: [MergeOutcome: Int] = [:]
    for count in counts { totals.merge(count) { $0 + $1 } }
    #expect(totals == [.moved: 15, .summed: 40 * 20 - 15])
    try await expectTotals(of: account, stores)
    await stores.close()
  }

  @Test(
    "C3: merges that are taken back beside others of the same keys leave what those bring, and all are verified",
    arguments: MigratorEngine.allCases)
  func undoing(engine: MigratorEngine) async throws {
    let stores = try await engine.openMigrator(in: try TemporaryFolder(), connections: 8)
    _ = try await stores.records.put(try drafts(0..<5, number: 1000), of: account)
    var first: [MigrationID] = []
    var second: [MigrationID] = []
    for guest in 1...20 as ClosedRange<UInt8> {
      first.append(try await start(guest, try drafts(0..<20, number: 1), stores))
    }
    try await forty { number in try await drive(stores, worker: number) }
    for guest in 21...40 as ClosedRange<UInt8> {
      second.append(try await start(guest, try drafts(0..<20, number: 100), stores))
    }
    let undone = first
    try await forty { number in
      if number < 20 { #expect(try await stores.migrations.undo(undone[Int(number)], at: now) == .begun) }
      try await drive(stores, worker: number)
    }
    // What came back to the queue after the last worker had looked.
    try await drive(stores, worker: 99)
    for id in first { #expect(try await stores.migrations.migration(id)?.migration.state == .undone(at: now)) }
    for id in second {
      let report = try await stores.migrations.migration(id)
      #expect(report?.migration.state == .done(at: now))
    }
    try await expectNumbers(stores, old: 3000, new: 2000)
    try await expectTotals(of: account, stores)
    for guest in 1...20 as ClosedRange<UInt8> { try await expectTotals(of: subject(guest), stores) }
    await stores.close()
  }

  @Test(
    "C14: of forty that claim one migration one has it; whoever was paused and comes back after its lease writes nothing",
    arguments: MigratorEngine.allCases)
  func claims(engine: MigratorEngine) async throws {
    let stores = try await engine.openMigrator(in: try TemporaryFolder(), connections: 8)
    let id = try await start(1, try drafts(0..<1200, number: 1), stores)
    var time = now
    var lost: [JobLease] = []
    var epochs: [Int64] = []
    for round in 0..<20 as Range<UInt8> where try await stores.migrations.migration(id)?.migration.isFinished == false {
      let at = time
      let claims = try await forty { number in try await stores.migrations.claim(lease(round, number), at: at) }
      let holders = claims.indices.filter { claims[$0] != nil }
      try #require(holders.count == 1)
      let held = try #require(claims[holders[0]])
      epochs.append(held.epoch)
      let action = try #require(held.migration.action)
      let holder = lease(round, UInt8(holders[0]))
      // Those that lost their claims before stopped in the middle of this, with the time of then.
      let paused = lost.isEmpty ? [lease(99, 0)] : lost
      let moves = try await forty { number -> Migration? in
        if number == 20 {
          return try await stores.migrations.perform(action, of: id, lease: holder, at: at)
        }
        return try await stores.migrations.perform(
          action, of: id, lease: paused[Int(number) % paused.count], at: at - .seconds(31))
      }
      #expect(moves.indices.filter { moves[$0] != nil } == [20])
      lost.append(holder)
      time = time + .seconds(31)
    }
    #expect(epochs == Array(1...Int64(epochs.count)) && epochs.count >= 8)
    #expect(try await numbers(stores).count == 1200)
    try await expectTotals(of: account, stores)
    await stores.close()
  }

  @Test(
    "C3: what one subject writes and deletes at once is all there, with its counts, its size and a revision each",
    arguments: MigratorEngine.allCases)
  func writes(engine: MigratorEngine) async throws {
    let stores = try await engine.openMigrator(in: try TemporaryFolder(), connections: 8)
    let guest = subject(9)
    let bounds = RecordBounds(records: .max, bytes: .max, collections: .max, guestTotal: .max)
    try await forty { number in
      let own = try drafts((100 + Int(number) * 10)..<(110 + Int(number) * 10), number: 1)
      // All write these as well, in an order of their own.
      let shared = try drafts(0..<10, number: Int64(number)).shuffled()
      #expect(try await stores.records.put(own + shared, of: guest, within: bounds) == .done(20))
      #expect(try await stores.records.delete(own[3].name, revision: nil, of: guest) == .done(.deleted))
    }
    let summary = try await stores.records.summary(of: guest)
    #expect(summary.version == 40 * 21 && summary.count == 40 * 9 + 10)
    try await expectTotals(of: guest, stores)
    await stores.close()
  }

  @Test(
    "R54: what all guests store is known exactly after forty at once wrote, deleted and became accounts",
    arguments: MigratorEngine.allCases)
  func guestTotal(engine: MigratorEngine) async throws {
    let stores = try await engine.openMigrator(in: try TemporaryFolder(), connections: 8)
    let bounds = RecordBounds(records: .max, bytes: .max, collections: .max, guestTotal: .max)
    try await forty { number in
      let guest = subject(number + 1)
      _ = try await stores.records.put(try drafts(0..<10, number: 1), of: guest, within: bounds)
      _ = try await stores.records.delete(try drafts(0..<1, number: 1)[0].name, revision: nil, of: guest)
      if number < 10 { try await stores.records.domain.perform(NoteAccount(guest)) }
      if (10..<20).contains(number) { _ = try await stores.records.purge(guest, limit: 100) }
    }
    let owner = try await owner(subject(40), stores)
    let cost = RecordBounds.cost(records: owner.records, bytes: owner.bytes)
    #expect(owner.records == 9 && owner.isGuest)
    #expect(try await stores.records.heldByGuests() == 20 * cost)
    await stores.close()
  }

  @Test(
    "C3: forty plans of one guest at once leave one that waits, and forty starts of it start one migration",
    arguments: MigratorEngine.allCases)
  func starts(engine: MigratorEngine) async throws {
    let stores = try await engine.openMigrator(in: try TemporaryFolder(), connections: 8)
    let guest = subject(1)
    _ = try await stores.records.put(try drafts(0..<5, number: 1), of: guest)
    guard
      case .done(let shown) = try await stores.migrations.plan(
        guest: guest, target: account, rules: rules(), isFirstLoginOnDevice: false)
    else { throw MigrationScenario.Unexpected("no plan") }
    try await forty { number in
      try await stores.migrations.save(
        shown, as: id(number + 1), digest: [number], at: now, expiresAt: now + .seconds(600))
    }
    var waiting: [PlanID] = []
    for number in 1...40 as ClosedRange<UInt8> where try await stores.migrations.savedPlan(id(number)) != nil {
      waiting.append(id(number))
    }
    try #require(waiting.count == 1)
    let plan = waiting[0]
    let started = try await forty { number in
      try await stores.migrations.start(plan, as: id(number + 100), idempotencyKey: "k", at: now)
    }
    #expect(Set(started.map { "\($0)" }).count == 1)
    await stores.close()
  }

  @Test(
    "C3: a guest whose records are written while a migration of it starts has either all of them merged, or no migration",
    arguments: MigratorEngine.allCases)
  func writesBesideStart(engine: MigratorEngine) async throws {
    for round in 0..<5 as Range<UInt8> {
      let stores = try await engine.openMigrator(in: try TemporaryFolder(), connections: 8)
      let guest = subject(1)
      _ = try await stores.records.put(try drafts(0..<1, number: 1), of: guest)
      let plan = try await plan(1, of: guest, stores)
      let outcomes = try await forty { number -> String in
        if number == round * 8 {
          return "\(try await stores.migrations.start(plan, as: id(200), idempotencyKey: "k", at: now))"
        }
        let draft = try drafts((10 + Int(number))..<(11 + Int(number)), number: 1)
        return "\(try await stores.records.put(draft, of: guest))"
      }
      let written = outcomes.count { $0 == "\(WriteOutcome<Int>.done(1))" }
      let isStarted = outcomes.contains("\(StartMigration.Outcome.started(id(200)))")
      #expect(isStarted ? written == 0 : outcomes.contains("\(StartMigration.Outcome.stale)"))
      #expect(try await stores.records.summary(of: guest).count == 1 + written)
      if isStarted {
        try await drive(stores, worker: 1)
        #expect(try await numbers(stores).count == 1)
      }
      await stores.close()
    }
  }

  // MARK: Helpers

  @discardableResult
  private func forty<Value: Sendable>(
    _ body: @escaping @Sendable (UInt8) async throws -> Value
  ) async throws -> [Value] {
    try await withThrowingTaskGroup(of: (UInt8, Value).self) { group in
      for number in 0..<40 as Range<UInt8> { group.addTask { (number, try await body(number)) } }
      var values: [(UInt8, Value)] = []
      for try await value in group { values.append(value) }
      return values.sorted { $0.0 < $1.0 }.map(\.1)
    }
  }

  private func id<ID: OpaqueID>(_ number: UInt8) -> ID {
    ID(value: OpaqueIDValue(from: RandomSource { [UInt8](repeating: number, count: $0) }))
  }

  private func lease(_ round: UInt8, _ number: UInt8) -> JobLease {
    let bytes = [round, number] + [UInt8](repeating: 0, count: 14)
    return JobLease(holder: OpaqueIDValue(from: RandomSource { _ in bytes }), duration: .seconds(30))
  }

  /// Some come before the account, and some after it.
  private func subject(_ number: UInt8) -> SubjectID { id(number &* 5) }

  private func rules() throws -> CollectionRules {
    CollectionRules([try #require(CollectionName("cart")): CollectionRules.Rule(policy: .sum)])
  }

  private func drafts(_ keys: Range<Int>, number: Int64) throws -> [RecordDraft] {
    let collection = try #require(CollectionName("cart"))
    return try keys.map { key in
      RecordDraft(
        name: RecordName(collection: collection, key: try #require(RecordKey("\(key)"))),
        content: RecordContent(
          value: [UInt8](repeating: 1, count: 1 + key % 7), number: number,
          updatedAt: Timestamp(millisecondsSinceEpoch: 1)))
    }
  }

  private func plan(_ number: UInt8, of guest: SubjectID, _ stores: MigratorStores) async throws -> PlanID {
    let planned = try await stores.migrations.plan(
      guest: guest, target: account, rules: try rules(), isFirstLoginOnDevice: false)
    guard case .done(let made) = planned else { throw MigrationScenario.Unexpected("\(planned)") }
    try await stores.migrations.save(made, as: id(number), digest: [1], at: now, expiresAt: now + .seconds(600))
    return id(number)
  }

  private func start(_ number: UInt8, _ drafts: [RecordDraft], _ stores: MigratorStores) async throws -> MigrationID {
    let guest = subject(number)
    for start in stride(from: 0, to: drafts.count, by: 1000) {
      _ = try await stores.records.put(Array(drafts[start..<min(start + 1000, drafts.count)]), of: guest)
    }
    let plan = try await plan(number, of: guest, stores)
    let outcome = try await stores.migrations.start(plan, as: id(number), idempotencyKey: "\(number)", at: now)
    guard outcome == .started(id(number)) else { throw MigrationScenario.Unexpected("\(outcome)") }
    return id(number)
  }

  /// As a worker does: whatever is due, to its end.
  private func drive(_ stores: MigratorStores, worker: UInt8) async throws {
    let lease = JobLease.worker(worker)
    while let claimed = try await stores.migrations.claim(lease, at: now)?.migration {
      var migration: Migration? = claimed
      while let current = migration, let action = current.action {
        migration = try await stores.migrations.perform(action, of: current.id, lease: lease, at: now)
      }
    }
  }

  private func numbers(_ stores: MigratorStores) async throws -> [Int: Int64] {
    let page = try await stores.records.records(
      in: try #require(CollectionName("cart")), of: account, beyond: nil, count: 10_000, bytes: .max)
    return try Dictionary(
      uniqueKeysWithValues: page.records.map { (try #require(Int($0.name.key.description)), $0.content.number) })
  }

  /// Of the keys that the account had before, and of those that it had not.
  private func expectNumbers(_ stores: MigratorStores, old: Int64, new: Int64) async throws {
    var expected: [Int: Int64] = [:]
    for key in 0..<20 { expected[key] = key < 5 ? old : new }
    #expect(try await numbers(stores) == expected)
  }

  private func owner(_ subject: SubjectID, _ stores: MigratorStores) async throws -> RecordOwner {
    try #require(try await stores.records.domain.look(FindOwner(id: subject)))
  }

  private struct FindOwner: MigrationOperation {
    static var name: String { "test" }

    let id: SubjectID

    func run(in rows: some MigrationTransaction) async throws(StorageError) -> RecordOwner? {
      try await rows.owners.find(id)
    }
  }

  /// The one row that says how much there is, the counts, and what there is.
  private func expectTotals(of subject: SubjectID, _ stores: MigratorStores) async throws {
    let owner = try await owner(subject, stores)
    let page = try await stores.records.records(
      in: try #require(CollectionName("cart")), of: subject, beyond: nil, count: 10_000, bytes: .max)
    var bytes = 0
    for record in page.records { bytes += record.name.bytes + record.content.value.count }
    #expect(owner.records == page.records.count && owner.bytes == bytes)
    #expect(try await stores.records.summary(of: subject).count == page.records.count)
    #expect(Set(page.records.map(\.revision)).count == page.records.count)
  }
}
