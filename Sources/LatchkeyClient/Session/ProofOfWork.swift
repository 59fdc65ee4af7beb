import Cryptography

/// The work that a service asks of a caller it has reason to slow down.
enum ProofOfWork {
  /// Bytes s such that SHA-256(challenge, s) begins with that many zero bits. Empty when none are asked for.
  ///
  /// Takes 2^bits hashes on average. Errors: ``ClientError/incompleteAnswer(_:)`` for more bits than an honest service
  /// asks for, so a hostile one cannot keep a phone busy until its battery is empty.
  static func solution(of challenge: String, leadingZeroBits bits: Int32) throws(ClientError) -> [UInt8] {
    guard bits > 0 else { return [] }
    guard bits <= Limits.proofOfWorkBits else {
      throw .incompleteAnswer("GetChallengeResponse.pow_bits asks for more work than this client does: \(bits)")
    }
    let prefix = Array(challenge.utf8)
    var counter: UInt64 = 0
    while true {
      let candidate = (0..<8).map { UInt8(truncatingIfNeeded: counter >> (8 * UInt64($0))) }
      if leadingZeroBits(of: SHA256Hash.hash(prefix + candidate)) >= bits { return candidate }
      counter += 1
    }
  }

  static func leadingZeroBits(of hash: [UInt8]) -> Int {
    var bits = 0
    for byte in hash {
      bits += byte.leadingZeroBitCount
      if byte != 0 { break }
    }
    return bits
  }
}
