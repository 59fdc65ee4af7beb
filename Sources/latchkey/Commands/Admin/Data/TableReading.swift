import Cryptography
import JSON
import Storage
import StorageSQLite

/// Reads a table of a file to its end, and says what its lines come to.
struct TableReading {
  let snapshot: SQLiteSnapshot
  let table: SQLiteTable
  /// Called for each row that was read.
  let told: () -> Void

  /// - Parameter file: gets the lines; nil when only their hash is wanted.
  func run(into file: PrivateFile?) throws -> ExportManifest.Table {
    let lines = TableLines(name: table.name, columns: table.columns, file: file)
    try snapshot.forEachRow(of: table) { values in
      lines.add(values)
      told()
    }
    return try lines.finish()
  }
}

/// The rows of a table as lines, one after the other, and what they come to.
final class TableLines {
  private let name: String
  private let columns: [SQLiteTable.Column]
  private let file: PrivateFile?
  private let digest = SHA256Digest()
  private var (rows, bytes): (Int64, Int64) = (0, 0)
  /// What went wrong first: who hands over rows need not care.
  private var failure: CommandFailure?

  /// - Parameter file: gets the lines; nil when only their hash is wanted.
  init(name: String, columns: [SQLiteTable.Column], file: PrivateFile?) {
    self.name = name
    self.columns = columns
    self.file = file
  }

  func add(_ values: [SQLiteValue]) {
    guard failure == nil else { return }
    let line = ExportLine.text(values, of: columns)
    digest.update(line)
    rows += 1
    bytes += Int64(line.count)
    do throws(CommandFailure) {
      guard line.count <= JSON.Limits.bytes else {
        throw CommandFailure(.file, "a row of \(name) is longer than \(JSON.Limits.bytes) bytes as JSON")
      }
      try file?.write(line)
    } catch {
      failure = error
    }
  }

  func finish() throws(CommandFailure) -> ExportManifest.Table {
    if let failure { throw failure }
    try file?.finish()
    return ExportManifest.Table(name: name, columns: columns, rows: rows, bytes: bytes, hash: digest.hexadecimal())
  }
}
