import Domain
import LatchkeyModel
import Storage
import TestSupport
import Testing

/// Migrations are driven, refused, begun again, decided about and forgotten at the same moment (C3).
@Suite("C3: migrations that forty drive, decide about and forget stand where one after the other would leave them")
struct MigrationsAtOnceTests {
  private let now = MigrationScenario.now
  private let account = MigrationScenario.account

  @Test(
    "C3: what workers claim, give back and take from each other is done once, and each claim is counted",
    arguments: MigratorEngine.allCases)
  func claims(engine: MigratorEngine) async throws {
    let stores = try await engine.openMigrator(in: try TemporaryFolder(), connections: 8)
    var ids: [MigrationID] = []
    for guest in 1...8 as ClosedRange<UInt8> { ids.append(try await start(guest, keys: 30, stores)) }
    let claims = try await forty { number -> [MigrationID] in
      var claimed: [MigrationID] = []
      for turn in 0..<UInt8.max {
        if number == 20 { try await stores.migrations.releaseAll() }
        let lease = lease(number, turn)
        guard let migration = try await stores.migrations.claim(lease, at: now)?.migration else { break }
        claimed.append(migration.id)
        if let action = migration.action {
          _ = try await stores.migrations.perform(action, of: migration.id, lease: lease, at: now)
        }
        if turn % 2 == 0 {
          try await stores.migrations.rest(migration.id, lease: lease, at: now)
        } else {
          try await stores.migrations.release(migration.id, lease: lease, until: now)
        }
      }
      return claimed
    }
    let last = try await drive(stores, worker: 99)
    for id in ids {
      let report = try #require(try await stores.migrations.migration(id))
      let counted = (claims + [last]).flatMap { $0 }.filter { $0 == id }.count
      #expect(report.migration.state == .done(at: now) && report.hindrance == nil)
      #expect(report.epoch == Int64(counted))
    }
    let numbers = try await held(by: account, stores)
    #expect(numbers == expected(keys: 30, 8))
    await stores.close()
  }

  @Test(
    "C3: a switch is made or refused; what failed is begun again before its guest writes, or not at all",
    arguments: MigratorEngine.allCases)
  func refusals(engine: MigratorEngine) async throws {
    for round in 0..<3 as Range<UInt8> {
      let stores = try await engine.openMigrator(in: try TemporaryFolder(), connections: 8)
      let id = try await start(1, keys: 5, stores)
      let lease = JobLease.worker(1)
      var migration = try await stores.migrations.claim(lease, at: now)?.migration
      while let action = migration?.action, action != .switchSubject {
        migration = try await stores.migrations.perform(action, of: id, lease: lease, at: now)
      }
      let moves = try await forty { number -> Migration? in
        if (number + round) % 2 == 0 {
          return try await stores.migrations.refuseSwitch(of: id, reason: "gone", lease: lease, at: now)
        }
        return try await stores.migrations.perform(.switchSubject, of: id, lease: lease, at: now)
      }.compactMap { $0 }
      try #require(moves.count == 1)
      try await finish(moves[0], lease, stores)
      if case .purging = moves[0].state {
        let numbers = try await held(by: account, stores)
        #expect(numbers == expected(keys: 5, 1))
      } else {
        try await retry(id, beside: round, stores)
      }
      await stores.close()
    }
  }

  /// Begins it again while its guest writes.
  private func retry(_ id: MigrationID, beside round: UInt8, _ stores: MigratorStores) async throws {
    let outcomes = try await forty { number -> (isRetried: Bool, isWritten: Bool) in
      if number % 2 == round % 2 { return (try await stores.migrations.retry(id) == .retried, false) }
      let drafts = try drafts((100 + Int(number))..<(101 + Int(number)))
      return (false, try await stores.records.put(drafts, of: subject(1)) == .done(1))
    }
    let written = outcomes.filter { $0.isWritten }.count
    let isRetried = outcomes.contains { $0.isRetried }
    #expect(outcomes.filter { $0.isRetried }.count <= 1)
    #expect(written == (isRetried ? 0 : 20))
    _ = try await drive(stores, worker: 99)
    let numbers = try await held(by: account, stores)
    let left = try await held(by: subject(1), stores)
    #expect(numbers == (isRetried ? expected(keys: 5, 1) : [:]))
    #expect(left.count == (isRetried ? 0 : 25))
  }

