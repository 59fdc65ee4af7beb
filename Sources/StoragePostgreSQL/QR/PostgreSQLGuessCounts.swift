import LatchkeyModel
import Storage

/// The table `guess_counts`: of each name the time at which it would be back to nothing spent.
///
/// Some rows are everybody's. So each is in a transaction of its own, which holds it no longer than it takes.
package struct PostgreSQLGuessCounts: GuessCounts {
  private let database: PostgreSQLDatabase

  /// `database` has the schema `PostgreSQLSchema.qr`.
  package init(database: PostgreSQLDatabase) {
    self.database = database
  }

  // A clock that was set back leaves a name spent into the future, by no more than its window.
  private static let spend = """
    INSERT INTO guess_counts AS old (name, spent_until) VALUES ($1, $2::bigint + $3::bigint)
    ON CONFLICT (name) DO UPDATE
      SET spent_until = least(greatest(old.spent_until, $2), $2 + $4::bigint) + $3
      WHERE least(greatest(old.spent_until, $2), $2 + $4) + $3 <= $2 + $4
    RETURNING 1
    """
  private static let find = "SELECT spent_until FROM guess_counts WHERE name = $1"
  // What is back to nothing says nothing.
  private static let remove = """
    WITH old AS MATERIALIZED (
      SELECT name FROM guess_counts WHERE spent_until < $1 ORDER BY spent_until LIMIT 4 FOR UPDATE SKIP LOCKED)
    DELETE FROM guess_counts USING old WHERE guess_counts.name = old.name
    """

  package func spend(
    _ name: String, of count: Int, per window: Duration, at now: Timestamp
  ) async throws(StorageError) -> Duration? {
    let (step, full) = Self.span(count, window)
    let now = now.millisecondsSinceEpoch
    return try await database.write("count a guess") { db throws(StorageError) in
      let isSpent = try await db.first(
        Self.spend, .text(name), .integer(now), .integer(step), .integer(full)
      ) { _ in true }
      guard isSpent == nil else {
        try await db.execute(Self.remove, .integer(now - full))
        return nil
      }
      let until = try await db.first(Self.find, .text(name)) { $0.integer(0) } ?? now
      return .milliseconds(max(1, min(max(until, now), now + full) + step - full - now))
    }
  }

  package func refund(
    _ name: String, of count: Int, per window: Duration, at now: Timestamp
  ) async throws(StorageError) {
    let step = Self.span(count, window).step
    try await database.write("give a guess back") { db throws(StorageError) in
      try await db.execute(
        "UPDATE guess_counts SET spent_until = spent_until - $2 WHERE name = $1", .text(name), .integer(step))
    }
  }

  private static func span(_ count: Int, _ window: Duration) -> (step: Int64, full: Int64) {
    let milliseconds = window.components.seconds * 1000 + window.components.attoseconds / 1_000_000_000_000_000
    let step = max(1, milliseconds / Int64(count))
    return (step, step * Int64(count))
  }
}
