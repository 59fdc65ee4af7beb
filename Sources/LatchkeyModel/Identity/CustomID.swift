/// A name that an app made for an account that nobody types, such as a random UUID.
package struct CustomID: Sendable, Hashable, LosslessStringConvertible {
  package static let length = 16...64

  private let text: String

  /// Nil for anything but 16 to 64 letters, digits, `-` or `_`. Case counts.
  package init?(_ text: String) {
    guard Self.length.contains(text.utf8.count) else { return nil }
    for byte in text.utf8 where !byte.isASCIIAlphanumeric && byte != UInt8(ascii: "-") && byte != UInt8(ascii: "_") {
      return nil
    }
    self.text = text
  }

  package var description: String { text }

  package var mask: String { "\(text.prefix(2))***\(text.suffix(2))" }
}
