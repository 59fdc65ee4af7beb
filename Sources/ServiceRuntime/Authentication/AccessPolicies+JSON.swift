internal import JSON

extension AccessPolicies {
  /// The table, one member for each method by its path: what its tool writes the reference of methods from, and what tests
  /// hold a running service against.
  var json: JSONValue {
    .object(sorted.map { path, policy in JSONValue.Member(path, policy.json) })
  }
}

extension AccessPolicy {
  fileprivate var json: JSONValue {
    .object([
      .init("persons", .string(persons.rawValue)),
      .init("services", .array(services.names.map { .string($0) })),
      .init("requirement", requirement.json),
      .init(
        "conditions",
        .array(
          conditions.map { .object([.init("when", .string($0.when)), .init("requirement", $0.requirement.json)]) })),
    ])
  }
}

extension AccessPolicy.Services {
  fileprivate var names: [String] {
    switch self {
    case .none: []
    case .all: PeerService.allCases.map(\.rawValue)
    case .only(let named): named.map(\.rawValue).sorted()
    }
  }
}

extension AccessRequirement {
  fileprivate var json: JSONValue {
    .object([
      .init("scope", .string(scope?.rawValue ?? "")),
      .init("recent_proof", .bool(needsRecentProof)),
      .init("confirmed", .bool(needsConfirmation)),
    ])
  }
}
