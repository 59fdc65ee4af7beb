import Cryptography
import JSON
import Storage
import StorageSQLite

/// Reads a table to its end, and says what its lines come to.
struct TableReading {
  let snapshot: SQLiteSnapshot
  let table: SQLiteTable
  /// Called for each row that was read.
  let told: () -> Void

  /// - Parameter file: gets the lines; nil when only their hash is wanted.
  func run(into file: PrivateFile?) throws -> ExportManifest.Table {
    let digest = SHA256Digest()
    var (rows, bytes): (Int64, Int64) = (0, 0)
    var failure: CommandFailure?
    try snapshot.forEachRow(of: table) { values in
      guard failure == nil else { return }
      let line = ExportLine.text(values, of: table.columns)
      digest.update(line)
      rows += 1
      bytes += Int64(line.count)
      do throws(CommandFailure) {
        guard line.count <= JSON.Limits.bytes else {
          throw CommandFailure(.file, "a row of \(table.name) is longer than \(JSON.Limits.bytes) bytes as JSON")
        }
        try file?.write(line)
      } catch {
        failure = error
      }
      told()
    }
    if let failure { throw failure }
    try file?.finish()
    return ExportManifest.Table(
      name: table.name, columns: table.columns, rows: rows, bytes: bytes, hash: digest.hexadecimal())
  }
}
