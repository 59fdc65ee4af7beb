import LatchkeyModel
import Storage

extension PostgreSQLRow {
  func collection(_ column: Int32) throws(StorageError) -> CollectionName {
    guard let name = CollectionName(text(column)) else { throw damaged("collection") }
    return name
  }

  func recordKey(_ column: Int32) throws(StorageError) -> RecordKey {
    guard let key = RecordKey(text(column)) else { throw damaged("key") }
    return key
  }

  /// The columns `collection, key`, from `column` on.
  func recordName(_ column: Int32) throws(StorageError) -> RecordName {
    RecordName(collection: try collection(column), key: try recordKey(column + 1))
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

extension PostgreSQLConnection {
  /// For each name, in their order, what its row says; nil where there is none. The statement takes the id, the collections
  /// and the keys, and its first column is the place of the name, counted from 1.
  func find<Value>(
    _ sql: String, _ names: [RecordName], of id: PostgreSQLValue,
    map: (PostgreSQLRow) throws(StorageError) -> Value
  ) async throws(StorageError) -> [Value?] {
    var found = [Value?](repeating: nil, count: names.count)
    if names.isEmpty { return found }
    let rows = try await all(sql, id, .collections(names), .keys(names)) { row throws(StorageError) in
      (place: Int(row.integer(0)) - 1, value: try map(row))
    }
    for row in rows { found[row.place] = row.value }
    return found
  }
}

extension PostgreSQLValue {
  static func name(_ name: CollectionName) -> PostgreSQLValue { .text(name.description) }

  static func key(_ key: RecordKey) -> PostgreSQLValue { .text(key.description) }

  // MARK: A column of many rows

  static func collections(_ names: [RecordName]) -> PostgreSQLValue { .texts(names.map(\.collection.description)) }

  static func keys(_ names: [RecordName]) -> PostgreSQLValue { .texts(names.map(\.key.description)) }

  /// Statements read -1 as NULL: none of these numbers is negative.
  static func naturals(_ numbers: [Int64?]) -> PostgreSQLValue { .integers(numbers.map { $0 ?? -1 }) }

  /// Statements read an empty text as NULL: none of these texts is empty.
  static func words(_ texts: [String?]) -> PostgreSQLValue { .texts(texts.map { $0 ?? "" }) }

  /// The columns `value, number, updated_at` of many rows.
  static func contents(_ contents: [RecordContent]) -> [PostgreSQLValue] {
    [
      .byteArrays(contents.map(\.value)), .integers(contents.map(\.number)),
      .integers(contents.map(\.updatedAt.millisecondsSinceEpoch)),
    ]
  }
}
