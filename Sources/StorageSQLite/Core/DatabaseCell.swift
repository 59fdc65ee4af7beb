import LatchkeyModel
import Storage

/// Which cell a file belongs to, in the number that SQLite keeps in a file's header for the application: `LK` and the
/// cell. 0, as in every file that was made before there were cells, is cell 0.
enum DatabaseCell {
  private static let mark: Int64 = 0x4C4B_0000

  static func write(_ cell: Cell, on connection: SQLiteConnection) throws(StorageError) {
    try connection.run("PRAGMA application_id = \(mark | Int64(cell.number))")
  }

  /// Errors: `corrupt` for a file of another application.
  static func read(on connection: SQLiteConnection) throws(StorageError) -> Cell {
    let number = try connection.first("PRAGMA application_id") { $0.integer(0) } ?? 0
    if number == 0 { return .first }
    guard number & ~0xFFFF == mark else {
      throw StorageError(.corrupt, operation: connection.operation, detail: "it is a file of another application")
    }
    return Cell(UInt16(number & 0xFFFF))
  }
}
