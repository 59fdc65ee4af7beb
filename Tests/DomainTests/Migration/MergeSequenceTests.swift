import Domain
import LatchkeyModel
import Storage
import TestSupport
import Testing

@Suite("Merges of several guests into one account")
struct MergeSequenceTests {
  @Test(
    "M2: several merges, the owner's changes and merges taken back, in any order, leave what the model says",
    arguments: MigratorEngine.allCases)
  func anyOrder(engine: MigratorEngine) async throws {
    let seed = SeededRandom.seed()
    try await withThrowingTaskGroup(of: Void.self) { group in
      for worker in 0..<8 as Range<UInt64> {
        group.addTask {
          let folder = try TemporaryFolder()
          let stores = try await engine.openMigrator(in: folder)
          for round in 0..<(engine == .memory ? 25 : 5) as Range<UInt64> {
            let number = seed &+ worker &* 1000 &+ round
            var sequence = MergeSequence(stores: stores, random: SeededRandom(seed: number))
            try await sequence.run("LATCHKEY_TEST_SEED=\(seed), sequence \(worker).\(round)")
          }
          await stores.close()
        }
      }
      try await group.waitForAll()
    }
  }
}

/// A random sequence of what happens to one account, played to the stores and to the model.
private struct MergeSequence {
  let stores: MigratorStores
  var random: SeededRandom
  let account: SubjectID
  var model = MergeModel()
  let rules: CollectionRules
  /// Merges that are done, and those that wait at SWITCH, each with its guest and what that had.
  var done: [MigrationID: Guest] = [:]
  var waiting: [MigrationID: Guest] = [:]
  var steps: [String] = []
  let now = MigrationScenario.now

  struct Guest {
    let id: SubjectID
    let records: [RecordName: RecordContent]
    let lease: JobLease
  }

  init(stores: MigratorStores, random: SeededRandom) {
    var random = random
    self.stores = stores
    account = Self.id(&random)
    self.random = random
    var rules = CollectionRules([:])
    for policy in MigrationPolicy.allCases {
      rules.rules[Self.collection(policy)] = CollectionRules.Rule(policy: policy)
    }
    self.rules = rules
  }

  private static func id<ID: OpaqueID>(_ random: inout SeededRandom) -> ID {
    let bytes = random.bytes(16)
    return ID(from: RandomSource { _ in bytes })
  }

  private static func collection(_ policy: MigrationPolicy) -> CollectionName {
    guard let name = CollectionName(policy.rawValue.lowercased()) else { preconditionFailure("the name is one") }
    return name
  }

  private mutating func name() -> RecordName {
    guard let policy = MigrationPolicy.allCases.randomElement(using: &random),
      let key = RecordKey(["a", "b"].randomElement(using: &random) ?? "a")
    else { preconditionFailure("there are some") }
    return RecordName(collection: Self.collection(policy), key: key)
  }

  private mutating func content() -> RecordContent {
    let number: Int64 =
      switch Int.random(in: 0..<12, using: &random) {
      case 0: .max - 3
      case 1: -4
      default: .random(in: 0...6, using: &random)
      }
    return RecordContent(
      value: random.bytes(4), number: number,
      updatedAt: Timestamp(millisecondsSinceEpoch: .random(in: 0...5, using: &random)))
  }

  private mutating func records(_ count: Int) -> [RecordName: RecordContent] {
    var records: [RecordName: RecordContent] = [:]
    for _ in 0..<count { records[name()] = content() }
    return records
  }

  mutating func run(_ comment: String) async throws {
    for (name, content) in records(6) { try await put(name, content) }
    for _ in 0..<Int.random(in: 4...14, using: &random) {
      try await happen()
      let isRight = try await compare("\(comment): \(steps.joined(separator: ", "))")
      if !isRight { return }
    }
    for id in waiting.keys.sorted() { try await complete(id) }
    for id in done.keys.sorted().shuffled(using: &random) {
      try await undo(id)
      let isRight = try await compare("\(comment): \(steps.joined(separator: ", "))")
      if !isRight { return }
    }
  }

  private mutating func happen() async throws {
    switch Int.random(in: 0..<10, using: &random) {
    case 0...3: try await merge()
    case 4: try await put(name(), content())
    case 5: try await delete(name())
    case 6: if let id = waiting.keys.sorted().randomElement(using: &random) { try await complete(id) }
    case 7: if let id = waiting.keys.sorted().randomElement(using: &random) { try await refuse(id) }
    case 8: try await resolve()
    default: if let id = done.keys.sorted().randomElement(using: &random) { try await undo(id) }
    }
  }

  // MARK: What happens

  private mutating func put(_ name: RecordName, _ content: RecordContent) async throws {
    steps.append("put \(name.collection)/\(name.key)")
    _ = try await stores.records.put([RecordDraft(name: name, content: content)], of: account)
    model.put(name, content)
  }

  private mutating func delete(_ name: RecordName) async throws {
    steps.append("delete \(name.collection)/\(name.key)")
    _ = try await stores.records.delete(name, revision: nil, of: account)
    model.delete(name)
  }

