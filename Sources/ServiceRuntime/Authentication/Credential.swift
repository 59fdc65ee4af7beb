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

  init(_ context: ServerContext) {
    let value: String
    switch context.soleValue("authorization") {
    case .one(let text): value = text
    case .none:
      self = .none
      return
    case .several:
      self = .unsupported
      return
    }
    // By bytes: a token has hundreds of them, and every call brings one.
    let bytes = value.utf8
    let space = UInt8(ascii: " ")
    guard let end = bytes.firstIndex(of: space), end > bytes.startIndex, case let start = bytes.index(after: end),
      start < bytes.endIndex, !bytes[start...].contains(space)
    else {
      self = .unsupported
      return
    }
    let token = String(value[start...])
    switch value[..<end].lowercased() {
    case "bearer": self = token.hasPrefix(ServiceToken.prefix) ? .service(token) : .token(token)
    case "dpop": self = .bound(token, proof: Self.proof(context) ?? "")
    default: self = .unsupported
    }
  }

  /// The one proof of the call; nil when there is none or more than one (RFC 9449 section 4.3).
  static func proof(_ context: ServerContext) -> String? {
    if case .one(let proof) = context.soleValue("dpop") { proof } else { nil }
  }
}
