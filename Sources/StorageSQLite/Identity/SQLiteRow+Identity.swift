import LatchkeyModel
import Storage

extension SQLiteRow {
  func timestamp(_ column: Int32) -> Timestamp { Timestamp(millisecondsSinceEpoch: integer(column)) }

  /// An id that the schema says is there and has 16 bytes.
  func id<ID: OpaqueID>(_ column: Int32) throws(StorageError) -> ID {
    guard let id = ID(bytes: blob(column), in: cell) else {
      throw StorageError(.corrupt, operation: "read an id", detail: "column \(column) is no id")
    }
    return id
  }

  func optionalID<ID: OpaqueID>(_ column: Int32) throws(StorageError) -> ID? {
    isNull(column) ? nil : try id(column)
  }

  func parsed<Value: LosslessStringConvertible>(_ column: Int32) throws(StorageError) -> Value {
    guard let value = Value(text(column)) else {
      throw StorageError(.corrupt, operation: "read a value", detail: "column \(column) is no \(Value.self)")
    }
    return value
  }
}

extension SQLiteValue {
  static func time(_ time: Timestamp) -> SQLiteValue { .integer(time.millisecondsSinceEpoch) }

  static func id(_ id: some OpaqueID) -> SQLiteValue { .blob(id.bytes) }
}
