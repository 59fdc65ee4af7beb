import Cryptography
import Storage
import StorageSQLite

/// Makes one service's database, beside where it will be.
struct ServiceImport {
  let service: ExportManifest.Service
  let folder: String
  let path: String

  private static let chunk = 1000

  func run(_ work: inout ImportProgress) throws {
    // What an import left that was ended is of no use.
    for suffix in ["", "-journal", "-wal", "-shm"] { try Folder.removeFile(path + suffix) }
    do {
      let database = try SQLiteRebuild(path: path, schema: service.service.schema, version: service.schema)
      let named = service.tables.map { [$0.name] + $0.columns.map { "\($0.name) \($0.type)" } }
      guard named == database.tables.map({ [$0.name] + $0.columns.map { "\($0.name) \($0.type)" } }) else {
        throw CommandFailure(
          .invalid, "\(folder) has other tables than version \(service.schema) of \(service.service.rawValue)")
      }
      for (table, expected) in zip(database.tables, service.tables) { try fill(table, expected, of: database, &work) }
      try database.finish()
    }
    guard try Self.tables(at: path, &work) == service.tables else {
      throw CommandFailure(.file, "\(path) does not hold what was stored in it: is the disk sound?")
    }
    try Folder.synchronize(path)
  }

  private func fill(
    _ table: SQLiteTable, _ expected: ExportManifest.Table, of database: SQLiteRebuild, _ work: inout ImportProgress
  ) throws {
    let name = "\(folder)/\(service.file(of: expected))"
    var file = try InputFile(name)
    let digest = SHA256Digest()
    var count: Int64 = 0
    var rows: [[SQLiteValue]] = []
    while let line = try file.line() {
      count += 1
      digest.update(line + [UInt8(ascii: "\n")])
      guard let values = ExportLine.values(line, of: table) else {
        throw CommandFailure(.invalid, "\(name), line \(count): not a row of \(table.name)")
      }
      rows.append(values)
      work.step()
      guard rows.count >= Self.chunk else { continue }
      try database.insert(rows, into: table)
      rows.removeAll(keepingCapacity: true)
    }
    try database.insert(rows, into: table)
    guard count == expected.rows, digest.hexadecimal() == expected.hash else {
      throw CommandFailure(.invalid, "\(name) is not what was exported: \(count) rows of \(expected.rows)")
    }
  }

  /// What a database holds, as a manifest would say it.
  static func tables(at path: String, _ work: inout ImportProgress) throws -> [ExportManifest.Table] {
    let snapshot = try SQLiteSnapshot(path: path)
    var tables: [ExportManifest.Table] = []
    for table in snapshot.tables {
      var steps = work
      tables.append(try TableReading(snapshot: snapshot, table: table) { steps.step() }.run(into: nil))
      work = steps
    }
    return tables
  }
}

/// How far an import is.
struct ImportProgress {
  let all: Int64
  private var done: Int64 = 0
  private var bar = ProgressBar()

  init(all: Int64) {
    self.all = max(1, all)
  }

  mutating func step() {
    done += 1
    if done % 256 == 0 { bar.show(Double(done) / Double(all), done, "rows read and compared") }
  }

  mutating func skip(_ rows: Int64) { done += rows }

  mutating func clear() { bar.clear() }
}
