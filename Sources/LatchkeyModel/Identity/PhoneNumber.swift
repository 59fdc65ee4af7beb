/// A phone number in the international form of ITU-T E.164: `+`, then 7 to 15 digits of which the first is not zero.
/// Spaces, hyphens, dots and parentheses between digits, as people write them, are dropped.
package struct PhoneNumber: Sendable, Hashable, LosslessStringConvertible {
  private let text: String

  package init?(_ text: String) {
    guard text.utf8.count <= 32, text.utf8.first == UInt8(ascii: "+") else { return nil }
    var digits: [UInt8] = []
    for byte in text.utf8.dropFirst() {
      if byte.isASCIIDigit {
        digits.append(byte)
      } else if !" -.()".utf8.contains(byte) {
        return nil
      }
    }
    guard (7...15).contains(digits.count), digits[0] != UInt8(ascii: "0") else { return nil }
    self.text = "+" + String(decoding: digits, as: UTF8.self)
  }

  package var description: String { text }

  /// Such as `+49***89`.
  package var mask: String { "\(text.prefix(3))***\(text.suffix(2))" }
}
