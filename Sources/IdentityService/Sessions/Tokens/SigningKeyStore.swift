import Cryptography
import LatchkeyModel

/// A key that signs tokens.
package struct SigningKey: Sendable {
  package let entry: SigningKeySchedule.Entry
  package let key: P256PrivateKey

  package init(_ key: P256PrivateKey, notBefore: Timestamp) {
    entry = SigningKeySchedule.Entry(id: key.publicKey.thumbprint, notBefore: notBefore)
    self.key = key
  }

  /// A new one.
  package static func make(notBefore: Timestamp) throws(SigningKeyError) -> SigningKey {
    do {
      return SigningKey(try P256PrivateKey(), notBefore: notBefore)
    } catch {
      throw .unmade
    }
  }
}

/// Where the signing keys are kept.
package protocol SigningKeyStore: Sendable {
  /// Whether other processes have the same keys and make some, so that what was read holds for a while only.
  var isShared: Bool { get }

  func load() async throws(SigningKeyError) -> SigningKeyReading

  /// Stores and forgets what `decide` says of the keys that are there, at a time that is the same for all who have them.
  /// `decide` may be asked more than once.
  func change(
    _ decide: @escaping SigningKeyDecision
  ) async throws(SigningKeyError) -> (change: SigningKeyChange, reading: SigningKeyReading)
}

package typealias SigningKeyDecision =
  @Sendable (_ keys: [SigningKey], _ now: Timestamp) throws(SigningKeyError) -> SigningKeyChange

package struct SigningKeyChange: Sendable {
  package var new: [SigningKey] = []
  package var gone: [SigningKeySchedule.Entry] = []

  package var isEmpty: Bool { new.isEmpty && gone.isEmpty }
}

/// The keys that were found.
package struct SigningKeyReading: Sendable {
  package let keys: [SigningKey]
  /// The time of those who keep them.
  package let time: Timestamp
  /// They are those of this moment, or of a later one.
  package let asOf: ContinuousClock.Instant
  /// When `time` was known here, not before it was.
  package let heard: ContinuousClock.Instant
}
