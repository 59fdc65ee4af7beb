import JSON
import LatchkeyModel

/// A session with its tokens, as the secret store keeps it.
struct StoredSession: Equatable {
  var accessToken: String
  var tokenType: String
  var refreshToken: String
  /// By the service's clock.
  var accessExpiresAt: Timestamp
  /// The service's clock minus this device's when the tokens came.
  var clockSkew: Duration
  var sub: String
  var isGuest: Bool
  var sid: String
  var storageNamespace: String
  var scope: String

  var session: Session {
    Session(
      subject: SubjectID(sub),
      isGuest: isGuest,
      sessionID: sid,
      storageNamespace: storageNamespace,
      scope: scope
    )
  }

  /// Whether the tokens are worth something only with this device's key (RFC 9449).
  var isBound: Bool { tokenType == "DPoP" }

  /// True when the access token has expired or will before a call that starts now can use it. The service's time is
  /// what counts, so a device with a wrong clock refreshes neither too early nor too late.
  func needsRefresh(at now: Timestamp) -> Bool {
    now + clockSkew + Limits.refreshAhead >= accessExpiresAt
  }
}

extension StoredSession {
  /// Nil for bytes that ``encoded()`` did not write.
  init?(_ bytes: [UInt8]) {
    guard let json = try? JSONValue(parsing: bytes),
      let accessToken = json["access_token"]?.string,
      let tokenType = json["token_type"]?.string,
      let refreshToken = json["refresh_token"]?.string,
      let accessExpiresAt = json["access_expires_at_ms"]?.integer,
      let clockSkew = json["clock_skew_ms"]?.integer,
      let sub = json["sub"]?.string,
      let isGuest = json["is_guest"]?.bool,
      let sid = json["sid"]?.string,
      let storageNamespace = json["storage_namespace"]?.string,
      let scope = json["scope"]?.string
    else { return nil }
    self.init(
      accessToken: accessToken,
      tokenType: tokenType,
      refreshToken: refreshToken,
      accessExpiresAt: Timestamp(millisecondsSinceEpoch: accessExpiresAt),
      clockSkew: .milliseconds(clockSkew),
      sub: sub,
      isGuest: isGuest,
      sid: sid,
      storageNamespace: storageNamespace,
      scope: scope
    )
  }

  func encoded() -> [UInt8] {
    let json: JSONValue = [
      "access_token": .string(accessToken),
      "token_type": .string(tokenType),
      "refresh_token": .string(refreshToken),
      "access_expires_at_ms": .integer(accessExpiresAt.millisecondsSinceEpoch),
      "clock_skew_ms": .integer(clockSkew.wholeMilliseconds),
      "sub": .string(sub),
      "is_guest": .bool(isGuest),
      "sid": .string(sid),
      "storage_namespace": .string(storageNamespace),
      "scope": .string(scope),
    ]
    return json.encoded()
  }
}
