/// Where a record stands among its subject's records.
package struct RecordName: Sendable, Hashable {
  package let collection: CollectionName
  package let key: RecordKey

  package init(collection: CollectionName, key: RecordKey) {
    self.collection = collection
    self.key = key
  }

  // MARK: As a page token

  private static let version: UInt8 = 3

  /// Opaque to clients: they hand it back as it is.
  package var pageToken: String { Base64URL.encode([Self.version] + Array("\(collection)/\(key)".utf8)) }

  /// Nil for a text that `pageToken` never gives.
  package init?(pageToken: String) {
    guard pageToken.utf8.count <= (CollectionName.maximumBytes + RecordKey.maximumBytes + 2) * 4 / 3 + 1,
      let bytes = Base64URL.decode(pageToken), bytes.first == Self.version,
      let text = String(validating: bytes[1...], as: UTF8.self), let slash = text.firstIndex(of: "/"),
      let collection = CollectionName(String(text[..<slash])),
      let key = RecordKey(String(text[text.index(after: slash)...]))
    else { return nil }
    self.init(collection: collection, key: key)
  }

  /// Bytes of the name, as they count towards a subject's bound.
  package var bytes: Int { collection.description.utf8.count + key.description.utf8.count }
}