  @Test("C3: what is taken back comes back, or stays when identity refuses", arguments: MigratorEngine.allCases)
  func recalls(engine: MigratorEngine) async throws {
    let stores = try await engine.openMigrator(in: try TemporaryFolder(), connections: 8)
    let lease = JobLease.worker(1)
    var kept: Int64 = 0
    for round in 0..<3 as Range<UInt8> {
      let guest = round + 1
      let id = try await start(guest, keys: 5, stores)
      _ = try await drive(stores, worker: 2)
      let asked = try await stores.migrations.undo(id, at: now)
      let claimed = try await stores.migrations.claim(lease, at: now)?.migration
      try #require(asked == .begun && claimed?.action == .recallSubject)
      let moves = try await forty { number -> Migration? in
        if (number + round) % 2 == 0 {
          return try await stores.migrations.refuseUndo(of: id, reason: "gone", lease: lease, at: now)
        }
        return try await stores.migrations.perform(.recallSubject, of: id, lease: lease, at: now)
      }.compactMap { $0 }
      try #require(moves.count == 1)
      try await finish(moves[0], lease, stores)
      let isKept = moves[0].isFinished
      kept += isKept ? 1 : 0
      let own = try await held(by: subject(guest), stores)
      let numbers = try await held(by: account, stores)
      #expect(own == (isKept ? [:] : expected(keys: 5, 1)))
      #expect(numbers == (kept > 0 ? expected(keys: 5, kept) : [:]))
    }
    await stores.close()
  }

  @Test(
    "C3: each conflict is decided once, whoever deletes the record meanwhile, and is taken back with its merge",
    arguments: MigratorEngine.allCases)
  func conflicts(engine: MigratorEngine) async throws {
    let stores = try await engine.openMigrator(in: try TemporaryFolder(), connections: 8)
    _ = try await stores.records.put(try drafts(0..<10, number: 1000), of: account)
    let names = try drafts(0..<10).map(\.name)
    @Sendable func resolve(_ number: UInt8, of id: MigrationID) async throws -> ResolveConflict.Outcome {
      try await stores.migrations.resolve(names[Int(number) % 10], of: id, by: .sum, revision: nil)
    }
    let first = try await start(1, keys: 10, by: .ask, stores)
    _ = try await drive(stores, worker: 1)
    let decided = try await forty { number in try await resolve(number, of: first) }
    #expect(decided.filter { $0 == .resolved }.count == 10 && decided.filter { $0 == .notFound }.count == 30)
    var numbers = try await held(by: account, stores)
    #expect(numbers == expected(keys: 10, 1001))

    let second = try await start(2, keys: 10, by: .ask, stores)
    _ = try await drive(stores, worker: 2)
    _ = try await forty { number -> Void in
      if number == 20 {
        _ = try await stores.migrations.undo(second, at: now)
      } else {
        _ = try await resolve(number, of: second)
      }
    }
    _ = try await drive(stores, worker: 3)
    numbers = try await held(by: account, stores)
    let back = try await held(by: subject(2), stores)
    let state = try await stores.migrations.migration(second)?.migration.state
    #expect(state == .undone(at: now))
    #expect(numbers == expected(keys: 10, 1001) && back == expected(keys: 10, 1))

    let third = try await start(3, keys: 10, by: .ask, stores)
    _ = try await drive(stores, worker: 4)
    _ = try await forty { number -> Void in
      if number < 20 {
        _ = try await stores.records.delete(names[Int(number) % 10], revision: nil, of: account)
      } else {
        _ = try await resolve(number, of: third)
      }
    }
    numbers = try await held(by: account, stores)
    let count = try await stores.records.summary(of: account).count
    #expect(numbers.values.allSatisfy { $0 == 1 } && count == numbers.count)
    await stores.close()
  }

