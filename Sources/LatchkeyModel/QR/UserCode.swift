/// A code that a person can type where there is no camera: 8 consonants, so that it spells no word and no letter looks
/// like a digit (RFC 8628 section 6.1).
///
/// 20^8 is 34 bits: far too little to stand alone, which is why typing one counts against the account's five tries.
package struct UserCode: Sendable, Equatable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  package static let length = 8
  private static let alphabet = Array("BCDFGHJKLMNPQRSTVWXZ".utf8)

  /// The 8 letters, in upper case.
  package let letters: [UInt8]

  /// Draws letters from `random` without bias: bytes of 240 and more are thrown away, so that 20 divides what is left.
  package init(random: RandomSource) {
    var letters: [UInt8] = []
    while letters.count < UserCode.length {
      for byte in random.bytes(UserCode.length) where byte < 240 && letters.count < UserCode.length {
        letters.append(UserCode.alphabet[Int(byte) % UserCode.alphabet.count])
      }
    }
    self.letters = letters
  }

  /// Reads what a person typed: any case, with hyphens and spaces wherever they like. Nil for anything else.
  package init?(typed text: String) {
    guard text.utf8.count <= 32 else { return nil }
    var letters: [UInt8] = []
    for character in text.utf8 where character != UInt8(ascii: "-") && character != UInt8(ascii: " ") {
      let letter = (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(character) ? character - 32 : character
      guard UserCode.alphabet.contains(letter), letters.count < UserCode.length else { return nil }
      letters.append(letter)
    }
    guard letters.count == UserCode.length else { return nil }
    self.letters = letters
  }

  /// `XXXX-XXXX`, as it is shown.
  package var text: String {
    String(decoding: letters.prefix(4) + [UInt8(ascii: "-")] + letters.suffix(4), as: UTF8.self)
  }

  package var description: String { "[redacted]" }
  package var debugDescription: String { description }
  package var customMirror: Mirror { Mirror(self, children: []) }
}
