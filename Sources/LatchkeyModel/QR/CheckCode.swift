/// Two digits that the initiating screen shows and the person types on the phone (S9): who relays somebody else's code
/// has to relay this as well, live, and has one try.
package struct CheckCode: Sendable, Equatable {
  /// 0 to 99.
  package let value: UInt8

  /// Derived from the SHA-256 of what both ends of the initiating side know: the digest of the poll secret and the code
  /// challenge. The code's photographer knows neither.
  package init(derivedFrom digest: Digest256) {
    // The bias of 2^64 mod 100 is below 2^-57.
    value = UInt8(digest.words.0 % 100)
  }

  /// What is hashed for `init(derivedFrom:)`.
  package static func preimage(pollSecret: Digest256, challenge: PKCEChallenge) -> [UInt8] {
    Array("latchkey qr check code 1".utf8) + pollSecret.bytes + challenge.digest.bytes
  }

  /// Nil for anything but two digits.
  package init?(typed text: String) {
    let digits = Array(text.utf8)
    guard digits.count == 2, digits.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else {
      return nil
    }
    value = (digits[0] - UInt8(ascii: "0")) * 10 + (digits[1] - UInt8(ascii: "0"))
  }

  package var text: String {
    value < 10 ? "0\(value)" : "\(value)"
  }
}
