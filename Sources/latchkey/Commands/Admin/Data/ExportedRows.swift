import Cryptography
import StorageSQLite

/// The rows of one exported table. They are to be believed once all were read: their number and SHA-256 are the manifest's.
struct ExportedRows {
  let service: ExportManifest.Service
  let table: ExportManifest.Table
  let folder: String

  /// Hands over each row in its order, with the line that it was.
  func forEach(_ body: (_ values: [SQLiteValue], _ line: [UInt8]) async throws -> Void) async throws {
    let name = "\(folder)/\(service.file(of: table))"
    var file = try InputFile(name)
    let digest = SHA256Digest()
    var count: Int64 = 0
    while let line = try file.line() {
      count += 1
      let whole = line + [UInt8(ascii: "\n")]
      digest.update(whole)
      guard let values = ExportLine.values(line, of: table.columns) else {
        throw CommandFailure(.invalid, "\(name), line \(count): not a row of \(table.name)")
      }
      try await body(values, whole)
    }
    guard count == table.rows, digest.hexadecimal() == table.hash else {
      throw CommandFailure(.invalid, "\(name) is not what was exported: \(count) rows of \(table.rows)")
    }
  }
}

/// What rows come to in whatever order: their number, and the sum of their lines' SHA-256. Two tables with the same rows
/// have the same; one in which a row is missing, doubled or changed by an accident has not.
struct RowSum: Equatable {
  private(set) var rows: Int64 = 0
  private var words: [UInt64] = [0, 0, 0, 0]

  mutating func add(_ line: [UInt8]) {
    rows += 1
    let hash = SHA256Hash.hash(line)
    for word in words.indices {
      words[word] &+= hash[(word * 8)..<(word * 8 + 8)].reduce(0) { $0 << 8 | UInt64($1) }
    }
  }
}
