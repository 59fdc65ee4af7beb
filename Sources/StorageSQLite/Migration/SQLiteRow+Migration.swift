import LatchkeyModel
import Storage

extension SQLiteRow {
  /// The 16 bytes of an id. Anything else in such a column means that the file is damaged.
  func opaqueID<ID: OpaqueID>(_ column: Int32, as type: ID.Type = ID.self) throws(StorageError) -> ID {
    guard let id = ID(bytes: blob(column), in: cell) else { throw damaged("id") }
    return id
  }

  func collection(_ column: Int32) throws(StorageError) -> CollectionName {
    guard let name = CollectionName(text(column)) else { throw damaged("collection") }
    return name
  }

  func recordKey(_ column: Int32) throws(StorageError) -> RecordKey {
    guard let key = RecordKey(text(column)) else { throw damaged("key") }
    return key
  }

  /// A value that is stored by its raw name.
  func named<Value: RawRepresentable<String>>(_ column: Int32, as type: Value.Type = Value.self) throws(StorageError)
    -> Value
  {
    guard let value = Value(rawValue: text(column)) else { throw damaged("\(type)") }
    return value
  }

  /// The columns `key, value, number, updated_at, revision`, from `column` on.
  func record(_ column: Int32, in collection: CollectionName) throws(StorageError) -> Record {
    Record(
      name: RecordName(collection: collection, key: try recordKey(column)),
      content: content(column + 1),
      revision: integer(column + 4))
  }

  /// The columns `value, number, updated_at`, from `column` on.
  func content(_ column: Int32) -> RecordContent {
    RecordContent(value: blob(column), number: integer(column + 1), updatedAt: timestamp(column + 2))
  }

  private func damaged(_ what: String) -> StorageError {
    StorageError(.corrupt, operation: "read a row", detail: "no valid \(what) in its column")
  }
}

extension SQLiteValue {
  static func name(_ name: CollectionName) -> SQLiteValue { .text(name.description) }

  static func key(_ key: RecordKey) -> SQLiteValue { .text(key.description) }
}
