import Domain
import LatchkeyModel
import Storage
import TestSupport
import Testing

@Suite("Merges of one account beside each other: what is kept for taking them back, and what that changes")
struct MergesBesideUndoTests {
  private let now = MigrationScenario.now
  private let account = MigrationScenario.account

  // MARK: VERIFY beside an undo

  @Test(
    "R39: a merge beneath one that is verified is taken back: what is true then is verified, and told",
    arguments: MigratorEngine.allCases)
  func undoneBeneath(engine: MigratorEngine) async throws {
    let stores = try await engine.openMigrator(in: try TemporaryFolder())
    let rules = try rules(.keepSource)
    let first = try await merge([try draft("a", 1)], rules, number: 10, in: stores)
    let second = try await merge([try draft("a", 2)], rules, number: 20, in: stores, until: .verify)
    try await takeBack(first, in: stores)
    try await finish(second, in: stores)
    let report = try #require(try await stores.migrations.migration(second))
    #expect(report.migration.state == .done(at: now))
    #expect(report.collections.map(\.report.counts) == [[.moved: 1]])
    await stores.close()
  }

  @Test(
    "R39: a record that no longer goes into the account, because a merge beneath was taken back, is set aside and counted",
    arguments: MigratorEngine.allCases)
  func unfitBeneath(engine: MigratorEngine) async throws {
    let stores = try await engine.openMigrator(in: try TemporaryFolder())
    let rules = try rules(.sum)
    _ = try await stores.records.put([try draft("a", 3)], of: account)
    let first = try await merge([try draft("a", -4)], rules, number: 10, in: stores)
    let second = try await merge(
      [try draft("a", .max), try draft("b", 1)], rules, number: 20, in: stores, until: .verify)
    try await takeBack(first, in: stores)
    try await finish(second, in: stores)
    let report = try #require(try await stores.migrations.migration(second))
    #expect(report.migration.state == .done(at: now))
    #expect(report.collections.map(\.report.counts) == [[.moved: 1, .refused: 1]])
    let waiting = try await stores.migrations.conflicts(of: second, beyond: nil, count: 9, bytes: .max).conflicts
    #expect(waiting.map(\.reason) == [.overflow])
    await stores.close()
  }

  @Test(
    "M7: a large guest whose records are checked in stretches is checked anew when a merge beneath is taken back",
    arguments: MigratorEngine.allCases)
  func undoneBetweenStretches(engine: MigratorEngine) async throws {
    let stores = try await engine.openMigrator(in: try TemporaryFolder())
    let rules = try rules(.keepSource)
    let first = try await merge([try draft("00001", 1)], rules, number: 10, in: stores)
    let many = try (0..<10_400).map { try draft(String("0000\($0)".suffix(5)), 2) }
    let second = try await merge(many, rules, number: 20, in: stores, until: .verify)
    let lease = JobLease.worker(20)
    let between = try await stores.migrations.perform(.verify, of: second, lease: lease, at: now)
    #expect(between?.action == .verify)
    try await takeBack(first, in: stores)
    try await finish(second, in: stores)
    #expect(try await stores.migrations.migration(second)?.migration.state == .done(at: now))
    await stores.close()
  }

  // MARK: What is kept