  @Test(
    "C3: a merge is taken back as a whole, or what that needs is forgotten, whichever comes first",
    arguments: MigratorEngine.allCases)
  func forgetting(engine: MigratorEngine) async throws {
    let stores = try await engine.openMigrator(in: try TemporaryFolder(), connections: 8)
    let over = now + MigratorStores.undoWindow
    var kept: Int64 = 0
    for round in 0..<4 as Range<UInt8> {
      let guest = round + 1
      let id = try await start(guest, keys: 20, stores)
      _ = try await drive(stores, worker: guest)
      let outcomes = try await forty { number -> UndoMigration.Outcome? in
        if (number + round) % 4 == 0 { return try await stores.migrations.undo(id, at: now) }
        _ = try await stores.migrations.forgetUndo(at: over, limit: 3)
        return nil
      }.compactMap { $0 }
      _ = try await drive(stores, worker: 100 + guest)
      while try await stores.migrations.forgetUndo(at: over, limit: 100) > 0 {}
      let isBegun = outcomes.contains(.begun)
      kept += isBegun ? 0 : 1
      let later = outcomes.filter { $0 == (isBegun ? UndoMigration.Outcome.already : .expired) }.count
      let end: Migration.State = isBegun ? .undone(at: now) : .done(at: now)
      let state = try await stores.migrations.migration(id)?.migration.state
      let own = try await held(by: subject(guest), stores)
      let numbers = try await held(by: account, stores)
      #expect(later == (isBegun ? 9 : 10) && state == end)
      #expect(own == (isBegun ? expected(keys: 20, 1) : [:]))
      #expect(numbers == (kept > 0 ? expected(keys: 20, kept) : [:]))
    }
    await stores.close()
  }

  @Test(
    "C3: of a subject that is purged nothing is left, whatever it writes or begins meanwhile",
    arguments: MigratorEngine.allCases)
  func purges(engine: MigratorEngine) async throws {
    let stores = try await engine.openMigrator(in: try TemporaryFolder(), connections: 8)
    let bounds = RecordBounds(records: .max, bytes: .max, collections: .max, guestTotal: .max)
    let guest = subject(1)
    let outcomes = try await forty { number -> (written: Int, purged: Int) in
      if number % 8 == 0 { try await stores.records.domain.perform(NoteAccount(guest)) }
      if number % 8 == 7 {
        guard case .done(let purged) = try await stores.records.purge(guest, limit: 3) else { return (0, 0) }
        return (0, purged.count)
      }
      let drafts = try drafts(Int(number)..<(Int(number) + 1))
      let isWritten = try await stores.records.put(drafts, of: guest, within: bounds) == .done(1)
      return (isWritten ? 1 : 0, 0)
    }
    var purged = outcomes.reduce(0) { $0 + $1.purged }
    while case .done(let more) = try await stores.records.purge(guest, limit: 3) {
      purged += more.count
      if more.isLast { break }
    }
    let late = try await stores.records.put(try drafts(0..<1), of: guest, within: bounds)
    let left = try await stores.records.summary(of: guest).count
    let held = try await stores.records.heldByGuests()
    #expect(purged == outcomes.reduce(0) { $0 + $1.written })
    #expect(late == .deleted && left == 0 && held == 0)

    for round in 0..<4 as Range<UInt8> {
      let guest = round + 2
      let plan = try await plan(guest, keys: 5, by: .sum, stores)
      let refused = try await forty { number -> Bool in
        if (number + round) % 2 == 0 { return try await stores.records.purge(subject(guest), limit: 9) == .migrating }
        let outcome = try await stores.migrations.start(
          plan, as: id(40 + round * 40 + number), idempotencyKey: "\(guest)", at: now)
        return outcome == .stale
      }
      // Either all who start it are too late, or all who purge.
      #expect(refused.filter { $0 }.count == 20)
      let places = Set(refused.indices.filter { refused[$0] }.map { $0 % 2 })
      #expect(places.count == 1)
      _ = try await drive(stores, worker: guest)
    }
    await stores.close()
  }

