import LatchkeyModel
import Storage

/// A row that a statement answered. Columns count from 0, in the order that the statement names them.
package struct PostgreSQLRow {
  private let result: PostgreSQLResult
  private let row: Int32

  init(_ result: PostgreSQLResult, _ row: Int32) {
    self.result = result
    self.row = row
  }

  /// Of the ids in the database.
  package var cell: Cell { result.cell }

  package func isNull(_ column: Int32) -> Bool { result.isNull(row, column) }

  /// 0 for NULL. A sum is cast to `bigint` by its statement.
  package func integer(_ column: Int32) -> Int64 {
    // bool, bigint, smallint, integer (pg_type.dat).
    precondition([16, 20, 21, 23].contains(result.type(column)), "the statement names a whole number here")
    return unsafe result.bytes(row, column) { bytes in
      guard let first = unsafe bytes.first else { return 0 }
      // Big-endian, with a sign.
      return unsafe bytes.dropFirst().reduce(Int64(Int8(bitPattern: first))) { $0 << 8 | Int64($1) }
    }
  }

  package func boolean(_ column: Int32) -> Bool { integer(column) != 0 }

  package func bool(_ column: Int32) -> Bool { integer(column) != 0 }

  /// Empty for NULL.
  package func text(_ column: Int32) -> String {
    unsafe result.bytes(row, column) { unsafe String(decoding: $0, as: UTF8.self) }
  }

  /// Empty for NULL.
  package func blob(_ column: Int32) -> [UInt8] { unsafe result.bytes(row, column) { unsafe [UInt8]($0) } }

  /// Empty for NULL.
  package func bytes(_ column: Int32) -> [UInt8] { blob(column) }

  package func optionalInteger(_ column: Int32) -> Int64? { isNull(column) ? nil : integer(column) }

  package func optionalBoolean(_ column: Int32) -> Bool? { isNull(column) ? nil : boolean(column) }

  package func optionalText(_ column: Int32) -> String? { isNull(column) ? nil : text(column) }

  package func optionalBlob(_ column: Int32) -> [UInt8]? { isNull(column) ? nil : blob(column) }

  package func optionalBytes(_ column: Int32) -> [UInt8]? { optionalBlob(column) }

  // MARK: Values of the model

  package func timestamp(_ column: Int32) -> Timestamp { Timestamp(millisecondsSinceEpoch: integer(column)) }

  package func optionalTimestamp(_ column: Int32) -> Timestamp? { isNull(column) ? nil : timestamp(column) }

  /// An id that the schema says is there and has 16 bytes.
  package func id<ID: OpaqueID>(_ column: Int32) throws(StorageError) -> ID {
    guard let id = ID(bytes: blob(column), in: cell) else {
      throw StorageError(.corrupt, operation: "read an id", detail: "column \(column) is no id")
    }
    return id
  }

  package func optionalID<ID: OpaqueID>(_ column: Int32) throws(StorageError) -> ID? {
    isNull(column) ? nil : try id(column)
  }

  package func parsed<Value: LosslessStringConvertible>(_ column: Int32) throws(StorageError) -> Value {
    guard let value = Value(text(column)) else {
      throw StorageError(.corrupt, operation: "read a value", detail: "column \(column) is no \(Value.self)")
    }
    return value
  }
}
