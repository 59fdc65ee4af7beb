import LatchkeyModel
import Storage
import Synchronization

/// The checks that go on, in memory alone: the guest is frozen and all of it merged, so what was seen stays true, and
/// whoever finds none begins at the first record.
final class MigrationChecks: Sendable {
  private let checks = Mutex<[MigrationID: MigrationCheck]>([:])

  func take(_ id: MigrationID) -> MigrationCheck {
    checks.withLock { $0.removeValue(forKey: id) } ?? MigrationCheck()
  }

  func keep(_ check: MigrationCheck, of id: MigrationID) { checks.withLock { $0[id] = check } }
}

/// Recounts a guest's records against what became of each, a stretch of their names after the other.
struct MigrationCheck: Sendable {
  /// The last name of the stretch before.
  private var place: RecordName?
  private(set) var isOver = false
  /// What is wrong; nil when every record is accounted for exactly once.
  private(set) var problem: String?
  /// What became of the records so far: a few numbers for each collection.
  private var outcomes: [CollectionName: [MergeOutcome: Int]] = [:]

  private static let selectEnd = """
    SELECT collection, key FROM records WHERE sub = ?1 AND (collection, key) > (?2, ?3)
    ORDER BY collection, key LIMIT 1 OFFSET ?4
    """

  private static func stretch(_ table: String, _ isBounded: Bool) -> String {
    let begin = "(\(table).collection, \(table).key) > (?3, ?4)"
    return isBounded ? "\(begin) AND (\(table).collection, \(table).key) <= (?5, ?6)" : begin
  }

  private static func countUnaccounted(_ isBounded: Bool) -> String {
    """
    SELECT count(*) FROM records r WHERE r.sub = ?1 AND \(stretch("r", isBounded)) AND NOT EXISTS (
      SELECT 1 FROM migration_records m WHERE m.migration = ?2 AND m.collection = r.collection AND m.key = r.key)
    """
  }

  private static func countForeign(_ isBounded: Bool) -> String {
    """
    SELECT count(*) FROM migration_records m WHERE m.migration = ?2 AND \(stretch("m", isBounded)) AND NOT EXISTS (
      SELECT 1 FROM records r WHERE r.sub = ?1 AND r.collection = m.collection AND r.key = m.key)
    """
  }

  // Each statement takes the same values; the two that do not ask for the guest say so.
  private static func countOutcomes(_ isBounded: Bool) -> String {
    """
    SELECT collection, outcome, count(*) FROM migration_records m
    WHERE m.migration = ?2 AND \(stretch("m", isBounded)) AND ?1 IS NOT NULL GROUP BY collection, outcome
    """
  }

  private static func countLost(_ isBounded: Bool) -> String {
    """
    SELECT count(*) FROM migration_records m WHERE m.migration = ?2 AND \(stretch("m", isBounded)) AND ?1 IS NOT NULL
      AND m.outcome IN ('refused', 'asked') AND NOT EXISTS (
        SELECT 1 FROM refused_records f WHERE f.migration = ?2 AND f.collection = m.collection AND f.key = m.key)
    """
  }

  private struct Statements {
    let unaccounted, foreign, lost, outcomes: String

    init(isBounded: Bool) {
      unaccounted = MigrationCheck.countUnaccounted(isBounded)
      foreign = MigrationCheck.countForeign(isBounded)
      lost = MigrationCheck.countLost(isBounded)
      outcomes = MigrationCheck.countOutcomes(isBounded)
    }
  }

  private static let inTheMiddle = Statements(isBounded: true)
  private static let atTheEnd = Statements(isBounded: false)

  func ended(_ problem: String? = nil) -> MigrationCheck {
    var check = self
    (check.isOver, check.problem) = (true, problem)
    return check
  }

  /// The check after the next stretch.
  func next(of migration: Migration, in db: SQLiteConnection) throws(StorageError) -> MigrationCheck {
    let begin: [SQLiteValue] = [
      .text(place?.collection.description ?? ""), .text(place?.key.description ?? ""),
    ]
    let end = try db.first(
      Self.selectEnd, [.id(migration.guest)] + begin + [.integer(Limits.verifyRecords - 1)]
    ) { row throws(StorageError) in RecordName(collection: try row.collection(0), key: try row.recordKey(1)) }
    var values: [SQLiteValue] = [.id(migration.guest), .id(migration.id)] + begin
    if let end { values += [.name(end.collection), .key(end.key)] }
    func count(_ sql: String) throws(StorageError) -> Int64 { try db.first(sql, values) { $0.integer(0) } ?? 0 }
    let statements = end == nil ? Self.atTheEnd : Self.inTheMiddle
    let unaccounted = try count(statements.unaccounted)
    if unaccounted > 0 { return ended("\(unaccounted) records were not merged") }
    let foreign = try count(statements.foreign)
    if foreign > 0 { return ended("\(foreign) records were merged that the guest does not have") }
    if try count(statements.lost) > 0 { return ended("a refused record was not set aside") }
    var check = self
    try db.forEach(statements.outcomes, values) { row throws(StorageError) in
      check.outcomes[try row.collection(0), default: [:]][try row.named(1), default: 0] += Int(row.integer(2))
      return true
    }
    guard let end else { return ended(try check.wrongCount(of: migration, in: db)) }
    check.place = end
    return check
  }

  /// Each record has its outcome; the counts that are told must be the same.
  private func wrongCount(of migration: Migration, in db: SQLiteConnection) throws(StorageError) -> String? {
    for report in try MigrationReports.collections(of: migration.id, in: db) {
      if !report.isComplete { return "\(report.collection): \(report.total) of \(report.sourceCount) were counted" }
      if report.counts != outcomes[report.collection] ?? [:] { return "\(report.collection): the counts differ" }
    }
    return migration.done == migration.total ? nil : "\(migration.done) of \(migration.total) records were merged"
  }
}
