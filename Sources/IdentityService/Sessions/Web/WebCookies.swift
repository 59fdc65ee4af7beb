import Cryptography
import LatchkeyModel

/// Makes and recognises the cookies by which a browser acts in the name of a session, without remembering them.
///
/// A cookie's value is `lkw_`, the prefix of the session's cell and base64url of the session's id (16 bytes), the time it expires (8, milliseconds since
/// the epoch) and an HMAC-SHA256 over both (16, truncated as RFC 2104 section 5 allows). It says nothing of itself:
/// the session is looked up, and must be live.
package struct WebCookies: Sendable {
  private static let prefix = "lkw_"
  private static let headBytes = 16 + 8
  private static let byteCount = headBytes + 16

  private let key: [UInt8]
  private let lifetime: Duration
  /// Empty for the host alone.
  package let domain: String
  package let isSecure: Bool

  /// - Parameters:
  ///   - key: 32 secret bytes, used for nothing else.
  ///   - issuer: where the pages are; cookies of an https origin never travel in the clear.
  package init(key: RedactedSecret, lifetime: Duration, issuer: String, domain: String?) {
    self.key = key.exposed
    self.lifetime = lifetime
    self.domain = domain ?? ""
    isSecure = issuer.utf8.starts(with: "https://".utf8)
  }

  package struct Cookie: Sendable, Equatable {
    package let value: String
    package let expiry: Timestamp
    package let maximumAge: Duration
  }

  /// With the prefix browsers hold to its promises: no other host can set it (RFC 6265bis section 4.1.3).
  package var name: String { isSecure && domain.isEmpty ? "__Host-latchkey" : "latchkey_session" }

  /// Nothing lasts longer than the session.
  package func make(for session: Session, at now: Timestamp) -> Cookie {
    let expiry = min(now + lifetime, session.family.idleExpiry, session.family.absoluteExpiry)
    var head = session.id.bytes
    for shift in stride(from: Int64(56), through: 0, by: -8) {
      head.append(UInt8(truncatingIfNeeded: expiry.millisecondsSinceEpoch >> shift))
    }
    let value = Self.prefix + session.id.cell.prefix + Base64URL.encode(head + authenticator(head))
    return Cookie(value: value, expiry: expiry, maximumAge: expiry - now)
  }

  /// The session, if we made the value and it has not expired.
  package func recognise(_ value: String, at now: Timestamp) -> (session: SessionID, expiry: Timestamp)? {
    guard value.utf8.count <= 64, value.utf8.starts(with: Self.prefix.utf8) else { return nil }
    let (cell, rest) = Cell.read(value.dropFirst(Self.prefix.count))
    guard let bytes = Base64URL.decode(rest), bytes.count == Self.byteCount else { return nil }
    let head = Array(bytes[..<Self.headBytes])
    guard ConstantTime.equals(Array(bytes[Self.headBytes...]), authenticator(head)),
      let session = SessionID(bytes: Array(head[..<16]), in: cell)
    else { return nil }
    let expiry = Timestamp(millisecondsSinceEpoch: head[16...].reduce(Int64(0)) { $0 << 8 | Int64($1) })
    return now < expiry ? (session, expiry) : nil
  }

  /// Which cell a value names, whoever made it.
  package func cell(of value: String) -> Cell {
    value.utf8.starts(with: Self.prefix.utf8) ? Cell.read(value.dropFirst(Self.prefix.count)).cell : .first
  }

  /// The value in a Cookie header (RFC 6265 section 4.2).
  package func value(in header: String) -> String? {
    for pair in header.split(separator: ";") {
      let pair = pair.drop { $0 == " " }
      guard let equals = pair.firstIndex(of: "="), pair[..<equals] == name else { continue }
      return String(pair[pair.index(after: equals)...])
    }
    return nil
  }

  /// As a Set-Cookie header has it.
  package func header(_ cookie: Cookie) -> String {
    var text =
      "\(name)=\(cookie.value); Path=/; Max-Age=\(cookie.maximumAge.components.seconds); HttpOnly; SameSite=Lax"
    if isSecure { text += "; Secure" }
    if !domain.isEmpty { text += "; Domain=\(domain)" }
    return text
  }

  private func authenticator(_ head: [UInt8]) -> [UInt8] {
    Array(HMACSHA256.authenticate(Array("latchkey-web-cookie-v1".utf8) + head, key: key)[..<16])
  }
}
