internal import GRPC

/// What a call's `authorization` metadata holds (RFC 6750 section 2.1).
enum Credential {
  case none
  /// An access token, yet to be verified.
  case token(String)
  /// An access token and the proof of possession that came with it (RFC 9449 section 7.1).
  case bound(String, proof: String)
  /// What claims to be the services' secret.
  case service(String)
  /// Another scheme, or more than one value: which of two counts must not be a matter of who reads them.
  case unsupported

  init(_ metadata: Metadata) {
    var value: String?
    for entry in metadata.entries where entry.name == "authorization" {
      guard value == nil, case .ascii(let text) = entry.value else {
        self = .unsupported
        return
      }
      value = text
    }
    guard let value else {
      self = .none
      return
    }
    let parts = value.split(separator: " ", maxSplits: 1)
    guard parts.count == 2, !parts[1].contains(" ") else {
      self = .unsupported
      return
    }
    let token = String(parts[1])
    switch parts[0].lowercased() {
    case "bearer": self = token.hasPrefix(ServiceToken.prefix) ? .service(token) : .token(token)
    case "dpop": self = .bound(token, proof: Self.proof(metadata) ?? "")
    default: self = .unsupported
    }
  }

  /// The one proof of the call; nil when there is none or more than one (RFC 9449 section 4.3).
  static func proof(_ metadata: Metadata) -> String? {
    var proof: String?
    for entry in metadata.entries where entry.name == "dpop" {
      guard proof == nil, case .ascii(let text) = entry.value else { return nil }
      proof = text
    }
    return proof
  }
}
