/// Names a record within its collection: 1 to 256 bytes of UTF-8 without control characters.
package struct RecordKey: Sendable, Hashable, LosslessStringConvertible {
  package static let maximumBytes = 256

  private let text: String

  package init?(_ text: String) {
    guard (1...Self.maximumBytes).contains(text.utf8.count) else { return nil }
    for byte in text.utf8 where byte < 0x20 || byte == 0x7F { return nil }
    self.text = text
  }

  package var description: String { text }

  /// The key under which APPEND stores a guest's record beside the account's. A migration's id is random, so nobody has
  /// a record of that name beforehand. Nil when it would be too long.
  package func appended(by migration: MigrationID) -> RecordKey? {
    RecordKey("\(text)~\(migration.description.prefix(8))")
  }
}
