import LatchkeyModel
import Storage

/// Holds a guest's records beside what became of each, which is looked up by its key: see ``PostgreSQLRecords``.
struct PostgreSQLRecount {
  let id: MigrationID
  let guest: SubjectID
  let db: PostgreSQLConnection

  private static let selectEnd = """
    SELECT collection, key FROM records WHERE sub = $1 AND (collection, key) > ($2, $3)
    ORDER BY collection, key LIMIT 1 OFFSET $4
    """

  private struct Statements {
    let unmerged, foreign, lost, outcomes: String

    /// The place where the stretch begins is `$2, $3`, and where it ends `$4, $5`; what else they take comes after.
    init(isBounded: Bool) {
      func stretch(_ table: String) -> String {
        let name = "(\(table).collection, \(table).key)"
        return isBounded ? "\(name) > ($2, $3) AND \(name) <= ($4, $5)" : "\(name) > ($2, $3)"
      }
      let other = isBounded ? "$6" : "$4"
      unmerged = """
        SELECT count(*) FROM records r WHERE r.sub = \(other) AND \(stretch("r")) AND (
          SELECT 1 FROM migration_records m WHERE m.migration = $1 AND m.collection = r.collection AND m.key = r.key
          LIMIT 1) IS NULL
        """
      foreign = """
        SELECT count(*) FROM migration_records m WHERE m.migration = $1 AND \(stretch("m")) AND (
          SELECT 1 FROM records r WHERE r.sub = \(other) AND r.collection = m.collection AND r.key = m.key
          LIMIT 1) IS NULL
        """
      lost = """
        SELECT count(*) FROM migration_records m
        WHERE m.migration = $1 AND \(stretch("m")) AND m.outcome IN ('refused', 'asked') AND (
          SELECT 1 FROM refused_records f WHERE f.migration = $1 AND f.collection = m.collection AND f.key = m.key
          LIMIT 1) IS NULL
        """
      outcomes = """
        SELECT collection, outcome, count(*) FROM migration_records m
        WHERE m.migration = $1 AND \(stretch("m")) GROUP BY collection, outcome
        """
    }
  }

  private static let inTheMiddle = Statements(isBounded: true)
  private static let atTheEnd = Statements(isBounded: false)

  func next(beyond place: RecordName?, count: Int) async throws(StorageError) -> Recount {
    let begin: [PostgreSQLValue] = [
      .text(place?.collection.description ?? ""), .text(place?.key.description ?? ""),
    ]
    var recount = Recount()
    let first: [PostgreSQLValue] = [.id(guest)] + begin
    recount.end = try await db.first(Self.selectEnd, first + [.integer(count - 1)]) { row throws(StorageError) in
      try row.recordName(0)
    }
    var values: [PostgreSQLValue] = [.id(id)] + begin
    if let end = recount.end { values += [.name(end.collection), .key(end.key)] }
    let statements = recount.end == nil ? Self.atTheEnd : Self.inTheMiddle
    recount.unmerged = try await total(statements.unmerged, values + [.id(guest)])
    recount.foreign = try await total(statements.foreign, values + [.id(guest)])
    recount.lost = try await total(statements.lost, values)
    let outcomes = try await db.all(statements.outcomes, values) { row throws(StorageError) in
      (collection: try row.collection(0), outcome: try row.named(1, as: MergeOutcome.self), count: Int(row.integer(2)))
    }
    for one in outcomes { recount.outcomes[one.collection, default: [:]][one.outcome, default: 0] += one.count }
    return recount
  }

  private func total(_ sql: String, _ values: [PostgreSQLValue]) async throws(StorageError) -> Int {
    Int(try await db.first(sql, values) { $0.integer(0) } ?? 0)
  }
}
