import LatchkeyProtos

/// Which sessions a sign-out ends.
public enum SignOutScope: String, Sendable, CaseIterable {
  /// This one.
  case local
  /// All of the account's but this one.
  case others
  /// All of the account's.
  case global

  var proto: IdentityV1.LogoutScope {
    switch self {
    case .local: .local
    case .others: .others
    case .global: .global
    }
  }
}
