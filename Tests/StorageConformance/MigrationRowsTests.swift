import LatchkeyModel
import Storage
import Testing

@Suite("C20: plans and migrations are the same rows in every engine")
struct MigrationRowsTests {
  private let now = Sample.now

  // MARK: Plans

  @Test("C20: a plan is found with its rules as it was inserted, until it is removed", arguments: Engine.allCases)
  func plans(_ engine: Engine) async throws {
    let store = try await MigrationStore(engine)
    let (cart, history) = (try Sample.name("a").collection, try Sample.name("a", in: "history").collection)
    let rules: [CollectionName: CollectionRules.Rule] = [
      cart: .init(policy: .sum, maximumRows: 7), history: .init(policy: .ask),
    ]
    let found = try await store.write { rows throws(StorageError) in
      try await rows.plans.insert(Sample.plan(10), rules: rules)
      try await rows.plans.insert(Sample.plan(11, into: 3), rules: [:])
      let kept = (
        try await rows.plans.find(Sample.id(10)), try await rows.plans.lock(Sample.id(11)),
        try await rows.plans.find(Sample.id(12)), try await rows.plans.rules(of: Sample.id(10))
      )
      try await rows.plans.removeRules(of: Sample.id(10))
      return (kept, try await rows.plans.rules(of: Sample.id(10)), try await rows.plans.find(Sample.id(10)))
    }
    #expect(found.0.0 == Sample.plan(10) && found.0.1 == Sample.plan(11, into: 3) && found.0.2 == nil)
    #expect(found.0.3 == rules && found.1.isEmpty && found.2 == Sample.plan(10))
  }

  @Test(
    "C20: a guest and a target have one plan that waits; those that were started stay", arguments: Engine.allCases)
  func waitingPlans(_ engine: Engine) async throws {
    let store = try await MigrationStore(engine)
    try await store.write { rows throws(StorageError) in
      try await rows.plans.insert(Sample.plan(10), rules: [:])
      try await rows.plans.changeStarted(Sample.id(10))
      try await rows.plans.insert(Sample.plan(11), rules: [:])
      try await rows.plans.insert(Sample.plan(12, into: 3), rules: [:])
      try await rows.plans.insert(Sample.plan(13, of: 5, into: 3), rules: [:])
      try await rows.plans.insert(Sample.plan(14, of: 5, into: 4), rules: [:])
    }
    try await store.expectFailure({ $0.isUniqueViolation }) { rows throws(StorageError) in
      try await rows.plans.insert(Sample.plan(20), rules: [:])
    }
    try await store.expectFailure({ $0.isUniqueViolation }) { rows throws(StorageError) in
      try await rows.plans.insert(Sample.plan(10, of: 77), rules: [:])
    }
    func left() async throws -> [UInt8] {
      var left: [UInt8] = []
      for number in 10...14 as ClosedRange<UInt8> {
        let plan = try await store.read { rows throws(StorageError) in try await rows.plans.find(Sample.id(number)) }
        if plan != nil { left.append(number) }
      }
      return left
    }
    try await store.write { rows throws(StorageError) in
      try await rows.plans.removeWaiting(of: Sample.id(1), into: Sample.id(2))
    }
    #expect(try await left() == [10, 12, 13, 14])
    try await store.write { rows throws(StorageError) in
      try await rows.plans.removeWaiting(of: Sample.id(5), into: nil)
    }
    #expect(try await left() == [10, 12])
  }

  @Test("C20: plans that expired while they waited are removed, the first ones first", arguments: Engine.allCases)
  func expiredPlans(_ engine: Engine) async throws {
    let store = try await MigrationStore(engine)
    let now = now
    let left = try await store.write { rows throws(StorageError) in
      for number in 1...6 as ClosedRange<UInt8> {
        try await rows.plans.insert(
          Sample.plan(number, of: number, expiry: now - .seconds(Int(number))), rules: [:])
      }
      try await rows.plans.changeStarted(Sample.id(5))
      try await rows.plans.removeWaiting(expiredBefore: now - .seconds(2), limit: 2)
      var left: [Int] = []
      for number in 1...6 where try await rows.plans.find(Sample.id(UInt8(number))) != nil { left.append(number) }
      try await rows.plans.removeWaiting(expiredBefore: now - .seconds(2), limit: 9)
      for number in 1...6 where try await rows.plans.find(Sample.id(UInt8(number))) != nil { left.append(number) }
      return left
    }
    #expect(left == [1, 2, 3, 5, 1, 2, 5])
  }

