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

  /// What a proof of this kind is in a token's `amr` (RFC 8176 section 2). A code and a transfer are none: what they begin
  /// goes by the proof that it came of.
  ///
  /// A key is `pop`: whether hardware keeps it, nobody attests. `fed` is ours, for a provider's word; RFC 8176 has none.
  package var proofReferences: [String] {
    switch self {
    case .guest, .deviceKey: ["pop"]
    case .password, .customSecret: ["pwd"]
    case .otp: ["otp"]
    case .pattern: ["pin", "pop"]
    case .oidc: ["fed"]
    case .qr, .transfer: []
    }
  }
}
