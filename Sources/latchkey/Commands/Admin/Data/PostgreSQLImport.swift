import Cryptography
import LatchkeyModel
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
      url: url, schema: service.service.sharedSchema, cells: Cells(own: service.cell), connections: 1, isPatient: true)
    let result: Result<Bool, any Error>
    do {
      result = .success(try await store(in: database, work))
    } catch {
      result = .failure(error)
    }
    await database.close()
    return try result.get()
  }

  private func store(in database: PostgreSQLDatabase, _ work: ImportProgress) async throws -> Bool {
    // Without a lock: services may be at work on rows that are there.
    let isEmpty = try await reading(database) { db in
      var isEmpty = true
      for (_, filling) in try await fillings(db) where try await !filling.isEmpty(in: db) { isEmpty = false }
      return isEmpty
    }
    guard isEmpty else {
      try await expectSame(in: database, work)
      return false
    }
    try await writing(database) { db in try await fill(db, work) }
    return true
  }

  private func reading<Value: Sendable>(
    _ database: PostgreSQLDatabase, _ work: @escaping @Sendable (PostgreSQLConnection) async throws -> Value
  ) async throws -> Value {
    let result = try await database.read(Self.operation) { db throws(StorageError) in
      try await Self.outcome(of: work, db)
    }
    return try result.get()
  }

  private func writing(
    _ database: PostgreSQLDatabase, _ work: @escaping @Sendable (PostgreSQLConnection) async throws -> Void
  ) async throws {
    let failure = Mutex<(any Error)?>(nil)
    do throws(StorageError) {
      try await database.write(Self.operation) { db throws(StorageError) in
        guard case .failure(let error) = try await Self.outcome(of: work, db) else { return }
        failure.withLock { $0 = error }
        // Nothing of it is stored.
        throw StorageError(.misuse, operation: Self.operation)
      }
    } catch {
      throw failure.withLock { $0 } ?? error
    }
  }

  /// What is no matter of the storage's is no error of the transaction's.
  private static func outcome<Value: Sendable>(
    of work: @Sendable (PostgreSQLConnection) async throws -> Value, _ db: PostgreSQLConnection
  ) async throws(StorageError) -> Result<Value, any Error> {
    do {
      return .success(try await work(db))
    } catch let error as StorageError {
      throw error
    } catch {
      return .failure(error)
    }
  }

  private func fill(_ db: PostgreSQLConnection, _ work: ImportProgress) async throws {
    try await db.claimCell()
    let fillings = try await fillings(db)
    for (_, filling) in fillings {
      try await filling.hold(in: db)
      guard try await filling.isEmpty(in: db) else { throw holdsOthers(filling) }
    }
    for (rows, filling) in fillings {
      let expected = try await insert(rows, filling, db, work)
      guard try await sum(of: filling, rows.table, in: db, work) == expected else {
        throw CommandFailure(.file, "\(filling.table.name) does not hold what was stored in it")
      }
    }
  }

  /// The files are read before anything is asked: a transaction is not kept waiting for that long.
  private func expectSame(in database: PostgreSQLDatabase, _ work: ImportProgress) async throws {
    var read: [String: RowSum] = [:]
    for table in service.tables {
      read[table.name] = try await sum(of: ExportedRows(service: service, table: table, folder: folder), work)
    }
    let expected = read
    try await reading(database) { db in
      try await db.checkCell()
      for (rows, filling) in try await fillings(db) {
        let found = try await sum(of: filling, rows.table, in: db, work)
        guard found == expected[rows.table.name] else { throw holdsOthers(filling) }
      }
    }
  }

  private func holdsOthers(_ filling: PostgreSQLFilling) -> CommandFailure {
    let name = "\(service.service.rawValue).\(filling.table.name)"
    return CommandFailure(.file, "\(name) holds other rows already: import goes where there are none")
  }

  /// What each exported table becomes, in the order in which they are filled.
  private func fillings(
    _ db: PostgreSQLConnection
  ) async throws -> [(rows: ExportedRows, filling: PostgreSQLFilling)] {
    let found = try await PostgreSQLTable.all(in: db)
    for table in service.tables where !found.contains(where: { $0.name == table.name }) { throw other(table.name) }
    var fillings: [(rows: ExportedRows, filling: PostgreSQLFilling)] = []
    for target in found where !Self.ownTables.contains(target.name) {
      guard let table = service.tables.first(where: { $0.name == target.name }) else { throw other(target.name) }
      fillings.append((ExportedRows(service: service, table: table, folder: folder), try filling(table, target)))
    }
    return fillings
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
    try await filling.finish(in: db)
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

  /// Tables that only several instances need, and that begin empty.
  private static let ownTables: Set = [
    "latchkey_schema", "latchkey_cell", "members", "guess_counts", "qr_changes", "qr_expiries", "qr_redemptions",
    "qr_secrets", "signing_keys", "documents", "news",
  ]

  /// Which type takes which.
  private static let types = ["INTEGER": ["int8", "bool"], "TEXT": ["text"], "BLOB": ["bytea", "uuid"]]
  /// Columns that have another name there.
  private static let names = ["guest_usage.id": "part"]
  /// Columns that SQLite's tables have not.
  private static let derived = [
    // The one chain of an engine that has no others.
    "audit_events.chain": "0", "audit_checkpoints.chain": "0",
    // Whoever reads the log goes on where they were.
    "audit_events.place": "v.seq",
    "sessions.ended_in": "CASE WHEN v.ended_at IS NOT NULL THEN \(PostgreSQLConnection.thisTransaction) END",
    "qr_sessions.expires_hour": "v.expires_at / 3600000",
  ]

  private func other(_ table: String) -> CommandFailure {
    CommandFailure(.invalid, "\(folder) has another \(service.service.rawValue).\(table) than this release, or none")
  }

  private func filling(
    _ table: ExportManifest.Table, _ target: PostgreSQLTable
  ) throws(CommandFailure) -> PostgreSQLFilling {
    let other = other(table.name)
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
