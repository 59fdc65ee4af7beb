/// A place in a collection listed newest first: by time, and by key where times are the same.
package struct RecordPosition: Sendable, Hashable {
  package let updatedAt: Timestamp
  package let key: RecordKey

  package init(updatedAt: Timestamp, key: RecordKey) {
    self.updatedAt = updatedAt
    self.key = key
  }

  // MARK: As a page token

  private static let version: UInt8 = 1

  /// Opaque to clients: they hand it back as it is.
  package var pageToken: String {
    Base64URL.encode([Self.version] + updatedAt.bigEndianBytes + Array(key.description.utf8))
  }

  /// Nil for a text that `pageToken` never gives.
  package init?(pageToken: String) {
    guard pageToken.utf8.count <= (9 + RecordKey.maximumBytes) * 4 / 3 + 1,
      let bytes = Base64URL.decode(pageToken), bytes.count > 9, bytes[0] == Self.version,
      let text = String(validating: bytes[9...], as: UTF8.self), let key = RecordKey(text)
    else { return nil }
    self.init(updatedAt: Timestamp(bigEndianBytes: bytes[1..<9]), key: key)
  }
}
