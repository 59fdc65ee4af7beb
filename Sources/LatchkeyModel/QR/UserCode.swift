/// A code that a person can type where there is no camera: 8 consonants, so that it spells no word and no letter looks
/// like a digit (RFC 8628 section 6.1).
///
/// 20^8 is 34 bits: far too little to stand alone, which is why typing one counts against the account's five tries.
package struct UserCode: Sendable, Equatable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  package static let length = 8

  /// The 8 letters, in upper case.
  package let letters: [UInt8]

  package init(random: RandomSource) {
    letters = ConsonantText.draw(UserCode.length, random)
  }

  /// Reads what a person typed: any case, with hyphens and spaces wherever they like. Nil for anything else.
  package init?(typed text: String) {
    guard let letters = ConsonantText.read(text, length: UserCode.length) else { return nil }
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
