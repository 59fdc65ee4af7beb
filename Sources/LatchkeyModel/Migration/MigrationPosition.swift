/// A place in a list of migrations, newest first: by time, and by id where times are the same.
package struct MigrationPosition: Sendable, Hashable {
  package let createdAt: Timestamp
  package let id: MigrationID

  package init(createdAt: Timestamp, id: MigrationID) {
    self.createdAt = createdAt
    self.id = id
  }

  // MARK: As a page token

  private static let version: UInt8 = 2

  /// Opaque to clients: they hand it back as it is.
  package var pageToken: String {
    id.cell.prefix + Base64URL.encode([Self.version] + createdAt.bigEndianBytes + id.bytes)
  }

  /// Nil for a text that `pageToken` never gives.
  package init?(pageToken: String) {
    let (cell, rest) = Cell.read(pageToken)
    guard rest.utf8.count <= 34, let bytes = Base64URL.decode(rest), bytes.count == 25,
      bytes[0] == Self.version, let id = MigrationID(bytes: Array(bytes[9...]), in: cell)
    else { return nil }
    self.init(createdAt: Timestamp(bigEndianBytes: bytes[1..<9]), id: id)
  }
}
