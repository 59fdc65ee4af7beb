import Storage
import StorageSQLite
import Synchronization

/// Makes one service's database, beside where it will be.
struct ServiceImport {
  let service: ExportManifest.Service
  let folder: String
  let path: String

  private static let chunk = 1000

  func run(_ work: ImportProgress) async throws {
    // What an import left that was ended is of no use.
    for suffix in ["", "-journal", "-wal", "-shm"] { try Folder.removeFile(path + suffix) }
    do {
      let database = try SQLiteRebuild(
        path: path, schema: service.service.schema, version: service.schema, cell: service.cell)
      let named = service.tables.map { [$0.name] + $0.columns.map { "\($0.name) \($0.type)" } }
      guard named == database.tables.map({ [$0.name] + $0.columns.map { "\($0.name) \($0.type)" } }) else {
        throw CommandFailure(
          .invalid, "\(folder) has other tables than version \(service.schema) of \(service.service.rawValue)")
      }
      for (table, expected) in zip(database.tables, service.tables) {
        try await fill(table, expected, of: database, work)
      }
      try database.finish()
    }
    guard try Self.tables(at: path, work) == service.tables else {
      throw CommandFailure(.file, "\(path) does not hold what was stored in it: is the disk sound?")
    }
    try Folder.synchronize(path)
  }

  private func fill(
    _ table: SQLiteTable, _ expected: ExportManifest.Table, of database: SQLiteRebuild, _ work: ImportProgress
  ) async throws {
    var rows: [[SQLiteValue]] = []
    try await ExportedRows(service: service, table: expected, folder: folder).forEach { values, _ in
      rows.append(values)
      work.step()
      guard rows.count >= Self.chunk else { return }
      try database.insert(rows, into: table)
      rows.removeAll(keepingCapacity: true)
    }
    try database.insert(rows, into: table)
  }

  /// What a database holds, as a manifest would say it.
  static func tables(at path: String, _ work: ImportProgress) throws -> [ExportManifest.Table] {
    let snapshot = try SQLiteSnapshot(path: path)
    var tables: [ExportManifest.Table] = []
    for table in snapshot.tables {
      tables.append(try TableReading(snapshot: snapshot, table: table) { work.step() }.run(into: nil))
    }
    return tables
  }
}

/// How far an import is.
final class ImportProgress: Sendable {
  private struct State {
    var done: Int64 = 0
    var bar = ProgressBar()
  }

  private let all: Int64
  private let state = Mutex(State())

  init(all: Int64) {
    self.all = max(1, all)
  }

  func step() {
    state.withLock { state in
      state.done += 1
      if state.done % 256 == 0 {
        state.bar.show(Double(state.done) / Double(all), state.done, "rows read and compared")
      }
    }
  }

  func skip(_ rows: Int64) { state.withLock { $0.done += rows } }

  func clear() { state.withLock { $0.bar.clear() } }
}