  // MARK: Migrations

  private func states() throws -> [Migration.State] {
    let name = try Sample.name("a")
    let position = RecordPosition(updatedAt: now, key: name.key)
    return [
      .freezing, .counting, .applying(after: nil), .applying(after: Migration.Cursor(after: name)),
      .applying(after: Migration.Cursor(collection: name.collection, position: position)), .verifying, .switching,
      .purging, .done(at: now), .undoing(.verify, reason: "gap"), .telling(.switch, reason: "gone"),
      .failed(.verify, reason: "gap", at: now), .recalling, .restoring, .returning, .undone(at: now),
    ]
  }

  @Test(
    "C20: a migration in any state is found as it was inserted and as it was changed", arguments: Engine.allCases)
  func states(_ engine: Engine) async throws {
    let store = try await MigrationStore(engine)
    let now = now
    for (index, state) in try states().enumerated() {
      let inserted = Sample.migration(
        UInt8(index + 1), of: UInt8(index + 100), key: "\(index)", state: state, undoUntil: now)
      var changed = inserted
      changed.migration = Migration(
        id: inserted.migration.id, guest: inserted.migration.guest, target: inserted.migration.target,
        createdAt: inserted.migration.createdAt, state: .done(at: now + .seconds(1)), done: 8, total: 9,
        undoUntil: nil, undoRefusal: "no")
      changed.runAt = now + .seconds(3)
      (changed.failures, changed.epoch, changed.isForgetting) = (4, 5, true)
      (changed.keptBytes, changed.relaid, changed.hindrance) = (600_000_000_000, 7, "away")
      changed.claim = StoredMigration.Claim(
        holder: OpaqueIDValue(from: RandomSource { [UInt8](repeating: 3, count: $0) }), until: now + .seconds(9))
      let after = changed
      let found = try await store.write { rows throws(StorageError) in
        try await rows.insert(inserted)
        let first = try await rows.migrations.find(inserted.migration.id)
        try await rows.migrations.change(after)
        return [first, try await rows.migrations.lock(inserted.migration.id)]
          + (try await rows.migrations.all([inserted.migration.id, Sample.id(99)]))
      }
      #expect(found == [inserted, after, after])
    }
    #expect(try await store.read { rows throws(StorageError) in try await rows.migrations.all([]) } == [])
    #expect(try await store.read { rows throws(StorageError) in try await rows.migrations.find(Sample.id(99)) } == nil)
  }

  @Test(
    "C20: a plan and a key start one migration, and a guest has one that is not taken back or failed",
    arguments: Engine.allCases)
  func uniqueMigrations(_ engine: Engine) async throws {
    let store = try await MigrationStore(engine)
    let now = now
    let found = try await store.write { rows throws(StorageError) in
      try await rows.insert(Sample.migration(10, state: .failed(.apply, reason: "", at: now)))
      try await rows.insert(Sample.migration(11, key: "l", state: .undone(at: now)))
      try await rows.insert(Sample.migration(12, key: "m"))
      return [
        try await rows.migrations.find(plan: Sample.id(11)), try await rows.migrations.find(plan: Sample.id(13)),
        try await rows.migrations.find(idempotencyKey: "m", into: Sample.id(2)),
        try await rows.migrations.find(idempotencyKey: "m", into: Sample.id(3)),
      ]
    }
    #expect(found == [Sample.id(11), nil, Sample.id(12), nil])
    let refused = [
      // The guest, the key and the id of one that is there.
      Sample.migration(20, key: "n"), Sample.migration(20, of: 7, key: "m"),
    ]
    for migration in refused {
      try await store.expectFailure({ $0.isUniqueViolation }) { rows throws(StorageError) in
        try await rows.insert(migration)
      }
    }
    try await store.expectFailure({ $0.isUniqueViolation }) { rows throws(StorageError) in
      try await rows.migrations.insert(Sample.migration(12, of: 8, key: "o"))
    }
  }

