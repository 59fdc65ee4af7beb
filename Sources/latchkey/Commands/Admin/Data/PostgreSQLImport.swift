import Cryptography
import Storage
import StoragePostgreSQL
import StorageSQLite
import Synchronization

/// Stores what SQLite held of one service in PostgreSQL, in one transaction: all of it, or nothing.
struct PostgreSQLImport {
  let service: ExportManifest.Service
  let folder: String
  let url: PostgreSQLURL

  private static let operation = "import"

  /// True when it was stored, false when just these rows were there already.
  func run(_ work: ImportProgress) async throws -> Bool {
    let name = service.service.rawValue
    guard service.schema == service.service.schema.latest else {
      throw CommandFailure(
        .invalid, "\(folder) is of an older release: its \(name) is version \(service.schema)",
        hint: "start this release over the data directory once, then export again")
    }
    let database = try await PostgreSQLDatabase.open(
      url: url, schema: service.service.sharedSchema, connections: 1, isPatient: true)
    // What the transaction ended with that is no matter of the storage's.
    let failure = Mutex<(any Error)?>(nil)
    let result: Result<Bool, StorageError>
    do throws(StorageError) {
      let isNew = try await database.write(Self.operation) { db throws(StorageError) in
        do {
          return try await fill(db, work)
        } catch let error as StorageError {
          throw error
        } catch {
          failure.withLock { $0 = error }
          throw StorageError(.misuse, operation: Self.operation)
        }
      }
      result = .success(isNew)
    } catch {
      result = .failure(error)
    }
    await database.close()
    if let failure = failure.withLock({ $0 }) { throw failure }
    return try result.get()
  }

  private func fill(_ db: PostgreSQLConnection, _ work: ImportProgress) async throws -> Bool {
    let found = try await PostgreSQLTable.all(in: db)
    for table in service.tables where !found.contains(where: { $0.name == table.name }) { throw other(table) }
    var fillings: [(rows: ExportedRows, filling: PostgreSQLFilling)] = []
    for target in found {
      guard let table = service.tables.first(where: { $0.name == target.name }) else { continue }
      fillings.append((ExportedRows(service: service, table: table, folder: folder), try filling(table, target)))
    }
    var isEmpty = true
    for (_, filling) in fillings where try await !filling.hold(in: db) { isEmpty = false }
    for (rows, filling) in fillings {
      let expected = isEmpty ? try await insert(rows, filling, db, work) : try await sum(of: rows, work)
      guard try await sum(of: filling, rows.table, in: db, work) == expected else {
        let name = "\(service.service.rawValue).\(filling.table.name)"
        if isEmpty { throw CommandFailure(.file, "\(name) does not hold what was stored in it") }
        throw CommandFailure(.file, "\(name) holds other rows already: import goes where there are none")
      }
    }
    return isEmpty
  }

  private func insert(
    _ rows: ExportedRows, _ filling: PostgreSQLFilling, _ db: PostgreSQLConnection, _ work: ImportProgress
  ) async throws -> RowSum {
    var (sum, waiting) = (RowSum(), [[PostgreSQLValue]]())
    try await rows.forEach { values, line in
      sum.add(line)
      waiting.append(zip(values, filling.given).map { PostgreSQLValue($0, of: $1) })
      work.step()
      guard waiting.count == filling.rowsAtATime else { return }
      try await filling.insert(waiting, in: db)
      waiting.removeAll(keepingCapacity: true)
    }
    try await filling.insert(waiting, in: db)
    return sum
  }

  private func sum(of rows: ExportedRows, _ work: ImportProgress) async throws -> RowSum {
    var sum = RowSum()
    try await rows.forEach { _, line in
      sum.add(line)
      work.step()
    }
    return sum
  }

  /// Of what is stored, as the export would have it.
  private func sum(
    of filling: PostgreSQLFilling, _ table: ExportManifest.Table, in db: PostgreSQLConnection, _ work: ImportProgress
  ) async throws -> RowSum {
    var sum = RowSum()
    try await filling.forEachRow(in: db) { row in
      let values = table.columns.indices.map { row.value(Int32($0), as: table.columns[$0].type) }
      sum.add(ExportLine.text(values, of: table.columns))
      work.step()
    }
    return sum
  }

  // MARK: Columns

  /// Which type takes which.
  private static let types = ["INTEGER": ["int8", "bool"], "TEXT": ["text"], "BLOB": ["bytea", "uuid"]]
  /// Columns that have another name there.
  private static let names = ["guest_usage.id": "part"]
  /// Columns that SQLite's tables have not.
  private static let derived = [
    // The one chain of an engine that has no others.
    "audit_events.chain": "0", "audit_checkpoints.chain": "0",
    "sessions.ended_in": "CASE WHEN v.ended_at IS NOT NULL THEN \(PostgreSQLConnection.thisTransaction) END",
    "qr_sessions.expires_hour": "v.expires_at / 3600000",
  ]

  private func other(_ table: ExportManifest.Table) -> CommandFailure {
    CommandFailure(.invalid, "\(folder) has another \(service.service.rawValue).\(table.name) than this release")
  }

  private func filling(
    _ table: ExportManifest.Table, _ target: PostgreSQLTable
  ) throws(CommandFailure) -> PostgreSQLFilling {
    let other = other(table)
    var given: [PostgreSQLTable.Column] = []
    for column in table.columns {
      let name = Self.names["\(table.name).\(column.name)"] ?? column.name
      guard let match = target.column(name), Self.types[column.type]?.contains(match.type) == true else { throw other }
      given.append(match)
    }
    var derived: [(column: String, sql: String)] = []
    for column in target.columns where !given.contains(column) {
      guard let sql = Self.derived["\(table.name).\(column.name)"] else { throw other }
      derived.append((column.name, sql))
    }
    return PostgreSQLFilling(table: target, given: given, derived: derived)
  }
}

extension PostgreSQLValue {
  /// SQLite has no truth values: 0 is false.
  fileprivate init(_ value: SQLiteValue, of column: PostgreSQLTable.Column) {
    self =
      switch value {
      case .null: .null
      case .integer(let number): column.type == "bool" ? .bool(number != 0) : .integer(number)
      case .text(let text): .text(text)
      case .blob(let bytes): .bytes(bytes)
      }
  }
}

extension PostgreSQLRow {
  /// As SQLite has it in a column that it declares as `type`.
  fileprivate func value(_ column: Int32, as type: String) -> SQLiteValue {
    guard !isNull(column) else { return .null }
    return switch type {
    case "INTEGER": .integer(integer(column))
    case "TEXT": .text(text(column))
    default: .blob(bytes(column))
    }
  }
}
