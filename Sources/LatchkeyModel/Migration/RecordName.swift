/// Where a record stands among its subject's records.
package struct RecordName: Sendable, Hashable, Comparable {
  package let collection: CollectionName
  package let key: RecordKey

  package init(collection: CollectionName, key: RecordKey) {
    self.collection = collection
    self.key = key
  }

  package static func < (left: RecordName, right: RecordName) -> Bool {
    (left.collection, left.key) < (right.collection, right.key)
  }

  // MARK: As a page token

  private static let version: UInt8 = 3

  /// Opaque to clients: they hand it back as it is.
  package var pageToken: String { Base64URL.encode([Self.version] + Array("\(collection)/\(key)".utf8)) }

  /// Nil for a text that `pageToken` never gives.
  package init?(pageToken: String) {
    guard pageToken.utf8.count <= (CollectionName.maximumBytes + RecordKey.maximumBytes + 2) * 4 / 3 + 1,
      let bytes = Base64URL.decode(pageToken), bytes.first == Self.version,
      // By bytes: a key that begins with a combining mark is one character with the slash.
      let slash = bytes.firstIndex(of: UInt8(ascii: "/")),
      let collection = String(validating: bytes[1..<slash], as: UTF8.self).flatMap({ CollectionName($0) }),
      let key = String(validating: bytes[(slash + 1)...], as: UTF8.self).flatMap({ RecordKey($0) })
    else { return nil }
    self.init(collection: collection, key: key)
  }

  /// Bytes of the name, as they count towards a subject's bound.
  package var bytes: Int { collection.description.utf8.count + key.description.utf8.count }
}
