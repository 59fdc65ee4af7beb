import LatchkeyModel
import Storage

/// The table `migration_collections`.
struct PostgreSQLReports: CollectionReportRows {
  let db: PostgreSQLConnection

  private static let outcomes: [MergeOutcome] = [.moved, .kept, .replaced, .summed, .refused, .asked]

  private static let select = """
    SELECT name, policy, maximum_rows, source_count, remained, moved, kept, replaced, summed, refused, asked
    FROM migration_collections WHERE migration = $1 ORDER BY name
    """

  func all(of id: MigrationID) async throws(StorageError) -> [CollectionReport] {
    try await db.all(Self.select, .id(id)) { row throws(StorageError) in
      var counts: [MergeOutcome: Int] = [:]
      for (index, outcome) in Self.outcomes.enumerated() { counts[outcome] = Int(row.integer(5 + Int32(index))) }
      return CollectionReport(
        collection: try row.collection(0), policy: try row.named(1),
        maximumRows: row.optionalInteger(2).map { Int($0) }, sourceCount: Int(row.integer(3)), counts: counts,
        remained: Int(row.integer(4)))
    }
  }

  private static let insert = """
    INSERT INTO migration_collections (migration, name, policy, maximum_rows, source_count, remained, moved, kept,
      replaced, summed, refused, asked)
    SELECT $1, name, policy, nullif(maximum_rows, -1), source_count, remained, moved, kept, replaced, summed, refused,
      asked
    FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
      $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[])
      AS report (name, policy, maximum_rows, source_count, remained, moved, kept, replaced, summed, refused, asked)
    """

  func insert(_ reports: [CollectionReport], of id: MigrationID) async throws(StorageError) {
    if reports.isEmpty { return }
    let fixed: [PostgreSQLValue] = [
      .id(id), .texts(reports.map(\.collection.description)), .texts(reports.map(\.policy.rawValue)),
      .naturals(reports.map { $0.maximumRows.map { Int64($0) } }), .integers(reports.map { Int64($0.sourceCount) }),
      .integers(reports.map { Int64($0.remained) }),
    ]
    let counts: [PostgreSQLValue] = Self.outcomes.map { outcome in .integers(reports.map { Int64($0[outcome]) }) }
    try await db.execute(Self.insert, fixed + counts)
  }

  private static let update = """
    UPDATE migration_collections SET remained = $3, moved = $4, kept = $5, replaced = $6, summed = $7, refused = $8,
      asked = $9
    WHERE migration = $1 AND name = $2
    """

  func change(_ report: CollectionReport, of id: MigrationID) async throws(StorageError) {
    let counts: [PostgreSQLValue] = Self.outcomes.map { .integer(report[$0]) }
    try await db.execute(Self.update, [.id(id), .name(report.collection), .integer(report.remained)] + counts)
  }

  private static let delete = "DELETE FROM migration_collections WHERE migration = $1 AND name = $2"

  func remove(_ collection: CollectionName, of id: MigrationID) async throws(StorageError) {
    try await db.execute(Self.delete, .id(id), .name(collection))
  }
}
