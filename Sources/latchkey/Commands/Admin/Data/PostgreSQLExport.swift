import Cryptography
import Storage
import StoragePostgreSQL
import StorageSQLite

/// Writes what services have in PostgreSQL as an export of their files is: the tables, columns and rows that SQLite would
/// have, and besides what instances share there in rows.
struct PostgreSQLExport {
  private struct Part {
    let service: StoredService
    let snapshot: PostgreSQLSnapshot
    let copies: [(table: ExportedTable, copy: PostgreSQLCopy)]
  }

  private let parts: [Part]

  /// Takes each service's snapshot, before the first is read.
  ///
  /// - Parameter wanted: those that are to be there; all that are there when it is empty.
  ///
  /// Errors: when there are tables of another release, or one is missing.
  init(_ wanted: [StoredService], at url: PostgreSQLURL) async throws {
    var parts: [Part] = []
    for service in StoredService.allCases where wanted.isEmpty || wanted.contains(service) {
      guard let snapshot = try await PostgreSQLSnapshot.take(of: service.sharedSchema, at: url) else {
        guard wanted.isEmpty else { throw CommandFailure(.file, "\(url) holds no tables of \(service.rawValue)") }
        continue
      }
      let known = PostgreSQLCopies(place: "\(url)", service: service)
      let tables = try service.schema.tables().map { table in
        ExportedTable(name: table.name, columns: table.columns, key: table.key)
      }
      let copies = try known.all(tables + known.shared(in: snapshot.tables), in: snapshot.tables)
      parts.append(
        Part(service: service, snapshot: snapshot, copies: copies.sorted { $0.table.name < $1.table.name }))
    }
    guard !parts.isEmpty else { throw CommandFailure(.file, "\(url) holds no tables of a service") }
    self.parts = parts
  }

  func run(into folder: String) async throws -> ExportManifest {
    var counts: [[Int64]] = []
    for part in parts {
      var own: [Int64] = []
      for (_, copy) in part.copies { own.append(try await copy.rowCount(in: part.snapshot.connection)) }
      counts.append(own)
    }
    let progress = ExportProgress(all: counts.joined().reduce(0, +))
    defer { progress.clear() }
    var manifest = ExportManifest()
    for (part, counts) in zip(parts, counts) {
      var written = ExportManifest.Service(
        service: part.service, schema: part.service.schema.latest, cell: part.snapshot.cell)
      for ((table, copy), count) in zip(part.copies, counts) {
        let path = "\(folder)/\(part.service.rawValue).\(table.name).jsonl"
        let lines = TableLines(name: table.name, columns: table.columns, file: try PrivateFile(path))
        try await copy.forEachRow(inOrder: true, in: part.snapshot.connection) { row in
          lines.add(row.values(as: table.columns))
          progress.step()
        }
        let made = try lines.finish()
        guard made.rows == count else {
          let name = "\(part.service.rawValue).\(table.name)"
          throw CommandFailure(.file, "\(name) has \(count) rows, and \(made.rows) were read")
        }
        if PostgreSQLCopies.sharedTables.contains(table.name) {
          written.shared.append(made)
        } else {
          written.tables.append(made)
        }
      }
      manifest.services.append(written)
    }
    return manifest
  }
}
