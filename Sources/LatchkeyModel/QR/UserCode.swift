/// A code that a person can type where there is no camera: 8 consonants, so that it spells no word and no letter looks
/// like a digit (RFC 8628 section 6.1).
///
/// 20^8 is 34 bits: far too little to stand alone, which is why typing one counts against the account's five tries.
package struct UserCode: Sendable, Equatable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  package static let length = 8

  /// The 8 letters, in upper case.
  package let letters: [UInt8]
  /// Where the session is that it leads to.
  package let cell: Cell

  package init(random: RandomSource) {
    letters = ConsonantText.draw(UserCode.length, random)
    cell = random.cell
  }

  /// Reads what a person typed: any case, with hyphens and spaces wherever they like. Nil for anything else.
  package init?(typed text: String) {
    guard let (cell, letters) = ConsonantText.read(text, length: UserCode.length) else { return nil }
    self.letters = letters
    self.cell = cell
  }

  /// `XXXX-XXXX`, as it is shown; in another cell than 0 behind its number, as in `3-XXXX-XXXX`.
  package var text: String { ConsonantText.text(letters, in: cell) }

  package var description: String { "[redacted]" }
  package var debugDescription: String { description }
  package var customMirror: Mirror { Mirror(self, children: []) }
}
