/// How a session was begun. The raw value is stored and appears in `LastLoginHint.method`: never renamed.
package enum SignInMethod: String, Sendable, CaseIterable {
  case guest
  case password
  case otp
  case pattern
  case deviceKey = "device_key"
  case customSecret = "custom_secret"
  case oidc
  case qr
  /// A code made on another device of the same guest or account.
  case transfer

  /// The authentication method reference of RFC 8176, for the token's `amr` claim.
  package var authenticationMethodReference: String {
    switch self {
    case .guest, .deviceKey, .transfer: "hwk"
    case .password, .customSecret: "pwd"
    case .otp: "otp"
    case .pattern: "pin"
    case .oidc: "fed"
    case .qr: "qr"
    }
  }
}