  @Test("C20: migrations into an account are listed newest first, each on one page", arguments: Engine.allCases)
  func list(_ engine: Engine) async throws {
    let store = try await MigrationStore(engine)
    let now = now
    let all = (1...9 as ClosedRange<UInt8>).map {
      Sample.migration($0, of: $0 + 50, key: "\($0)", at: now + .seconds(Int($0) / 3))
    }
    try await store.write { rows throws(StorageError) in
      for migration in all { try await rows.insert(migration) }
      try await rows.insert(Sample.migration(20, of: 90, into: 3))
    }
    var seen: [MigrationID] = []
    var position: MigrationPosition?
    while true {
      let place = position
      let page = try await store.read { rows throws(StorageError) in
        try await rows.migrations.page(into: Sample.id(2), beyond: place, count: 2)
      }
      seen += page.map(\.id)
      guard let last = page.last else { break }
      position = MigrationPosition(createdAt: last.createdAt, id: last.id)
    }
    #expect(seen == all.map(\.migration.id).reversed())
  }

  @Test(
    "M6, C20: what is due for longest is found unless it is finished, held or put off, whatever the clock did",
    arguments: Engine.allCases)
  func due(_ engine: Engine) async throws {
    let store = try await MigrationStore(engine)
    let (now, end) = (now, now + .seconds(60))
    @Sendable func claim(_ time: Timestamp) -> StoredMigration.Claim {
      StoredMigration.Claim(holder: OpaqueIDValue(from: RandomSource { [UInt8](repeating: 3, count: $0) }), until: time)
    }
    let places: [(runAt: Timestamp, claim: StoredMigration.Claim?, state: Migration.State)] = [
      (now - .seconds(9), nil, .done(at: now)),
      (now - .seconds(8), claim(now + .milliseconds(1)), .counting),
      (now - .seconds(7), claim(now), .counting),
      (now, nil, .counting),
      (now + .milliseconds(1), nil, .counting),
      (end, nil, .counting),
      (end + .milliseconds(1), nil, .counting),
      (now - .seconds(1), claim(end + .milliseconds(1)), .counting),
    ]
    let found = try await store.write { rows throws(StorageError) in
      #expect(try await rows.migrations.nextDue() == nil)
      for (index, place) in places.enumerated() {
        var stored = Sample.migration(UInt8(index), of: UInt8(index + 50), key: "\(index)", state: place.state)
        (stored.runAt, stored.claim) = (place.runAt, place.claim)
        try await rows.insert(stored)
      }
      var found: [MigrationID] = []
      #expect(try await rows.migrations.nextDue() == now)
      while var next = try await rows.migrations.lockDue(at: now, unlessBeyond: end) {
        found.append(next.migration.id)
        next.claim = claim(now + .seconds(1))
        try await rows.migrations.change(next)
      }
      #expect(try await rows.migrations.nextDue() == now + .milliseconds(1))
      try await rows.migrations.removeClaims()
      return (found, try await rows.migrations.lockDue(at: now, unlessBeyond: end)?.migration.id)
    }
    #expect(found.0 == [2, 7, 3, 6].map { Sample.id($0) })
    #expect(found.1 == Sample.id(1))
  }

  @Test("C20: an account is a target while a migration into it is under way", arguments: Engine.allCases)
  func target(_ engine: Engine) async throws {
    let store = try await MigrationStore(engine)
    let now = now
    let found = try await store.write { rows throws(StorageError) in
      try await rows.insert(Sample.migration(10, into: 2))
      try await rows.insert(Sample.migration(11, of: 5, into: 3, state: .done(at: now)))
      return [
        try await rows.migrations.isTarget(Sample.id(2)), try await rows.migrations.isTarget(Sample.id(3)),
        try await rows.migrations.isTarget(Sample.id(1)),
      ]
    }
    #expect(found == [true, false, false])
  }

  @Test("C20: what is forgotten is found to the end, then what was over first", arguments: Engine.allCases)
  func forgetting(_ engine: Engine) async throws {
    let store = try await MigrationStore(engine)
    let now = now
    let found = try await store.write { rows throws(StorageError) in
      let ends: [Timestamp?] = [now, now - .seconds(1), now + .milliseconds(1), nil]
      for (index, end) in ends.enumerated() {
        try await rows.insert(
          Sample.migration(
            UInt8(index), of: UInt8(index + 50), into: 2 + UInt8(index % 2), key: "\(index)", state: .done(at: now),
            undoUntil: end))
      }
      try await rows.insert(Sample.migration(9, of: 59, key: "9", state: .recalling, undoUntil: now - .seconds(9)))
      var found: [MigrationID?] = []
      for _ in 0..<2 {
        guard var next = try await rows.migrations.findForgetting(at: now) else { break }
        next.migration.undoForgotten()
        next.isForgetting = true
        try await rows.migrations.change(next)
        found += [next.migration.id, try await rows.migrations.findForgetting(at: now - .seconds(99))?.migration.id]
        next.isForgetting = false
        try await rows.migrations.change(next)
      }
      found.append(try await rows.migrations.findForgetting(at: now)?.migration.id)
      try await rows.migrations.removeUndo(into: Sample.id(2))
      found.append(try await rows.migrations.findForgetting(at: now + .seconds(99))?.migration.id)
      return found
    }
    #expect(found == [Sample.id(1), Sample.id(1), Sample.id(0), Sample.id(0), nil, nil])
  }

