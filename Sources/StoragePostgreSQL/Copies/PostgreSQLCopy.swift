import Storage

/// A table whose rows come from elsewhere or go there, with the columns that they have there.
package struct PostgreSQLCopy: Sendable {
  /// One of elsewhere.
  package struct Column: Sendable {
    package let name: String
    /// Of its values here, as `pg_type` names it.
    package let type: String
    /// What it is of a row here.
    let sql: String

    package init(name: String, type: String, sql: String) {
      self.name = name
      self.type = type
      self.sql = sql
    }
  }

  package let table: PostgreSQLTable
  package let columns: [Column]
  /// What the table's columns are of a row `v` from elsewhere.
  let stored: [(column: String, sql: String)]
  /// Where rows of several stand for one elsewhere: what is read in the table's place, under its columns' names.
  let source: String?
  /// The columns of elsewhere by which rows are read in order.
  let order: [String]

  package init(
    table: PostgreSQLTable, columns: [Column], stored: [(column: String, sql: String)], source: String? = nil,
    order: [String] = []
  ) {
    self.table = table
    self.columns = columns
    self.stored = stored
    self.source = source
    self.order = order
  }

  private var from: String { "\(source ?? "\"\(table.name)\"") AS rows" }

  // MARK: Storing

  /// How many rows go into one statement, which takes 65,535 values.
  package var rowsAtATime: Int { min(256, 65_535 / columns.count) }

  private func insertion(of count: Int) -> String {
    let values = (0..<count).map { row in
      let places = columns.indices.map { column in
        let place = "$\(row * columns.count + column + 1)"
        // The first row says the types of all.
        return row == 0 ? "\(place)::\(columns[column].type)" : place
      }
      return "(\(places.joined(separator: ", ")))"
    }
    return """
      INSERT INTO "\(table.name)" (\(stored.map { "\"\($0.column)\"" }.joined(separator: ", "))) OVERRIDING SYSTEM VALUE
      SELECT \(stored.map(\.sql).joined(separator: ", ")) FROM (VALUES \(values.joined(separator: ", ")))
        AS v (\(columns.map { "\"\($0.name)\"" }.joined(separator: ", ")))
      """
  }

  /// Stores rows, each with a value for every column; at most ``rowsAtATime``.
  package func insert(_ rows: [[PostgreSQLValue]], in db: PostgreSQLConnection) async throws(StorageError) {
    guard !rows.isEmpty else { return }
    // Each answer is waited for: millions of rows that are only sent would all be kept, here and in the library.
    _ = try await db.change(insertion(of: rows.count), rows.flatMap(\.self))
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

  // MARK: Reading

  package func rowCount(in db: PostgreSQLConnection) async throws(StorageError) -> Int64 {
    try await db.first("SELECT count(*) FROM \(from)") { $0.integer(0) } ?? 0
  }

  /// Hands over the columns of each row: in the order of ``order``, or in any where that is not asked for. Keeps no more than
  /// some hundred rows in memory.
  package func forEachRow(
    inOrder: Bool = false, in db: PostgreSQLConnection, _ body: (PostgreSQLRow) throws(StorageError) -> Void
  ) async throws(StorageError) {
    let cursor = "\"rows of \(table.name)\""
    let list = columns.map { "\($0.sql) AS \"\($0.name)\"" }.joined(separator: ", ")
    // By the places of columns: a name may be that of another column of the table.
    let places = order.compactMap { name in columns.firstIndex { $0.name == name }.map { "\($0 + 1)" } }
    let sorting = inOrder && !places.isEmpty ? " ORDER BY \(places.joined(separator: ", "))" : ""
    try db.run("DECLARE \(cursor) NO SCROLL CURSOR FOR SELECT \(list) FROM \(from)\(sorting)")
    while try await !db.all("FETCH FORWARD \(rowsAtATime) FROM \(cursor)", map: body).isEmpty {}
    try db.run("CLOSE \(cursor)")
  }
}
