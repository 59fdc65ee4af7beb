/// A name that an account is known by: 3 to 32 letters, digits, `.`, `_` and `-` of ASCII, beginning with a letter, so
/// that it is neither a phone number nor two names that merely look alike.
package struct UserName: Sendable, Hashable, LosslessStringConvertible {
  private let text: String

  package init?(_ text: String) {
    let bytes = Array(text.utf8)
    guard (3...32).contains(bytes.count), bytes[0].isASCIILetter else { return nil }
    for byte in bytes where !byte.isASCIIAlphanumeric && !".-_".utf8.contains(byte) { return nil }
    self.text = text
  }

  package var description: String { text }

  package var canonical: String { text.lowercasedASCII }

  /// Such as `a***`.
  package var mask: String { "\(text.prefix(1))***" }
}
