package import GRPC

/// The access policy of every method that a server answers.
///
///     AccessPolicies(QRV1.QrSessionServiceMethod.self) { method in
///       switch method {
///       case .issueSession, .pollSession: .open
///       case .scanSession: .account
///       }
///     }
package struct AccessPolicies: Sendable {
  private var policies: [String: AccessPolicy] = [:]

  package init() {}

  package init<Method: CaseIterable & RawRepresentable>(
    _ methods: Method.Type,
    _ policy: (Method) -> AccessPolicy
  ) where Method.RawValue == String {
    for method in Method.allCases { policies[method.rawValue] = policy(method) }
  }

  /// Both tables. One method in two tables is a mistake of the program.
  package static func + (left: AccessPolicies, right: AccessPolicies) -> AccessPolicies {
    var sum = left
    sum.policies.merge(right.policies) { _, _ in preconditionFailure("a method has two access policies") }
    return sum
  }

  /// By path.
  var sorted: [(path: String, policy: AccessPolicy)] {
    policies.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
  }

  package subscript(method: RPCMethod) -> AccessPolicy? { policies[method.path] }
}
