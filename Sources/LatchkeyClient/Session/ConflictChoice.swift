import LatchkeyProtos

/// What a sign-in does when the account exists and this guest has data.
public enum ConflictChoice: String, Sendable, CaseIterable {
  /// Sign nobody in; answer with a ``SignInConflict``.
  case report
  /// Sign in and move the guest's data into the account.
  case merge
  /// Sign in and leave the guest's data with the guest.
  case `switch`

  var proto: IdentityV1.OnConflict {
    switch self {
    case .report: .report
    case .merge: .merge
    case .switch: .switch
    }
  }

  init?(_ proto: IdentityV1.OnConflict) {
    switch proto {
    case .report: self = .report
    case .merge: self = .merge
    case .switch: self = .switch
    default: return nil
    }
  }
}
