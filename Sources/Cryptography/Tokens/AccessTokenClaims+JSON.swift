import JSON
import LatchkeyModel

extension AccessTokenClaims {
  /// The value of `typ` in the header (RFC 9068 section 2.1).
  static let type = "at+jwt"
  /// The value of `token_use`: says what the token is for, besides `typ` (R8).
  static let use = "access"

  /// The claims set, times as whole seconds (RFC 7519 section 2, NumericDate).
  var json: JSONValue {
    var members: [JSONValue.Member] = [
      .init("iss", .string(issuer)),
      .init("sub", .string(subject)),
      // One audience is a string, several are an array: the form that every library reads (RFC 7519 section 4.1.3).
      .init("aud", audience.count == 1 ? .string(audience[0]) : .array(audience.map { .string($0) })),
      .init("exp", .integer(expiresAt.secondsSinceEpoch)),
      .init("iat", .integer(issuedAt.secondsSinceEpoch)),
      .init("nbf", .integer(notBefore.secondsSinceEpoch)),
      .init("jti", .string(tokenID)),
      .init("client_id", .string(clientID)),
      .init("scope", .string(scope)),
      .init("sid", .string(sessionID)),
      .init("is_guest", .bool(isGuest)),
      .init("token_use", .string(Self.use)),
    ]
    if let authenticatedAt {
      members.append(.init("auth_time", .integer(authenticatedAt.secondsSinceEpoch)))
    }
    if !authenticationMethods.isEmpty {
      members.append(.init("amr", .array(authenticationMethods.map { .string($0) })))
    }
    if let keyThumbprint {
      members.append(.init("cnf", .object([.init("jkt", .string(keyThumbprint))])))
    }
    // Said of the few: what is not said of the many costs them nothing.
    if !isConfirmed { members.append(.init("unconfirmed", .bool(true))) }
    return .object(members)
  }

  /// Reads a claims set whose signature holds. Errors: ``TokenError/wrongType``, ``TokenError/badClaim(_:)``.
  init(json: JSONValue) throws(TokenError) {
    guard json["token_use"]?.string == Self.use else { throw .wrongType }
    subject = try Self.text(json, "sub")
    issuer = try Self.text(json, "iss")
    audience = try Self.audience(json)
    expiresAt = try Self.time(json, "exp")
    issuedAt = try Self.time(json, "iat")
    notBefore = try json["nbf"] == nil ? issuedAt : Self.time(json, "nbf")
    tokenID = try Self.text(json, "jti")
    clientID = try Self.text(json, "client_id")
    sessionID = try Self.text(json, "sid")
    guard let scope = json["scope"]?.string else { throw .badClaim("scope") }
    self.scope = scope
    guard let isGuest = json["is_guest"]?.bool else { throw .badClaim("is_guest") }
    self.isGuest = isGuest
    guard let isUnconfirmed = json["unconfirmed"].map({ $0.bool }) ?? false else { throw .badClaim("unconfirmed") }
    isConfirmed = !isUnconfirmed
    authenticatedAt = try json["auth_time"] == nil ? nil : Self.time(json, "auth_time")
    authenticationMethods = try json["amr"] == nil ? [] : Self.texts(json, "amr")
    if let confirmation = json["cnf"] {
      // A binding that is not understood must not be dropped: the token would then work without its key.
      guard let thumbprint = confirmation["jkt"]?.string, confirmation.members?.count == 1 else {
        throw .badClaim("cnf")
      }
      keyThumbprint = thumbprint
    } else {
      keyThumbprint = nil
    }
  }

  private static func text(_ json: JSONValue, _ name: String) throws(TokenError) -> String {
    guard let text = json[name]?.string, !text.isEmpty else { throw .badClaim(name) }
    return text
  }

  private static func audience(_ json: JSONValue) throws(TokenError) -> [String] {
    switch json["aud"] {
    case .string(let one): return [one]
    default: return try texts(json, "aud")
    }
  }

  private static func texts(_ json: JSONValue, _ name: String) throws(TokenError) -> [String] {
    guard case .array(let values)? = json[name] else { throw .badClaim(name) }
    var texts: [String] = []
    for value in values {
      guard let text = value.string else { throw .badClaim(name) }
      texts.append(text)
    }
    return texts
  }

  /// A NumericDate may have a fraction (RFC 7519 section 2).
  private static func time(_ json: JSONValue, _ name: String) throws(TokenError) -> Timestamp {
    // The year 9999: seconds beyond it are no time, and would overflow as milliseconds.
    let latest: Int64 = 253_402_300_799
    switch json[name] {
    case .integer(let seconds) where (0...latest).contains(seconds): return Timestamp(secondsSinceEpoch: seconds)
    case .number(let seconds) where seconds >= 0 && seconds <= Double(latest):
      return Timestamp(millisecondsSinceEpoch: Int64(seconds * 1000))
    default: throw .badClaim(name)
    }
  }
}