  /// As far as SWITCH, where it may wait while other things happen.
  private mutating func merge() async throws {
    let (id, guest, plan): (MigrationID, SubjectID, PlanID) = (
      Self.id(&random), Self.id(&random), Self.id(&random)
    )
    steps.append("merge \(id)")
    let records = records(6)
    let drafts = records.map { RecordDraft(name: $0.key, content: $0.value) }
    _ = try await stores.records.put(drafts, of: guest)
    let planned = try await stores.migrations.plan(
      guest: guest, target: account, rules: rules, isFirstLoginOnDevice: false)
    guard case .done(let made) = planned else { throw MigrationScenario.Unexpected("\(planned)") }
    try await stores.migrations.save(made, as: plan, digest: [1], at: now, expiresAt: now + .seconds(600))
    let outcome = try await stores.migrations.start(plan, as: id, idempotencyKey: "\(id)", at: now)
    guard outcome == .started(id) else { throw MigrationScenario.Unexpected("\(outcome)") }
    let lease = JobLease(holder: id.value, duration: .seconds(30))
    var migration = try await stores.migrations.claim(lease, at: now)?.migration
    while let current = migration, let action = current.action, action != .switchSubject {
      migration = try await stores.migrations.perform(action, of: id, lease: lease, at: now)
    }
    guard migration?.action == .switchSubject else { throw MigrationScenario.Unexpected("\(migration as Any)") }
    model.merge(records, as: id, by: rules)
    waiting[id] = Guest(id: guest, records: records, lease: lease)
    if Int.random(in: 0..<3, using: &random) > 0 { try await complete(id) }
  }

  private mutating func complete(_ id: MigrationID) async throws {
    guard let guest = waiting.removeValue(forKey: id) else { return }
    steps.append("complete \(id)")
    try await finish(id, guest.lease, from: .switchSubject)
    done[id] = guest
  }

  private mutating func refuse(_ id: MigrationID) async throws {
    guard let guest = waiting.removeValue(forKey: id) else { return }
    steps.append("refuse \(id)")
    let refused = try await stores.migrations.refuseSwitch(of: id, reason: "gone", lease: guest.lease, at: now)
    try await finish(id, guest.lease, from: refused?.action)
    model.undo(id)
    try await expect(guest)
  }

  private mutating func undo(_ id: MigrationID) async throws {
    guard let guest = done.removeValue(forKey: id) else { return }
    steps.append("undo \(id)")
    let outcome = try await stores.migrations.undo(id, at: now)
    #expect(outcome == .begun)
    let claimed = try await stores.migrations.claim(guest.lease, at: now)
    try await finish(id, guest.lease, from: claimed?.migration.action)
    model.undo(id)
    try await expect(guest)
  }

  private mutating func resolve() async throws {
    let policies = MigrationPolicy.allCases.filter { $0 != .ask }
    guard let id = done.keys.sorted().randomElement(using: &random),
      let name = model.setAside[id]?.keys.sorted().randomElement(using: &random),
      let policy = policies.randomElement(using: &random)
    else { return }
    steps.append("resolve \(name.collection)/\(name.key) of \(id) by \(policy)")
    let outcome = try await stores.migrations.resolve(name, of: id, by: policy, revision: nil)
    let isResolvable = outcome != .remains(.overflow)
    #expect(outcome == .resolved || !isResolvable)
    model.resolve(name, of: id, by: policy)
    #expect((model.setAside[id]?[name] == nil) == isResolvable)
  }

  private func finish(_ id: MigrationID, _ lease: JobLease, from first: Migration.Action?) async throws {
    var action = first
    while let current = action {
      action = try await stores.migrations.perform(current, of: id, lease: lease, at: now)?.action
    }
    #expect(try await stores.migrations.migration(id)?.migration.isFinished == true)
  }

  // MARK: What must be

  private func expect(_ guest: Guest) async throws {
    #expect(try await all(of: guest.id) == guest.records)
  }

  private func all(of subject: SubjectID) async throws -> [RecordName: RecordContent] {
    var all: [RecordName: RecordContent] = [:]
    for count in try await stores.records.collections(of: subject) {
      let page = try await stores.records.records(
        in: count.collection, of: subject, beyond: nil, count: 1000, bytes: .max)
      #expect(page.records.count == count.count)
      for record in page.records { all[record.name] = record.content }
    }
    return all
  }

  private func compare(_ comment: String) async throws -> Bool {
    let held = try await all(of: account)
    #expect(held == model.records, "\(comment)")
    var isRight = held == model.records
    for id in done.keys {
      let listed = try await stores.migrations.conflicts(of: id, beyond: nil, count: 1000, bytes: .max).conflicts
      let waiting = Dictionary(uniqueKeysWithValues: listed.map { ($0.name, $0.guest) })
      #expect(waiting == model.setAside[id] ?? [:], "\(comment)")
      isRight = isRight && waiting == model.setAside[id] ?? [:]
    }
    return isRight
  }
}
