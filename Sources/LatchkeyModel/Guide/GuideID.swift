/// Names a guide or a step of one: lower-case letters, digits, `.`, `_` and `-`, 1 to 64 characters, beginning with a
/// letter or digit.
package struct GuideID: Sendable, Hashable, LosslessStringConvertible {
  package static let maximumLength = 64

  private let text: String

  package init?(_ text: String) {
    let bytes = Array(text.utf8)
    guard (1...Self.maximumLength).contains(bytes.count), bytes[0].isASCIILowerAlphanumeric else { return nil }
    for byte in bytes where !byte.isASCIILowerAlphanumeric && !".-_".utf8.contains(byte) { return nil }
    self.text = text
  }

  package var description: String { text }
}
