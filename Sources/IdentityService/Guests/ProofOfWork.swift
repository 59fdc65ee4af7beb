import Cryptography

/// Work that a caller does so that guests cost something where many are made.
enum ProofOfWork {
  /// Whether SHA-256 over the challenge's text and the solution begins with the zero bits that the challenge asks for.
  static func holds(_ solution: [UInt8], for challenge: ChallengeBook.Challenge) -> Bool {
    if challenge.workBits == 0 { return true }
    return leadingZeroBits(SHA256Hash.hash(Array(challenge.text.utf8) + solution)) >= challenge.workBits
  }

  /// One bit more, twice the work, for each doubling of how far a network is above its count.
  static func bits(forExcess excess: Int64) -> Int {
    guard excess > 0 else { return 0 }
    let doublings = Int64.bitWidth - 1 - excess.leadingZeroBitCount
    return min(Limits.leastWorkBits + doublings, Limits.mostWorkBits)
  }

  static func leadingZeroBits(_ bytes: [UInt8]) -> Int {
    var count = 0
    for byte in bytes {
      guard byte == 0 else { return count + byte.leadingZeroBitCount }
      count += 8
    }
    return count
  }
}
