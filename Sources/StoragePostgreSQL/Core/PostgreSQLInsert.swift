/// Adds rows to a table: one by a statement that takes its values, many by one that takes an array for each column.
///
/// What operations add that run side by side goes into one statement for each table; see ``PostgreSQLRounds``. Both statements
/// come of the same columns, so that they cannot differ in what they do.
final class PostgreSQLInsert: Sendable {
  private let kinds: [PostgreSQLColumn]
  private let one: String
  private let many: String
  private let changesRows: Bool

  /// - Parameters:
  ///   - columns: in the order of a row's values. Where a conflict changes rows the first is the key.
  ///   - conflict: what becomes of a row whose key is there, or nothing.
  ///   - order: in which columns' order many rows are added, where that matters.
  init(
    into table: String, _ columns: KeyValuePairs<String, PostgreSQLColumn>, orElse conflict: String = "",
    by order: String? = nil
  ) {
    kinds = columns.map(\.value)
    changesRows = !conflict.isEmpty
    let names = columns.map(\.key).joined(separator: ", ")
    let values = (1...columns.count).map { "$\($0)" }.joined(separator: ", ")
    let arrays = kinds.enumerated().map { "$\($0 + 1)::\($1.rawValue)[]" }.joined(separator: ", ")
    one = "INSERT INTO \(table) (\(names)) VALUES (\(values)) \(conflict)"
    many = """
      INSERT INTO \(table) (\(names)) SELECT \(names) FROM unnest(\(arrays)) AS new (\(names))
      \(order.map { "ORDER BY \($0)" } ?? "") \(conflict)
      """
  }

  /// Whether one statement cannot add both: it would change a row twice.
  func collides(_ rows: [[PostgreSQLValue]], with others: [[PostgreSQLValue]]) -> Bool {
    changesRows && rows.contains { row in others.contains { $0[0] == row[0] } }
  }

  /// What adds `rows`, of which there is at least one.
  func statement(for rows: [[PostgreSQLValue]]) -> (sql: String, values: [PostgreSQLValue]) {
    precondition(rows.allSatisfy { $0.count == kinds.count }, "each row has a value for each column")
    if rows.count == 1 { return (one, rows[0]) }
    return (many, kinds.enumerated().map { column, kind in .column(kind, rows.map { $0[column] }) })
  }
}
