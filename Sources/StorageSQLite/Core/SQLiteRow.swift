import LatchkeyModel
import Storage

/// The row that a statement stands on. Columns count from 0, in the order that the statement names them.
///
/// Tables are `STRICT`, so a column has the type that the schema gives it.
package struct SQLiteRow {
  private let statement: SQLiteStatement

  init(_ statement: SQLiteStatement) {
    self.statement = statement
  }

  /// Of the ids in the database.
  package var cell: Cell { statement.cell }

  package func isNull(_ column: Int32) -> Bool { statement.isNull(column) }

  /// 0 for NULL.
  package func integer(_ column: Int32) -> Int64 { statement.integer(column) }

  package func boolean(_ column: Int32) -> Bool { statement.integer(column) != 0 }

  /// Empty for NULL.
  package func text(_ column: Int32) -> String { statement.text(column) }

  /// Empty for NULL.
  package func blob(_ column: Int32) -> [UInt8] { statement.blob(column) }

  package func optionalInteger(_ column: Int32) -> Int64? { isNull(column) ? nil : integer(column) }

  package func optionalText(_ column: Int32) -> String? { isNull(column) ? nil : text(column) }

  package func optionalBlob(_ column: Int32) -> [UInt8]? { isNull(column) ? nil : blob(column) }

  /// Whatever the column holds. Errors: `corrupt` for text that is none, and for a number with a fraction.
  package func value(_ column: Int32) throws(StorageError) -> SQLiteValue { try statement.value(column) }
}
