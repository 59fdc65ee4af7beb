import Storage

/// A table of a database file, as whoever copies its rows has to know it.
package struct SQLiteTable: Sendable, Equatable {
  package struct Column: Sendable, Equatable {
    package let name: String
    /// What a `STRICT` table declares: `INTEGER`, `TEXT` or `BLOB`.
    package let type: String

    package init(name: String, type: String) {
      self.name = name
      self.type = type
    }
  }

  package let name: String
  package let columns: [Column]
  /// The names of the primary key's columns, in its order.
  package let key: [String]
  /// What its rows are in order of: the same order in every copy.
  private let order: String

  /// All tables of the schema, by name, without those that are SQLite's own.
  static func all(in db: SQLiteConnection) throws(StorageError) -> [SQLiteTable] {
    let names = try db.all(
      "SELECT name, wr FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite\\_%' "
        + "ESCAPE '\\' ORDER BY name"
    ) { row in (row.text(0), row.boolean(1)) }
    var tables: [SQLiteTable] = []
    for (name, hasNoRowID) in names {
      let columns = try db.all("SELECT name, type, pk FROM pragma_table_info(?) ORDER BY cid", .text(name)) { row in
        (Column(name: row.text(0), type: row.text(1)), row.integer(2))
      }
      let key = columns.filter { $0.1 > 0 }.sorted { $0.1 < $1.1 }.map(\.0.name)
      let order = hasNoRowID ? key.map { "\"\($0)\"" }.joined(separator: ", ") : "rowid"
      tables.append(SQLiteTable(name: name, columns: columns.map(\.0), key: key, order: order))
    }
    return tables
  }

  private init(name: String, columns: [Column], key: [String], order: String) {
    self.name = name
    self.columns = columns
    self.key = key
    self.order = order
  }

  private var columnList: String { columns.map { "\"\($0.name)\"" }.joined(separator: ", ") }

  var selection: String { "SELECT \(columnList) FROM \"\(name)\" ORDER BY \(order)" }

  var insertion: String {
    "INSERT INTO \"\(name)\" (\(columnList)) VALUES (\(columns.map { _ in "?" }.joined(separator: ", ")))"
  }
}

extension SQLiteSchema {
  /// The tables of the latest version, by name.
  package func tables() throws(StorageError) -> [SQLiteTable] {
    let connection = try SQLiteConnection(path: ":memory:", mode: .copy)
    for version in versions { try connection.run(version) }
    return try SQLiteTable.all(in: connection)
  }
}
