import Cryptography
import LatchkeyModel

/// Makes and recognises challenges for device keys, without remembering them: only a used one is written down, together
/// with what it was used for.
///
/// A challenge is 32 bytes: a random nonce (11), the work it asks for (1, bits), the time it expires (4, seconds since
/// the epoch) and an HMAC-SHA256 over all of them, the client and the key's thumbprint (16, truncated as RFC 2104
/// section 5 allows). So asking for
/// challenges costs no storage, a restart voids none, and none can be used by another key or client.
package struct ChallengeBook: Sendable {
  private static let nonceBytes = 11
  private static let headBytes = nonceBytes + 1 + 4
  private static let byteCount = 32

  private let key: [UInt8]
  private let lifetime: Duration
  private let random: RandomSource

  /// - Parameter key: 32 secret bytes, used for nothing else.
  package init(key: RedactedSecret, lifetime: Duration, random: RandomSource) {
    self.key = key.exposed
    self.lifetime = lifetime
    self.random = random
  }

  package struct Challenge: Sendable, Equatable {
    package let text: String
    package let expiry: Timestamp
    /// Zero bits that SHA-256 of the challenge and the solution must begin with.
    package let workBits: Int
    /// SHA-256 of the text: what is kept of a used one.
    package var hash: [UInt8] { SHA256Hash.hash(Array(text.utf8)) }
  }

  package func make(client: ClientID, keyThumbprint: String, workBits: Int, at now: Timestamp) -> Challenge {
    let seconds = UInt32(truncatingIfNeeded: (now + lifetime).secondsSinceEpoch)
    var head = random.bytes(Self.nonceBytes)
    head.append(UInt8(clamping: workBits))
    for shift in stride(from: UInt32(24), through: 0, by: -8) {
      head.append(UInt8(truncatingIfNeeded: seconds >> shift))
    }
    let text = Base64URL.encode(head + authenticator(head, client, keyThumbprint))
    return Challenge(text: text, expiry: Timestamp(secondsSinceEpoch: Int64(seconds)), workBits: workBits)
  }

  /// The challenge, if we made it for this client and key and it has not expired; nil says no more than that.
  package func recognise(
    _ text: String, client: ClientID, keyThumbprint: String, at now: Timestamp
  ) -> Challenge? {
    guard text.utf8.count <= 64, let bytes = Base64URL.decode(text), bytes.count == Self.byteCount else { return nil }
    let head = Array(bytes[..<Self.headBytes])
    guard ConstantTime.equals(Array(bytes[head.count...]), authenticator(head, client, keyThumbprint)) else {
      return nil
    }
    let seconds = head[(Self.nonceBytes + 1)...].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
    let expiry = Timestamp(secondsSinceEpoch: Int64(seconds))
    guard now < expiry else { return nil }
    return Challenge(text: text, expiry: expiry, workBits: Int(head[Self.nonceBytes]))
  }

  private func authenticator(_ head: [UInt8], _ client: ClientID, _ keyThumbprint: String) -> [UInt8] {
    var message = Array("latchkey-challenge-v1".utf8)
    message.append(0)
    message.append(contentsOf: client.description.utf8)
    message.append(0)
    message.append(contentsOf: keyThumbprint.utf8)
    message.append(0)
    message.append(contentsOf: head)
    return Array(HMACSHA256.authenticate(message, key: key)[..<16])
  }
}
