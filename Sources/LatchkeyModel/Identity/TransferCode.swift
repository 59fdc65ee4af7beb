/// A code that a person types on a new phone: 16 consonants, 69 bits, so that it stands alone where nobody is signed in
/// yet and guesses cannot be counted against anyone.
package struct TransferCode: Sendable, Equatable, CustomStringConvertible, CustomDebugStringConvertible,
  CustomReflectable
{
  package static let length = 16

  private let letters: [UInt8]
  /// Where the transfer is offered.
  package let cell: Cell

  package init(random: RandomSource) {
    letters = ConsonantText.draw(TransferCode.length, random)
    cell = random.cell
  }

  /// Reads what a person typed: any case, with hyphens and spaces wherever they like. Nil for anything else.
  package init?(typed text: String) {
    guard let (cell, letters) = ConsonantText.read(text, length: TransferCode.length) else { return nil }
    self.letters = letters
    self.cell = cell
  }

  /// `XXXX-XXXX-XXXX-XXXX`, as it is shown; in another cell than 0 behind its number and a hyphen.
  package var text: String { ConsonantText.text(letters, in: cell) }

  /// What is hashed: the letters alone.
  package var bytes: [UInt8] { letters }

  package var description: String { "[redacted]" }
  package var debugDescription: String { description }
  package var customMirror: Mirror { Mirror(self, children: []) }
}