  @Test(
    "C20: what can be taken back or is being taken back is listed of one account, the newest that was done first",
    arguments: Engine.allCases)
  func undoable(_ engine: Engine) async throws {
    let store = try await MigrationStore(engine)
    let now = now
    let found = try await store.write { rows throws(StorageError) in
      let states: [(Migration.State, Timestamp?)] = [
        (.done(at: now), now), (.done(at: now + .seconds(2)), now), (.done(at: now), now), (.recalling, now),
        (.done(at: now), nil), (.undone(at: now), now), (.purging, nil),
      ]
      for (index, (state, end)) in states.enumerated() {
        let number = UInt8(index + 1)
        try await rows.insert(
          Sample.migration(number, of: number + 50, key: "\(number)", state: state, undoUntil: end))
      }
      try await rows.insert(Sample.migration(40, of: 90, into: 3, state: .done(at: now), undoUntil: now))
      return try await rows.migrations.undoable(into: Sample.id(2))
    }
    #expect(found.map(\.migration.id) == [Sample.id(4), Sample.id(2), Sample.id(3), Sample.id(1)])
  }

  @Test(
    "C20: of forty that claim at once each gets another migration, and the rest none", arguments: Engine.allCases)
  func fortyClaims(_ engine: Engine) async throws {
    let store = try await MigrationStore(engine)
    let now = now
    try await store.write { rows throws(StorageError) in
      for number in 1...25 as ClosedRange<UInt8> {
        try await rows.insert(Sample.migration(number, of: number + 100, key: "\(number)"))
      }
    }
    let claimed = try await withThrowingTaskGroup(of: MigrationID?.self) { group in
      for _ in 0..<40 {
        group.addTask {
          try await store.write { rows throws(StorageError) in
            guard var next = try await rows.migrations.lockDue(at: now, unlessBeyond: now + .seconds(60)) else {
              return nil
            }
            next.claim = StoredMigration.Claim(holder: next.migration.id.value, until: now + .seconds(30))
            try await rows.migrations.change(next)
            return next.migration.id
          }
        }
      }
      return try await group.reduce(into: []) { $0.append($1) }
    }
    #expect(Set(claimed.compactMap { $0 }).count == 25 && claimed.count { $0 == nil } == 15)
  }

  // MARK: Reports

  @Test("C20: reports are in the order of collections, and changed in their counts", arguments: Engine.allCases)
  func reports(_ engine: Engine) async throws {
    let store = try await MigrationStore(engine)
    let names = try ["zoo", "cart", "list"].map { try Sample.name("a", in: $0).collection }
    var reports = names.map {
      CollectionReport(
        collection: $0, policy: .sum, maximumRows: $0 == names[0] ? 5 : nil, sourceCount: 9, counts: [.moved: 1])
    }
    let inserted = reports
    for outcome in MergeOutcome.allCases { reports[1].count(outcome) }
    reports[1].countRemained(3)
    let changed = reports[1]
    let found = try await store.write { rows throws(StorageError) in
      try await rows.insert(Sample.migration(10))
      try await rows.reports.insert(inserted, of: Sample.id(10))
      let before = try await rows.reports.all(of: Sample.id(10))
      try await rows.reports.change(changed, of: Sample.id(10))
      try await rows.reports.remove(names[0], of: Sample.id(10))
      return [before, try await rows.reports.all(of: Sample.id(10)), try await rows.reports.all(of: Sample.id(11))]
    }
    #expect(found == [[inserted[1], inserted[2], inserted[0]], [changed, inserted[2]], []])
    try await store.expectFailure({ $0.isUniqueViolation }) { rows throws(StorageError) in
      try await rows.reports.insert([changed], of: Sample.id(10))
    }
  }
}
