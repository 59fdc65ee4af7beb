import Domain
import LatchkeyModel
import Storage
import TestSupport
import Testing

/// A guest, an account, their records, the rules, and what must come of them.
struct MigrationScenario: Sendable {
  static let guest = SubjectID(from: RandomSource { [UInt8](repeating: 1, count: $0) })
  static let account = SubjectID(from: RandomSource { [UInt8](repeating: 2, count: $0) })

  let guestRecords: [RecordDraft]
  let accountRecords: [RecordDraft]
  let rules: CollectionRules

  /// What the account must hold in the end, what must be refused, and the counts.
  struct Expectation: Equatable {
    var records: [RecordName: RecordContent] = [:]
    var refused: [RecordName: ConflictReason] = [:]
    var counts: [CollectionName: [MergeOutcome: Int]] = [:]

    /// How many records there are of each collection.
    var held: [CollectionName: Int] { records.keys.reduce(into: [:]) { $0[$1.collection, default: 0] += 1 } }
  }

  /// The definition, without storage, steps or chunks: each of the guest's records once, newest first.
  var expectation: Expectation {
    var expected = Expectation()
    for draft in accountRecords { expected.records[draft.name] = draft.content }
    var held = expected.held
    var source: [RecordName: RecordContent] = [:]
    for draft in guestRecords { source[draft.name] = draft.content }
    let ordered = source.sorted {
      ($0.value.updatedAt, $0.key.key.description) > ($1.value.updatedAt, $1.key.key.description)
    }
    func put(_ content: RecordContent, _ name: RecordName) {
      if expected.records.updateValue(content, forKey: name) == nil { held[name.collection, default: 0] += 1 }
    }
    for (name, content) in ordered {
      let rule = rules[name.collection]
      let hasRoom = rule.maximumRows.map { held[name.collection, default: 0] < $0 } ?? true
      let decision = rule.policy.merge(content, into: expected.records[name], hasRoom: hasRoom)
      if case .append(let content) = decision, let key = name.key.appended(by: Self.id) {
        put(content, RecordName(collection: name.collection, key: key))
      } else if let merged = decision.content {
        put(merged, name)
      }
      if let reason = decision.conflict { expected.refused[name] = reason }
      expected.counts[name.collection, default: [:]][decision.outcome, default: 0] += 1
    }
    return expected
  }

  // MARK: Making one

  /// A collection for each policy and one without a rule, with some bounds on how much an account may hold.
  static func random(_ random: inout SeededRandom, guestRecords: Int, accountRecords: Int) -> MigrationScenario {
    var rules = CollectionRules([:])
    for (index, policy) in MigrationPolicy.allCases.enumerated() {
      let isBounded = Bool.random(using: &random)
      rules.rules[collection(index)] = CollectionRules.Rule(
        policy: policy, maximumRows: isBounded ? Int.random(in: 0...accountRecords, using: &random) : nil)
    }
    let keys = max(4, (guestRecords + accountRecords) / MigrationPolicy.allCases.count)
    func drafts(_ count: Int) -> [RecordDraft] {
      (0..<count).map { _ in
        let number: Int64 =
          switch Int.random(in: 0..<10, using: &random) {
          case 0: .max
          case 1: .min
          default: .random(in: -1000...1000, using: &random)
          }
        return draft(
          collection: Int.random(in: 0...MigrationPolicy.allCases.count, using: &random),
          key: Int.random(in: 0..<keys, using: &random),
          number: number, time: .random(in: 0...50, using: &random), salt: random.next())
      }
    }
    return MigrationScenario(
      guestRecords: drafts(guestRecords), accountRecords: drafts(accountRecords), rules: rules)
  }

  /// `count` records in four collections, half of whose keys the account has too.
  static func large(_ count: Int) -> MigrationScenario {
    var rules = CollectionRules([:])
    let policies: [MigrationPolicy] = [.newest, .unionByKey, .sum, .keepTarget]
    for (index, policy) in policies.enumerated() {
      rules.rules[collection(index)] = CollectionRules.Rule(policy: policy)
    }
    func drafts(from first: Int, _ time: Int64) -> [RecordDraft] {
      (first..<(first + count)).map {
        draft(collection: $0 % 4, key: $0, number: Int64($0), time: time + Int64($0 % 7), salt: UInt64($0))
      }
    }
    return MigrationScenario(
      guestRecords: drafts(from: count / 2, 3), accountRecords: drafts(from: 0, 4), rules: rules)
  }

