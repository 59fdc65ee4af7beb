/// What a risk signal leads to, from nothing to a refusal.
package enum QRRiskAction: Int, Sendable, CaseIterable, Comparable {
  case allow = 1
  /// The confirm screen says so.
  case warn = 2
  /// The person has to do more than agree.
  case stepUp = 3
  /// Nobody confirms this code from there.
  case deny = 4

  package static func < (left: QRRiskAction, right: QRRiskAction) -> Bool { left.rawValue < right.rawValue }

  /// As it is written in the configuration.
  package var name: String {
    switch self {
    case .allow: "allow"
    case .warn: "warn"
    case .stepUp: "step-up"
    case .deny: "deny"
    }
  }
}
