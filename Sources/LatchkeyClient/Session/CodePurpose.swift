import LatchkeyProtos

/// What a one-time code is for.
public enum CodePurpose: Sendable {
  /// Nothing is sent to an address that no account has.
  case signIn
  /// Shows that an address is the person's, to make an account or to link it.
  case proveAddress

  var proto: IdentityV1.OtpPurpose {
    switch self {
    case .signIn: .signIn
    case .proveAddress: .proveAddress
    }
  }
}
