import Storage

/// A table of a part's schema, as whoever fills it with rows from elsewhere has to know it.
package struct PostgreSQLTable: Sendable, Equatable {
  package struct Column: Sendable, Equatable {
    package let name: String
    /// As `pg_type` names it: `uuid`, `int8`, `bool`, `text` or `bytea`.
    package let type: String
    /// PostgreSQL gives it the next number of a sequence.
    package let isNumbered: Bool
  }

  package let name: String
  /// In the table's order, without those that the database works out of others.
  package let columns: [Column]

  package func column(_ name: String) -> Column? { columns.first { $0.name == name } }

  private static let selectColumns = """
    SELECT c.relname::text, a.attname::text, t.typname::text, a.attidentity <> ''
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_type t ON t.oid = a.atttypid
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
      AND a.attgenerated = ''
    ORDER BY c.relname, a.attnum
    """

  private static let selectReferences = """
    SELECT c.relname::text, r.relname::text
    FROM pg_constraint f JOIN pg_class c ON c.oid = f.conrelid JOIN pg_class r ON r.oid = f.confrelid
    WHERE f.contype = 'f' AND f.connamespace = current_schema()::regnamespace AND f.conrelid <> f.confrelid
    """

  /// All tables of the connection's part, each after those that its rows refer to.
  package static func all(in db: PostgreSQLConnection) async throws(StorageError) -> [PostgreSQLTable] {
    let rows = try await db.all(selectColumns) { row in
      (row.text(0), Column(name: row.text(1), type: row.text(2), isNumbered: row.bool(3)))
    }
    var tables: [PostgreSQLTable] = []
    for (table, column) in rows {
      if tables.last?.name == table {
        let known = tables.removeLast().columns
        tables.append(PostgreSQLTable(name: table, columns: known + [column]))
      } else {
        tables.append(PostgreSQLTable(name: table, columns: [column]))
      }
    }
    return ordered(tables, by: try await db.all(selectReferences) { row in (row.text(0), row.text(1)) })
  }

  private static func ordered(
    _ tables: [PostgreSQLTable], by references: [(from: String, to: String)]
  ) -> [PostgreSQLTable] {
    var (waiting, ready) = (tables, [PostgreSQLTable]())
    while !waiting.isEmpty {
      let names = Set(waiting.map(\.name))
      // Of a circle, which no schema of ours has, the first goes first.
      let next = waiting.firstIndex { table in
        !references.contains { $0.from == table.name && names.contains($0.to) }
      }
      ready.append(waiting.remove(at: next ?? 0))
    }
    return ready
  }
}

/// A table with the columns that come from elsewhere, and what the others are for such rows.
package struct PostgreSQLFilling: Sendable {
  package let table: PostgreSQLTable
  package let given: [PostgreSQLTable.Column]
  /// SQL over the given columns, by the column that it is for.
  let derived: [(column: String, sql: String)]

  package init(
    table: PostgreSQLTable, given: [PostgreSQLTable.Column], derived: [(column: String, sql: String)]
  ) {
    self.table = table
    self.given = given
    self.derived = derived
  }

  private var list: String { given.map { "\"\($0.name)\"" }.joined(separator: ", ") }

  /// How many rows go into one statement, which takes 65,535 values.
  package var rowsAtATime: Int { min(256, 65_535 / given.count) }

  private func insertion(of count: Int) -> String {
    let columns = ([list] + derived.map { "\"\($0.column)\"" }).joined(separator: ", ")
    let values = (0..<count).map { row in
      let places = given.indices.map { column in
        let place = "$\(row * given.count + column + 1)"
        // The first row says the types of all.
        return row == 0 ? "\(place)::\(given[column].type)" : place
      }
      return "(\(places.joined(separator: ", ")))"
    }
    return """
      INSERT INTO "\(table.name)" (\(columns)) OVERRIDING SYSTEM VALUE SELECT \((["v.*"] + derived.map(\.sql)).joined(separator: ", "))
      FROM (VALUES \(values.joined(separator: ", "))) AS v (\(list))
      """
  }

  /// Stores rows, each with a value for every given column; at most ``rowsAtATime``.
  package func insert(_ rows: [[PostgreSQLValue]], in db: PostgreSQLConnection) async throws(StorageError) {
    guard !rows.isEmpty else { return }
    try await db.execute(insertion(of: rows.count), rows.flatMap(\.self))
  }

  /// Lets the sequences of numbered columns go on behind the rows.
  package func finish(in db: PostgreSQLConnection) async throws(StorageError) {
    for column in table.columns where column.isNumbered {
      _ = try await db.first(
        """
        SELECT setval(pg_get_serial_sequence('"\(table.name)"', '\(column.name)'), max("\(column.name)"))
        FROM "\(table.name)"
        """
      ) { _ in true }
    }
  }

  /// Lets nobody else write to the table before the transaction ends. Does not wait for those who do.
  package func hold(in db: PostgreSQLConnection) async throws(StorageError) {
    try await db.execute("LOCK TABLE \"\(table.name)\" IN EXCLUSIVE MODE NOWAIT")
  }

  package func isEmpty(in db: PostgreSQLConnection) async throws(StorageError) -> Bool {
    try await db.first("SELECT count(*) = 0 FROM (SELECT 1 FROM \"\(table.name)\" LIMIT 1) AS one") { $0.bool(0) }
      ?? true
  }

  /// Hands over the given columns of each row, in any order. Keeps no more than some hundred rows in memory.
  package func forEachRow(
    in db: PostgreSQLConnection, _ body: (PostgreSQLRow) throws(StorageError) -> Void
  ) async throws(StorageError) {
    let cursor = "\"rows of \(table.name)\""
    try db.run("DECLARE \(cursor) NO SCROLL CURSOR FOR SELECT \(list) FROM \"\(table.name)\"")
    while try await !db.all("FETCH FORWARD \(rowsAtATime) FROM \(cursor)", map: body).isEmpty {}
    try db.run("CLOSE \(cursor)")
  }
}
