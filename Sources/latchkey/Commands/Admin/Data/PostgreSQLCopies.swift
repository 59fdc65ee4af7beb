import Storage
import StoragePostgreSQL
import StorageSQLite

/// What the tables of an export are in PostgreSQL, and the other way round.
struct PostgreSQLCopies {
  /// Where another release's tables were found, for errors.
  let place: String
  let service: StoredService

  /// Tables of PostgreSQL alone, of which rows are exported as well: what instances share there, and a single one has in
  /// files.
  static let sharedTables: Set = ["signing_keys", "documents"]

  /// Tables that only several instances need: who they are, what they tell each other, and counts of the last minutes. They
  /// begin empty everywhere, as does what says which commits were made.
  private static let ownTables: Set = [
    "latchkey_schema", "latchkey_cell", "members", "lanes", "guess_counts", "qr_changes", "qr_expiries",
    "qr_redemptions", "qr_secrets", "news",
  ]

  /// Which type of a file's column takes which.
  private static let types = ["INTEGER": ["int8", "bool"], "TEXT": ["text"], "BLOB": ["bytea", "uuid"]]

  /// Columns of a file that are no column of the same name.
  private static let read = [
    "guest_usage.id": "part",
    // A file's own chain says no name, and its numbers are places.
    "audit_events.seq": "place", "audit_events.chain": "nullif(chain, 0)",
    "audit_events.number": "CASE WHEN chain <> 0 THEN seq END",
  ]

  /// What is read where a file has one row.
  private static let sources = [
    "guest_usage": "(SELECT 0::bigint AS part, coalesce(sum(bytes), 0)::bigint AS bytes FROM guest_usage)"
  ]

  /// Columns of PostgreSQL that are no column of the same name.
  private static let stored = [
    "guest_usage.part": "v.id",
    "audit_events.place": "v.seq", "audit_events.chain": "coalesce(v.chain, 0)",
    "audit_events.seq": "coalesce(v.number, v.seq)",
    "sessions.ended_in": "CASE WHEN v.ended_at IS NOT NULL THEN \(PostgreSQLConnection.thisTransaction) END",
    "qr_sessions.expires_hour": "v.expires_at / 3600000",
  ]

  /// Each of an export's tables with its counterpart, in the order in which PostgreSQL's are filled.
  ///
  /// Errors: when one is missing, or has columns that the other has not.
  func all(
    _ tables: [ExportedTable], in found: [PostgreSQLTable]
  ) throws(CommandFailure) -> [(table: ExportedTable, copy: PostgreSQLCopy)] {
    for table in tables where !found.contains(where: { $0.name == table.name }) { throw other(table.name) }
    var copies: [(table: ExportedTable, copy: PostgreSQLCopy)] = []
    for target in found where !Self.ownTables.contains(target.name) {
      guard let table = tables.first(where: { $0.name == target.name }) else {
        // An export of files has none of these.
        if Self.sharedTables.contains(target.name) { continue }
        throw other(target.name)
      }
      copies.append((table, try copy(of: table, target)))
    }
    return copies
  }

  private func other(_ table: String) -> CommandFailure {
    CommandFailure(.invalid, "\(place) has another \(service.rawValue).\(table) than this release, or none")
  }

  private func copy(of table: ExportedTable, _ target: PostgreSQLTable) throws(CommandFailure) -> PostgreSQLCopy {
    let other = other(table.name)
    var columns: [PostgreSQLCopy.Column] = []
    for column in table.columns {
      let name = "\(table.name).\(column.name)"
      let match = target.column(Self.read[name] ?? column.name)
      // What is worked out of columns is a whole number.
      guard let type = match?.type ?? Self.read[name].map({ _ in "int8" }),
        Self.types[column.type]?.contains(type) == true
      else { throw other }
      columns.append(
        PostgreSQLCopy.Column(name: column.name, type: type, sql: Self.read[name] ?? "\"\(column.name)\""))
    }
    var stored: [(column: String, sql: String)] = []
    for column in target.columns {
      let isGiven = table.columns.contains { $0.name == column.name }
      guard
        let sql = Self.stored["\(table.name).\(column.name)"] ?? (isGiven ? "v.\"\(column.name)\"" : nil)
      else { throw other }
      stored.append((column.name, sql))
    }
    return PostgreSQLCopy(
      table: target, columns: columns, stored: stored, source: Self.sources[table.name], order: table.key)
  }

  /// The service's shared tables, as an export has them.
  func shared(in found: [PostgreSQLTable]) throws(CommandFailure) -> [ExportedTable] {
    guard service == .identity else { return [] }
    var tables: [ExportedTable] = []
    for name in Self.sharedTables.sorted() {
      guard let table = found.first(where: { $0.name == name }) else { throw other(name) }
      let columns = table.columns.map { column in
        SQLiteTable.Column(name: column.name, type: Self.types.first { $0.value.contains(column.type) }?.key ?? "BLOB")
      }
      // Their keys are among the first two columns.
      tables.append(ExportedTable(name: name, columns: columns, key: columns.prefix(2).map(\.name)))
    }
    return tables
  }
}

/// A table as an export has it.
struct ExportedTable {
  let name: String
  let columns: [SQLiteTable.Column]
  /// What its rows are in order of; empty where that is not known.
  let key: [String]
}

extension PostgreSQLValue {
  /// SQLite has no truth values: 0 is false.
  init(_ value: SQLiteValue, of column: PostgreSQLCopy.Column) {
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
  /// The row's values, as SQLite has them in columns of these types.
  func values(as columns: [SQLiteTable.Column]) -> [SQLiteValue] {
    columns.indices.map { index in
      let column = Int32(index)
      guard !isNull(column) else { return .null }
      return switch columns[index].type {
      case "INTEGER": .integer(integer(column))
      case "TEXT": .text(text(column))
      default: .blob(bytes(column))
      }
    }
  }
}
