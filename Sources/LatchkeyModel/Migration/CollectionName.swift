/// What kind of things a record is one of, such as `history` or `cart`: lower-case letters, digits, `_` and `-`, 1 to
/// 64 bytes.
package struct CollectionName: Sendable, Hashable, Comparable, LosslessStringConvertible {
  package static let maximumBytes = 64

  private let text: String

  package init?(_ text: String) {
    guard (1...Self.maximumBytes).contains(text.utf8.count) else { return nil }
    for byte in text.utf8 where !byte.isASCIILowerAlphanumeric && byte != 0x5F && byte != 0x2D { return nil }
    self.text = text
  }

  package var description: String { text }

  package static func < (left: CollectionName, right: CollectionName) -> Bool { left.text < right.text }
}
