import LatchkeyModel
import Storage

/// The counts of each collection, and the check that they account for every record.
enum MigrationReports {
  private static let select = """
    SELECT name, policy, maximum_rows, source_count, moved, kept, replaced, summed, refused, asked, remained
    FROM migration_collections WHERE migration = ? ORDER BY name
    """

  static func collections(of id: MigrationID, in db: SQLiteConnection) throws(StorageError) -> [CollectionReport] {
    try db.all(select, .id(id)) { row throws(StorageError) in
      CollectionReport(
        collection: try row.collection(0),
        policy: try row.named(1),
        maximumRows: row.optionalInteger(2).map(Int.init),
        sourceCount: Int(row.integer(3)),
        counts: [
          .moved: Int(row.integer(4)), .kept: Int(row.integer(5)), .replaced: Int(row.integer(6)),
          .summed: Int(row.integer(7)), .refused: Int(row.integer(8)), .asked: Int(row.integer(9)),
        ],
        remained: Int(row.integer(10)))
    }
  }

  private static let update = """
    UPDATE migration_collections SET moved = ?3, kept = ?4, replaced = ?5, summed = ?6, refused = ?7, asked = ?8
    WHERE migration = ?1 AND name = ?2
    """

  static func store(_ report: CollectionReport, of id: MigrationID, in db: SQLiteConnection) throws(StorageError) {
    try db.execute(
      update, .id(id), .name(report.collection), .integer(report[.moved]), .integer(report[.kept]),
      .integer(report[.replaced]), .integer(report[.summed]), .integer(report[.refused]), .integer(report[.asked]))
  }

  // MARK: VERIFY

  private static let countUnaccounted = """
    SELECT count(*) FROM records r WHERE r.sub = ?1 AND NOT EXISTS (
      SELECT 1 FROM migration_records m WHERE m.migration = ?2 AND m.collection = r.collection AND m.key = r.key)
    """
  private static let countForeign = """
    SELECT count(*) FROM migration_records m WHERE m.migration = ?2 AND NOT EXISTS (
      SELECT 1 FROM records r WHERE r.sub = ?1 AND r.collection = m.collection AND r.key = m.key)
    """
  private static let countOutcomes = """
    SELECT collection, outcome, count(*) FROM migration_records WHERE migration = ? GROUP BY collection, outcome
    """
  private static let countRefused = "SELECT count(*) FROM refused_records WHERE migration = ?"

  /// Recounts the guest's records against what became of each. Nil: every one is accounted for exactly once.
  static func problem(of migration: Migration, in db: SQLiteConnection) throws(StorageError) -> String? {
    func count(_ sql: String, _ values: SQLiteValue...) throws(StorageError) -> Int64 {
      try db.first(sql, values) { $0.integer(0) } ?? 0
    }
    let unaccounted = try count(countUnaccounted, .id(migration.guest), .id(migration.id))
    if unaccounted > 0 { return "\(unaccounted) records were not merged" }
    let foreign = try count(countForeign, .id(migration.guest), .id(migration.id))
    if foreign > 0 { return "\(foreign) records were merged that the guest does not have" }
    var outcomes: [CollectionName: [MergeOutcome: Int]] = [:]
    try db.forEach(countOutcomes, .id(migration.id)) { row throws(StorageError) in
      outcomes[try row.collection(0), default: [:]][try row.named(1)] = Int(row.integer(2))
      return true
    }
    let reports = try collections(of: migration.id, in: db)
    for report in reports {
      if !report.isComplete { return "\(report.collection): \(report.total) of \(report.sourceCount) were counted" }
      if report.counts != outcomes[report.collection] ?? [:] { return "\(report.collection): the counts differ" }
    }
    let refused = try count(countRefused, .id(migration.id))
    if refused != reports.reduce(0, { $0 + $1[.refused] + $1[.asked] }) { return "a refused record was not set aside" }
    if migration.done != migration.total { return "\(migration.done) of \(migration.total) records were merged" }
    return nil
  }
}
