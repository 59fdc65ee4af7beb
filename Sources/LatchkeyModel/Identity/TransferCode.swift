/// A code that a person types on a new phone: 16 consonants, 69 bits, so that it stands alone where nobody is signed in
/// yet and guesses cannot be counted against anyone.
package struct TransferCode: Sendable, Equatable, CustomStringConvertible, CustomDebugStringConvertible,
  CustomReflectable
{
  package static let length = 16
  private static let group = 4

  private let letters: [UInt8]

  package init(random: RandomSource) {
    letters = ConsonantText.draw(TransferCode.length, random)
  }

  /// Reads what a person typed: any case, with hyphens and spaces wherever they like. Nil for anything else.
  package init?(typed text: String) {
    guard let letters = ConsonantText.read(text, length: TransferCode.length) else { return nil }
    self.letters = letters
  }

  /// `XXXX-XXXX-XXXX-XXXX`, as it is shown.
  package var text: String {
    stride(from: 0, to: letters.count, by: TransferCode.group)
      .map { String(decoding: letters[$0..<$0 + TransferCode.group], as: UTF8.self) }
      .joined(separator: "-")
  }

  /// What is hashed: the letters alone.
  package var bytes: [UInt8] { letters }

  package var description: String { "[redacted]" }
  package var debugDescription: String { description }
  package var customMirror: Mirror { Mirror(self, children: []) }
}
