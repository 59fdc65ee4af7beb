import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Testing

@testable import MigrationService

@Suite struct MigratorKeysTests {
  private func rules(_ value: String) throws -> CollectionRules {
    let invocation = try ServiceInvocation(
      MigratorProcess.description, arguments: ["--migration-collections", value], environment: [:])
    guard case .run(let configuration) = invocation else { throw Unexpected() }
    return MigratorConfiguration(configuration).collections
  }

  private struct Unexpected: Error {}

  @Test("G17: without configuration history is NEWEST, favourites a union, carts are summed and the rest is kept")
  func defaults() throws {
    let invocation = try ServiceInvocation(MigratorProcess.description, arguments: [], environment: [:])
    guard case .run(let configuration) = invocation else { throw Unexpected() }
    #expect(MigratorConfiguration(configuration).collections == .standard)
  }

  @Test("Each policy has the number of the message's value of its name", arguments: MigrationPolicy.allCases)
  func numbers(policy: MigrationPolicy) {
    let value = MigrationV1.Policy(policy)
    // "UNION_BY_KEY" is `.unionByKey`.
    let words = policy.rawValue.lowercased().split(separator: "_")
    let name = words[0] + words.dropFirst().map { $0.prefix(1).uppercased() + $0.dropFirst() }.joined()
    #expect("\(value)" == name && MigrationPolicy(value) == policy)
  }

  @Test("No policy, and one of a later release, is none")
  func noPolicy() {
    #expect(MigrationPolicy(.unspecified) == nil && MigrationPolicy(.unrecognized(1000)) == nil)
  }

  @Test("G18: a collection's policy and bound are configuration")
  func parsing() throws {
    let rules = try rules("cart=MAX,downloads=KEEP_TARGET:50")
    #expect(rules[try #require(CollectionName("cart"))] == CollectionRules.Rule(policy: .max))
    #expect(
      rules[try #require(CollectionName("downloads"))] == CollectionRules.Rule(policy: .keepTarget, maximumRows: 50))
  }

  @Test(
    "a rule that says nothing, says it wrongly or says it twice is refused at start",
    arguments: ["cart", "cart=", "cart=NOPE", "Cart=SUM", "cart=SUM:x", "cart=SUM:-1", "cart=SUM,cart=MAX"])
  func refused(value: String) {
    #expect(throws: ConfigurationError.self) { try rules(value) }
  }
}