  private static func collection(_ index: Int) -> CollectionName {
    guard let name = CollectionName("collection-\(index)") else { preconditionFailure("the name is one") }
    return name
  }

  private static func draft(collection index: Int, key: Int, number: Int64, time: Int64, salt: UInt64) -> RecordDraft {
    guard let recordKey = RecordKey("key-\(key)") else { preconditionFailure("the key is one") }
    return RecordDraft(
      name: RecordName(collection: collection(index), key: recordKey),
      content: RecordContent(
        value: Array("\(salt)".utf8), number: number, updatedAt: Timestamp(millisecondsSinceEpoch: time)))
  }

  // MARK: Playing it

  static let id = MigrationID(from: RandomSource { [UInt8](repeating: 4, count: $0) })
  static let now = Timestamp(millisecondsSinceEpoch: 1_000_000)

  /// Stores both subjects' records and starts the migration.
  func start(_ stores: MigratorStores) async throws -> MigrationID {
    _ = try await stores.records.put(guestRecords, of: Self.guest)
    _ = try await stores.records.put(accountRecords, of: Self.account)
    let planned = try await stores.migrations.plan(
      guest: Self.guest, target: Self.account, rules: rules, isFirstLoginOnDevice: false)
    guard case .done(let plan) = planned else { throw Unexpected("\(planned)") }
    let planID = PlanID(from: RandomSource { [UInt8](repeating: 3, count: $0) })
    try await stores.migrations.save(
      plan, as: planID, digest: [1], at: Self.now, expiresAt: Self.now + .seconds(600))
    let id = Self.id
    let outcome = try await stores.migrations.start(planID, as: id, idempotencyKey: "key", at: Self.now)
    guard outcome == .started(id) else { throw Unexpected("\(outcome)") }
    return id
  }

  /// Everything that the stores say about the end, compared with what must be.
  func expectOutcome(
    _ stores: MigratorStores,
    _ id: MigrationID,
    _ comment: Comment? = nil,
    sourceLocation: SourceLocation = #_sourceLocation
  ) async throws {
    let expected = expectation
    var actual = Expectation()
    let held = expected.held
    for count in try await stores.records.collections(of: Self.account) {
      let page = try await stores.records.records(
        in: count.collection, of: Self.account, beyond: nil, count: .max - 1, bytes: .max)
      #expect(page.records.count == count.count, comment, sourceLocation: sourceLocation)
      for record in page.records { actual.records[record.name] = record.content }
    }
    for refused in try await stores.migrations.conflicts(of: id, beyond: nil, count: .max - 1, bytes: .max).conflicts {
      actual.refused[refused.name] = refused.reason
      let original = guestRecords.last { $0.name == refused.name }
      #expect(refused.guest == original?.content, comment, sourceLocation: sourceLocation)
    }
    let report = try #require(try await stores.migrations.migration(id))
    for collection in report.collections {
      actual.counts[collection.report.collection] = collection.report.counts
      #expect(
        collection.targetCount == held[collection.report.collection] ?? 0, comment, sourceLocation: sourceLocation)
    }
    #expect(actual == expected, comment, sourceLocation: sourceLocation)
    #expect(report.migration.state == .done(at: Self.now), comment, sourceLocation: sourceLocation)
    let left = try await stores.records.collections(of: Self.guest)
    #expect(left == [], comment, sourceLocation: sourceLocation)
    for draft in guestRecords {
      let record = try await stores.records.record(draft.name, of: Self.guest)
      #expect(record == nil, comment, sourceLocation: sourceLocation)
    }
  }

  struct Unexpected: Error {
    let what: String

    init(_ what: String) {
      self.what = what
    }
  }
}

extension JobLease {
  /// A claim of a worker that tells itself apart by `number`.
  static func worker(_ number: UInt8, lasting duration: Duration = .seconds(30)) -> JobLease {
    JobLease(holder: OpaqueIDValue(from: RandomSource { [UInt8](repeating: number, count: $0) }), duration: duration)
  }
}
