/// Names a record within its collection: 1 to 256 bytes of UTF-8 without control characters.
///
/// A key is its bytes, as it is to storage and to apps in other languages: two forms of one text, such as `é` in one
/// character and as `e` with a combining accent, are two keys. They are in the order of their bytes.
package struct RecordKey: Sendable, Hashable, Comparable, LosslessStringConvertible {
  package static let maximumBytes = 256

  private let text: String

  package init?(_ text: String) {
    guard (1...Self.maximumBytes).contains(text.utf8.count) else { return nil }
    for byte in text.utf8 where byte < 0x20 || byte == 0x7F { return nil }
    self.text = text
  }

  package var description: String { text }

  // Texts themselves compare by canonical equivalence.

  package static func == (left: RecordKey, right: RecordKey) -> Bool { left.text.utf8.elementsEqual(right.text.utf8) }

  package static func < (left: RecordKey, right: RecordKey) -> Bool {
    left.text.utf8.lexicographicallyPrecedes(right.text.utf8)
  }

  package func hash(into hasher: inout Hasher) {
    for byte in text.utf8 { hasher.combine(byte) }
  }

  /// The key under which APPEND stores a guest's record beside the account's. A migration's id is random, so nobody has
  /// a record of that name beforehand. Nil when it would be too long.
  package func appended(by migration: MigrationID) -> RecordKey? {
    RecordKey("\(text)~\(migration.description.prefix(8))")
  }

  /// The key of which this may be the one that `appended(by:)` made; nil when it cannot be.
  package var unappended: RecordKey? {
    let bytes = Array(text.utf8)
    guard bytes.count > 9, bytes[bytes.count - 9] == UInt8(ascii: "~") else { return nil }
    return String(validating: bytes.dropLast(9), as: UTF8.self).flatMap { RecordKey($0) }
  }
}
