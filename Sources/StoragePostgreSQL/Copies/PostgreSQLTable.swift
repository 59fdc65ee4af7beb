import Storage

/// A table of a part's schema, as whoever copies its rows has to know it.
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