  @Test(
    "R39: an account for whose owner too many records wait takes no more guests until some are decided",
    arguments: MigratorEngine.allCases)
  func undecided(engine: MigratorEngine) async throws {
    let stores = try await engine.openMigrator(in: try TemporaryFolder())
    let rules = try rules(.ask)
    _ = try await stores.records.put([try draft("a", 1), try draft("b", 1)], of: account)
    let merge = try await merge([try draft("a", 2), try draft("b", 2)], rules, number: 10, in: stores)
    let guest = id(90) as SubjectID
    _ = try await stores.records.put([try draft("a", 3)], of: guest)
    func plan(most: Int) async throws -> WriteOutcome<MigrationPlan> {
      try await stores.migrations.domain.look(
        PlanMigration(
          guest: guest, target: account, rules: rules, isFirstLoginOnDevice: false, setAsideRecords: most))
    }
    #expect(try await plan(most: 2) == .tooManyConflicts)
    guard case .done(let planned) = try await plan(most: 3) else {
      Issue.record("two records are fewer than three")
      return
    }
    // One that was planned before is not started either.
    let (id, digest): (PlanID, [UInt8]) = (self.id(91), [1])
    try await stores.migrations.save(planned, as: id, digest: digest, at: now, expiresAt: now + .seconds(60))
    func start(most: Int) async throws -> StartMigration.Outcome {
      try await stores.migrations.domain.perform(
        StartMigration(id, as: self.id(92), idempotencyKey: "key", at: now, setAsideRecords: most))
    }
    #expect(try await start(most: 2) == .stale)
    let name = try #require(
      try await stores.migrations.conflicts(of: merge, beyond: nil, count: 1, bytes: .max).conflicts.first?.name)
    _ = try await stores.migrations.domain.perform(
      ResolveConflict(name, of: merge, by: .keepTarget, revision: nil))
    guard case .done = try await plan(most: 2) else {
      Issue.record("one record is fewer than two")
      return
    }
    await stores.close()
  }

  @Test(
    "R39: what merges into one account keep for taking them back is bounded: the first that were done stay for good",
    arguments: MigratorEngine.allCases)
  func bounded(engine: MigratorEngine) async throws {
    // Of a record in `list` with a key of one letter, what became of it and what the guest had: 2 × 261, and its value.
    let stores = try await engine.openMigrator(in: try TemporaryFolder(), undoBytes: 3 * (522 + 1000))
    let rules = try rules(.keepSource)
    var merges: [MigrationID] = []
    for number in 1...4 as ClosedRange<UInt8> {
      merges.append(
        try await merge(
          [try draft(String(UnicodeScalar(96 + number)), 1, bytes: 1000)], rules, number: number * 10, in: stores))
      let undoable = try await undoable(merges, in: stores)
      #expect(undoable == Array(merges.suffix(3)))
    }
    #expect(try await stores.migrations.undo(merges[0], at: now) == .expired)
    // Its rows go, though its time is not over: what became of the record, the record, and the mark.
    #expect(try await stores.migrations.forgetUndo(at: now, limit: 100) == 3)
    #expect(try await stores.migrations.forgetUndo(at: now, limit: 100) == 0)
    // Nothing of the data is lost, and the rest is taken back as before.
    try await takeBack(merges[2], in: stores)
    #expect(try await numbers(in: stores) == ["a": 1, "b": 1, "d": 1])
    // One that alone is beyond the bound is the only one left.
    merges.append(try await merge([try draft("e", 1, bytes: 9000)], rules, number: 90, in: stores))
    #expect(try await undoable(merges, in: stores) == [merges[4]])
    try await takeBack(merges[4], in: stores)
    await stores.close()
  }

  @Test(
    "R39: what a merge keeps is counted also when another that was taken back left it there, or a person decided so",
    arguments: MigratorEngine.allCases)
  func keptByOthers(engine: MigratorEngine) async throws {
    let stores = try await engine.openMigrator(in: try TemporaryFolder(), undoBytes: 6000)
    let rules = try rules(.keepSource)
    _ = try await stores.records.put([try draft("a", 1, bytes: 5000)], of: account)
    let first = try await merge([try draft("a", 2)], rules, number: 10, in: stores)
    let second = try await merge([try draft("a", 3)], rules, number: 20, in: stores)
    #expect(try await undoable([first, second], in: stores) == [second], "5000 and twice 523, and as much again")

    let others = try await engine.openMigrator(in: try TemporaryFolder(), undoBytes: 7000)
    _ = try await others.records.put([try draft("a", 1, bytes: 5000)], of: account)
    let beneath = try await merge([try draft("a", 2)], rules, number: 10, in: others)
    let above = try await merge([try draft("a", 3)], rules, number: 20, in: others)
    try await takeBack(beneath, in: others)
    // What the account had is now kept by the merge above.
    let third = try await merge([try draft("b", 3, bytes: 1000)], rules, number: 30, in: others)
    #expect(try await undoable([above, third], in: others) == [third])

    let asking = try await engine.openMigrator(in: try TemporaryFolder())
    _ = try await asking.records.put([try draft("a", 1, bytes: 5000)], of: account)
    let asked = try await merge([try draft("a", 2)], try self.rules(.ask), number: 10, in: asking)
    let resolution = ResolveConflict(try draft("a", 0).name, of: asked, by: .keepSource, revision: nil, undoBytes: 5000)
    #expect(try await asking.records.domain.perform(resolution) == .resolved)
    #expect(try await undoable([asked], in: asking) == [])
    for stores in [stores, others, asking] { await stores.close() }
  }

  // MARK: Helpers

  private func rules(_ policy: MigrationPolicy) throws -> CollectionRules {
    CollectionRules([try #require(CollectionName("list")): CollectionRules.Rule(policy: policy)])
  }

  private func draft(_ key: String, _ number: Int64, bytes: Int = 1) throws -> RecordDraft {
    RecordDraft(
      name: RecordName(collection: try #require(CollectionName("list")), key: try #require(RecordKey(key))),
      content: RecordContent(
        value: [UInt8](repeating: 1, count: bytes), number: number, updatedAt: Timestamp(millisecondsSinceEpoch: 1)))
  }

  private func id<ID: OpaqueID>(_ number: UInt8) -> ID {
    ID(value: OpaqueIDValue(from: RandomSource { [UInt8](repeating: number, count: $0) }))
  }

  /// Merges a new guest with these records, until it is done or stands before `end`.
  private func merge(
    _ drafts: [RecordDraft], _ rules: CollectionRules, number: UInt8, in stores: MigratorStores,
    until end: Migration.Action? = nil
  ) async throws -> MigrationID {
    let (guest, plan, migration): (SubjectID, PlanID, MigrationID) = (id(number), id(number + 1), id(number + 2))
    for start in stride(from: 0, to: drafts.count, by: 1000) {
      _ = try await stores.records.put(Array(drafts[start..<min(start + 1000, drafts.count)]), of: guest)
    }
    let planned = try await stores.migrations.plan(
      guest: guest, target: account, rules: rules, isFirstLoginOnDevice: false)
    guard case .done(let made) = planned else { throw MigrationScenario.Unexpected("\(planned)") }
    try await stores.migrations.save(made, as: plan, digest: [1], at: now, expiresAt: now + .seconds(600))
    let started = try await stores.migrations.start(plan, as: migration, idempotencyKey: "\(number)", at: now)
    guard started == .started(migration) else { throw MigrationScenario.Unexpected("\(started)") }
    let lease = JobLease.worker(number)
    var current = try await stores.migrations.claim(lease, at: now)?.migration
    #expect(current?.id == migration)
    while let action = current?.action, action != end {
      current = try await stores.migrations.perform(action, of: migration, lease: lease, at: now)
    }
    return migration
  }

  private func finish(_ id: MigrationID, in stores: MigratorStores) async throws {
    let lease = JobLease.worker(id.bytes[0] - 2)
    var current = try await stores.migrations.migration(id)?.migration
    while let action = current?.action {
      current = try await stores.migrations.perform(action, of: id, lease: lease, at: now)
    }
    #expect(current?.isFinished == true)
  }

  private func takeBack(_ id: MigrationID, in stores: MigratorStores) async throws {
    #expect(try await stores.migrations.undo(id, at: now) == .begun)
    let lease = JobLease.worker(id.bytes[0] - 2)
    #expect(try await stores.migrations.claim(lease, at: now)?.migration.id == id)
    try await finish(id, in: stores)
    #expect(try await stores.migrations.migration(id)?.migration.state == .undone(at: now))
  }

  private func undoable(_ ids: [MigrationID], in stores: MigratorStores) async throws -> [MigrationID] {
    var undoable: [MigrationID] = []
    for id in ids {
      let migration = try await stores.migrations.migration(id)?.migration
      if case .done = migration?.state, migration?.undoUntil != nil { undoable.append(id) }
    }
    return undoable
  }

  private func numbers(in stores: MigratorStores) async throws -> [String: Int64] {
    let page = try await stores.records.records(
      in: try #require(CollectionName("list")), of: account, beyond: nil, count: 100, bytes: .max)
    return Dictionary(uniqueKeysWithValues: page.records.map { ($0.name.key.description, $0.content.number) })
  }
}
