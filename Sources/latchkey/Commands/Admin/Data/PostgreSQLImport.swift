import Cryptography
import LatchkeyModel
import Storage
import StoragePostgreSQL
import StorageSQLite
import Synchronization

/// Stores what was exported of one service in PostgreSQL, in one transaction: all of it, or nothing.
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
      for (_, copy) in try await copies(db) where try await !copy.isEmpty(in: db) { isEmpty = false }
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
    let copies = try await copies(db)
    for (_, copy) in copies {
      try await copy.hold(in: db)
      guard try await copy.isEmpty(in: db) else { throw holdsOthers(copy) }
    }
    for (rows, copy) in copies {
      let expected = try await insert(rows, copy, db, work)
      guard try await sum(of: copy, rows.table, in: db, work) == expected else {
        throw CommandFailure(.file, "\(copy.table.name) does not hold what was stored in it")
      }
    }
  }

  /// The files are read before anything is asked: a transaction is not kept waiting for that long.
  private func expectSame(in database: PostgreSQLDatabase, _ work: ImportProgress) async throws {
    var read: [String: RowSum] = [:]
    for table in service.all {
      read[table.name] = try await sum(of: ExportedRows(service: service, table: table, folder: folder), work)
    }
    let expected = read
    try await reading(database) { db in
      try await db.checkCell()
      for (rows, copy) in try await copies(db) {
        let found = try await sum(of: copy, rows.table, in: db, work)
        guard found == expected[rows.table.name] else { throw holdsOthers(copy) }
      }
    }
  }

  private func holdsOthers(_ copy: PostgreSQLCopy) -> CommandFailure {
    let name = "\(service.service.rawValue).\(copy.table.name)"
    return CommandFailure(.file, "\(name) holds other rows already: import goes where there are none")
  }

  /// What each exported table becomes, in the order in which they are filled.
  private func copies(_ db: PostgreSQLConnection) async throws -> [(rows: ExportedRows, copy: PostgreSQLCopy)] {
    let tables = service.all
    let known = tables.map { ExportedTable(name: $0.name, columns: $0.columns, key: []) }
    let copies = try PostgreSQLCopies(place: folder, service: service.service)
      .all(known, in: try await PostgreSQLTable.all(in: db))
    return copies.compactMap { known, copy in
      tables.first { $0.name == known.name }.map { table in
        (ExportedRows(service: service, table: table, folder: folder), copy)
      }
    }
  }

  private func insert(
    _ rows: ExportedRows, _ copy: PostgreSQLCopy, _ db: PostgreSQLConnection, _ work: ImportProgress
  ) async throws -> RowSum {
    var (sum, waiting) = (RowSum(), [[PostgreSQLValue]]())
    try await rows.forEach { values, line in
      sum.add(line)
      waiting.append(zip(values, copy.columns).map { PostgreSQLValue($0, of: $1) })
      work.step()
      guard waiting.count == copy.rowsAtATime else { return }
      try await copy.insert(waiting, in: db)
      waiting.removeAll(keepingCapacity: true)
    }
    try await copy.insert(waiting, in: db)
    try await copy.finish(in: db)
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
    of copy: PostgreSQLCopy, _ table: ExportManifest.Table, in db: PostgreSQLConnection, _ work: ImportProgress
  ) async throws -> RowSum {
    var sum = RowSum()
    try await copy.forEachRow(in: db) { row in
      sum.add(ExportLine.text(row.values(as: table.columns), of: table.columns))
      work.step()
    }
    return sum
  }
}
