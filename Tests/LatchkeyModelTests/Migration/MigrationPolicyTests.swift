import TestSupport
import Testing

@testable import LatchkeyModel

@Suite struct MigrationPolicyTests {
  private func content(_ text: String, _ number: Int64 = 0, at time: Int64) -> RecordContent {
    RecordContent(value: Array(text.utf8), number: number, updatedAt: Timestamp(millisecondsSinceEpoch: time))
  }

  @Test("G13: KEEP_TARGET keeps the account's record, whatever the guest's is")
  func keepTarget() {
    let account = content("account", at: 1)
    #expect(MigrationPolicy.keepTarget.merge(content("guest", at: 2), into: account, hasRoom: true) == .keep)
  }

  @Test("G14: KEEP_SOURCE lets the guest's record win, also over a newer one")
  func keepSource() {
    let guest = content("guest", at: 1)
    #expect(
      MigrationPolicy.keepSource.merge(guest, into: content("account", at: 2), hasRoom: true) == .replace(guest))
  }

  @Test(
    "G17: NEWEST keeps the later record, and the account's when neither is later", arguments: [-1, 0, 1] as [Int64])
  func newest(difference: Int64) {
    let guest = content("guest", at: 100 + difference)
    let decision = MigrationPolicy.newest.merge(guest, into: content("account", at: 100), hasRoom: true)
    #expect(decision == (difference > 0 ? .replace(guest) : .keep))
  }

  @Test("G17: UNION_BY_KEY keeps a key once, as the account has it, with the later time")
  func unionByKey() {
    let decision = MigrationPolicy.unionByKey.merge(
      content("guest", 7, at: 9), into: content("account", 3, at: 5), hasRoom: false)
    #expect(decision == .combine(content("account", 3, at: 9)))
  }

  @Test("G17: SUM adds the numbers and keeps the rest of the later record")
  func sum() {
    let guest = content("guest", 7, at: 9)
    let account = content("account", 3, at: 5)
    #expect(MigrationPolicy.sum.merge(guest, into: account, hasRoom: true) == .combine(content("guest", 10, at: 9)))
    #expect(MigrationPolicy.sum.merge(account, into: guest, hasRoom: true) == .combine(content("guest", 10, at: 9)))
  }

  @Test("G18: a sum that is no number any more is refused, not wrapped around", arguments: [Int64.max, Int64.min])
  func overflow(number: Int64) {
    let decision = MigrationPolicy.sum.merge(
      content("guest", number, at: 1), into: content("account", number, at: 1), hasRoom: true)
    #expect(decision == .refuse(.overflow))
  }

  @Test("G17: MAX keeps the record with the larger number, and the account's when neither is larger")
  func max() {
    let small = content("small", 1, at: 9)
    let large = content("large", 2, at: 1)
    #expect(MigrationPolicy.max.merge(large, into: small, hasRoom: true) == .combine(large))
    #expect(MigrationPolicy.max.merge(small, into: large, hasRoom: true) == .combine(large))
    let same = content("same", 2, at: 9)
    #expect(MigrationPolicy.max.merge(same, into: large, hasRoom: true) == .combine(large))
  }

  @Test(
    "G18: a record that the account has no room for is refused; one that it holds already needs no room",
    arguments: MigrationPolicy.allCases)
  func room(policy: MigrationPolicy) {
    let guest = content("guest", 1, at: 1)
    #expect(policy.merge(guest, into: nil, hasRoom: false) == .refuse(.noRoom))
    #expect(policy.merge(guest, into: nil, hasRoom: true) == .move(guest))
    let held = policy.merge(guest, into: content("account", 1, at: 0), hasRoom: false)
    // Beside the account's record there has to be room for another.
    #expect((held == .refuse(.noRoom)) == (policy == .append))
  }

  @Test("G17: merging is what each policy promises for any two records", arguments: MigrationPolicy.allCases)
  func properties(policy: MigrationPolicy) {
    let seed = SeededRandom.seed()
    var random = SeededRandom(seed: seed)
    for _ in 0..<2000 {
      let source = content(
        "s\(UInt8.random(in: 0...3, using: &random))", .random(in: -5...5, using: &random),
        at: .random(in: 0...4, using: &random))
      let target = content(
        "t\(UInt8.random(in: 0...3, using: &random))", .random(in: -5...5, using: &random),
        at: .random(in: 0...4, using: &random))
      // Only APPEND needs room where the account holds the name.
      let hasRoom = policy == .append || .random(using: &random)
      let decision = policy.merge(source, into: target, hasRoom: hasRoom)
      let result = decision.content ?? target
      let comment = Comment("LATCHKEY_TEST_SEED=\(seed): \(source) into \(target) gave \(decision)")
      #expect(decision == policy.merge(source, into: target, hasRoom: true), comment)
      #expect([source.value, target.value].contains(result.value), comment)
      switch policy {
      case .keepTarget: #expect(result == target, comment)
      case .keepSource: #expect(result == source, comment)
      case .newest: #expect(result.updatedAt == Swift.max(source.updatedAt, target.updatedAt), comment)
      case .unionByKey: #expect(result.value == target.value && result.number == target.number, comment)
      case .sum: #expect(result.number == source.number + target.number, comment)
      case .max: #expect(result.number == Swift.max(source.number, target.number), comment)
      case .append: #expect(decision == .append(source), comment)
      case .ask: #expect(decision == .ask && decision.conflict == .ask, comment)
      }
      // Once merged, the guest's record has nothing left to give, except to a policy that counts it again: that is
      // why a record is merged once and the store sees to it.
      if policy != .sum && policy != .append {
        let again = policy.merge(source, into: result, hasRoom: true)
        #expect((again.content ?? result) == result, comment)
      }
    }
  }
}
