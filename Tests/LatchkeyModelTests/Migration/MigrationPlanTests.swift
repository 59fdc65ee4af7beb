import Testing

@testable import LatchkeyModel

@Suite struct MigrationPlanTests {
  private func plan(
    guest: UInt8 = 1,
    versions: (Int64, Int64) = (4, 5),
    isFirst: Bool = false,
    policy: MigrationPolicy = .sum,
    maximum: Int? = nil,
    counts: (Int, Int, Int, Int) = (10, 3, 2, 1)
  ) throws -> MigrationPlan {
    MigrationPlan(
      guest: SubjectID(from: RandomSource { [UInt8](repeating: guest, count: $0) }),
      target: SubjectID(from: RandomSource { [UInt8](repeating: 9, count: $0) }),
      guestVersion: versions.0,
      targetVersion: versions.1,
      isFirstLoginOnDevice: isFirst,
      collections: [
        MigrationPlan.Collection(
          name: try #require(CollectionName("cart")),
          rule: CollectionRules.Rule(policy: policy, maximumRows: maximum),
          sourceCount: counts.0, targetCount: counts.1, conflicts: counts.2, overflows: counts.3)
      ])
  }

  @Test("R39: everything that a plan depends on or decides changes its digest")
  func canonicalForm() throws {
    let plans = [
      try plan(), try plan(guest: 2), try plan(versions: (5, 5)), try plan(versions: (4, 6)), try plan(isFirst: true),
      try plan(policy: .max), try plan(maximum: 0), try plan(maximum: 1), try plan(counts: (11, 3, 2, 1)),
      try plan(counts: (10, 4, 2, 1)), try plan(counts: (10, 3, 1, 1)), try plan(counts: (10, 3, 2, 0)),
    ]
    #expect(Set(plans.map(\.canonicalForm)).count == plans.count)
    #expect(try plan().canonicalForm == plans[0].canonicalForm)
  }

  @Test("G18: a plan says how many records the account will not take")
  func refused() throws {
    #expect(try plan(policy: .newest).collections[0].refused == 0)
    #expect(try plan(policy: .sum).collections[0].refused == 1)
    // 8 new records, room for 7, 0 and none at all.
    #expect(try plan(policy: .append, maximum: 10).collections[0].refused == 3)
    #expect(try plan(policy: .newest, maximum: 10).collections[0].refused == 1)
    #expect(try plan(policy: .newest, maximum: 3).collections[0].refused == 8)
    #expect(try plan(policy: .newest, maximum: 1).collections[0].refused == 8)
    #expect(try plan(policy: .newest, maximum: 100).collections[0].refused == 0)
  }

  @Test("a collection without a rule keeps what the account has; a plan's override changes how, not how much")
  func rules() throws {
    let cart = try #require(CollectionName("cart"))
    let other = try #require(CollectionName("other"))
    var rules = CollectionRules.standard
    rules.rules[cart]?.maximumRows = 7
    let overridden = rules.overriding([cart: .max, other: .newest])
    #expect(rules[other] == CollectionRules.Rule(policy: .keepTarget))
    #expect(overridden[cart] == CollectionRules.Rule(policy: .max, maximumRows: 7))
    #expect(overridden[other] == CollectionRules.Rule(policy: .newest))
  }
}
