internal import Cryptography
package import LatchkeyModel

/// Nonces for proofs of possession (RFC 9449 section 8): a proof that must hold one cannot have been made long before it
/// is shown.
///
/// Made from the time and a key of this process, so that nothing is remembered, and a proof that holds one is of no use
/// at another instance or after a restart: proofs that were taken are known only where they were (section 11.1).
package struct ProofNonces: Sendable {
  /// The name under which clients are told a nonce.
  package static let metadataName = "dpop-nonce"

  private let key: RedactedSecret

  package init(key: RedactedSecret) {
    self.key = key
  }

  package init() {
    key = RedactedSecret(SecureRandom.bytes(32))
  }

  /// The nonce of this time.
  package func current(at now: Timestamp) -> String {
    nonce(period(now))
  }

  /// Whether the nonce is of this time or of the time before it.
  package func accepts(_ nonce: String, at now: Timestamp) -> Bool {
    let period = period(now)
    return ConstantTime.equals(nonce, self.nonce(period)) || ConstantTime.equals(nonce, self.nonce(period - 1))
  }

  private func period(_ now: Timestamp) -> Int64 {
    now.secondsSinceEpoch / Limits.proofNonceSeconds
  }

  private func nonce(_ period: Int64) -> String {
    let code = HMACSHA256.authenticate(Array("dpop-nonce \(period)".utf8), key: key.exposed)
    return Base64URL.encode(Array(code[..<16]))
  }
}
