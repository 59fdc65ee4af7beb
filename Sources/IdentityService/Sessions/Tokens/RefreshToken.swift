import Cryptography
import LatchkeyModel

/// A refresh token as it was presented: which session it names and which of the session's tokens it says it is.
///
/// The text is `lkr_`, the prefix of the session's cell and base64url of session (16 bytes), generation (8 bytes) and an
/// HMAC-SHA256 (32 bytes) over both and the session's seed, under the service's secret. So the same token can be made again
/// when its answer was lost, and no token is ever stored.
package struct RefreshToken: Sendable {
  package static let prefix = "lkr_"
  private static let byteCount = 16 + 8 + 32

  package let session: SessionID
  package let generation: Int64
  private let authenticator: [UInt8]

  /// Nil for what is no refresh token by its form.
  package init?(_ text: String) {
    guard text.utf8.count <= Limits.tokenCharacters, text.hasPrefix(Self.prefix) else { return nil }
    let (cell, rest) = Cell.read(text.dropFirst(Self.prefix.count))
    guard let bytes = Base64URL.decode(rest), bytes.count == Self.byteCount,
      let session = SessionID(bytes: Array(bytes[..<16]), in: cell)
    else { return nil }
    let generation = bytes[16..<24].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
    guard let generation = Int64(exactly: generation) else { return nil }
    self.session = session
    self.generation = generation
    authenticator = Array(bytes[24...])
  }

  /// Makes and recognises refresh tokens.
  package struct Mint: Sendable {
    private let key: [UInt8]

    /// - Parameter key: 32 secret bytes, used for nothing else.
    package init(key: RedactedSecret) {
      self.key = key.exposed
    }

    /// The newest token of a session.
    package func newest(of session: Session) -> String {
      let named = Self.name(session.id, session.family.generation)
      return prefix + session.id.cell.prefix + Base64URL.encode(named + authenticator(named, session.refreshSeed))
    }

    package func isGenuine(_ token: RefreshToken, of session: Session) -> Bool {
      guard token.session == session.id else { return false }
      let named = Self.name(token.session, token.generation)
      return ConstantTime.equals(token.authenticator, authenticator(named, session.refreshSeed))
    }

    private func authenticator(_ named: [UInt8], _ seed: RedactedSecret) -> [UInt8] {
      HMACSHA256.authenticate(Array("latchkey-refresh-v1".utf8) + [0] + named + seed.exposed, key: key)
    }

    private static func name(_ session: SessionID, _ generation: Int64) -> [UInt8] {
      let number = UInt64(bitPattern: generation)
      let shifts = stride(from: UInt64(56), through: 0, by: -8)
      return session.bytes + shifts.map { UInt8(truncatingIfNeeded: number >> $0) }
    }
  }
}