  // MARK: Helpers

  /// What each answers, in the order of their numbers.
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

  private func subject(_ number: UInt8) -> SubjectID { id(number * 10) }

  private func lease(_ number: UInt8, _ turn: UInt8) -> JobLease {
    let bytes = [number, turn] + [UInt8](repeating: 0, count: 14)
    return JobLease(holder: OpaqueIDValue(from: RandomSource { _ in bytes }), duration: .seconds(30))
  }

  private func drafts(_ keys: Range<Int>, number: Int64 = 1) throws -> [RecordDraft] {
    let collection = try #require(CollectionName("cart"))
    return try keys.map { key in
      RecordDraft(
        name: RecordName(collection: collection, key: try #require(RecordKey("\(key)"))),
        content: RecordContent(value: [1], number: number, updatedAt: Timestamp(millisecondsSinceEpoch: 1)))
    }
  }

  private func plan(
    _ number: UInt8, keys: Int, by policy: MigrationPolicy, _ stores: MigratorStores
  ) async throws -> PlanID {
    let guest = subject(number)
    _ = try await stores.records.put(try drafts(0..<keys), of: guest)
    let rules = CollectionRules([try #require(CollectionName("cart")): CollectionRules.Rule(policy: policy)])
    let planned = try await stores.migrations.plan(
      guest: guest, target: account, rules: rules, isFirstLoginOnDevice: false)
    guard case .done(let made) = planned else { throw MigrationScenario.Unexpected("\(planned)") }
    try await stores.migrations.save(made, as: id(number), digest: [1], at: now, expiresAt: now + .seconds(600))
    return id(number)
  }

  private func start(
    _ number: UInt8, keys: Int, by policy: MigrationPolicy = .sum, _ stores: MigratorStores
  ) async throws -> MigrationID {
    let plan = try await plan(number, keys: keys, by: policy, stores)
    let outcome = try await stores.migrations.start(plan, as: id(number), idempotencyKey: "\(number)", at: now)
    guard outcome == .started(id(number)) else { throw MigrationScenario.Unexpected("\(outcome)") }
    return id(number)
  }

  /// As a worker does: whatever is due, to its end. Says what it claimed.
  private func drive(_ stores: MigratorStores, worker: UInt8) async throws -> [MigrationID] {
    let lease = JobLease.worker(worker)
    var claimed: [MigrationID] = []
    while let migration = try await stores.migrations.claim(lease, at: now)?.migration {
      claimed.append(migration.id)
      try await finish(migration, lease, stores)
    }
    return claimed
  }

  private func finish(_ migration: Migration, _ lease: JobLease, _ stores: MigratorStores) async throws {
    var migration: Migration? = migration
    while let current = migration, let action = current.action {
      migration = try await stores.migrations.perform(action, of: current.id, lease: lease, at: now)
    }
  }

  private func held(by subject: SubjectID, _ stores: MigratorStores) async throws -> [Int: Int64] {
    let page = try await stores.records.records(
      in: try #require(CollectionName("cart")), of: subject, beyond: nil, count: 10_000, bytes: .max)
    return try Dictionary(
      uniqueKeysWithValues: page.records.map { (try #require(Int($0.name.key.description)), $0.content.number) })
  }

  private func expected(keys: Int, _ number: Int64) -> [Int: Int64] {
    Dictionary(uniqueKeysWithValues: (0..<keys).map { ($0, number) })
  }
}
