import LatchkeyModel
import Storage

/// What a database records of a part's tables, and who uses them.
package struct SchemaState: Sendable {
  /// A step that was begun.
  package struct Record: Sendable, Equatable {
    package let number: Int
    /// As the release called it that began it, which may be a newer one.
    package let name: String
    /// The least step that a release has to know to work here from then on; 0 for a step that expands.
    package let needs: Int
    package let beganAt: Timestamp
    /// Nil while it is under way, or was given up.
    package let finishedAt: Timestamp?
    /// How far a step in batches has come.
    package let place: String?
  }

  /// An instance that lives.
  package struct User: Sendable, Equatable {
    package let instance: Int
    package let address: String
    /// The last step that its release knows.
    package let knows: Int
  }

  package let schema: PostgreSQLSchema
  /// By their numbers.
  package let records: [Record]
  package let users: [User]

  /// Steps that have to be made before this release works here.
  package var missing: [Int] {
    let finished = Set(records.filter { $0.finishedAt != nil }.map(\.number))
    return schema.number(.expand).filter { !finished.contains($0) }
  }

  /// Steps that may be made when no older release is wanted any more.
  package var contractions: [Int] {
    let begun = Set(records.map(\.number))
    return schema.number(.contract).filter { !begun.contains($0) }
  }

  /// The least step that a release has to know to work here.
  package var floor: Int { records.map(\.needs).max() ?? 0 }

  package var isTooNew: Bool { floor > schema.latest }

  /// Whether this release works here.
  package var isUsable: Bool { missing.isEmpty && !isTooNew }

  /// Instances that do not know a step.
  package func strangers(to step: Int) -> [User] { users.filter { $0.knows < step } }

  /// Reads it: some statements, each on its own snapshot.
  static func read(
    _ schema: PostgreSQLSchema, on connection: PostgreSQLConnection
  ) async throws(StorageError) -> SchemaState {
    let tables = try await tables(of: schema.part, on: connection)
    guard tables.contains("latchkey_schema") else { return SchemaState(schema: schema, records: [], users: []) }
    let records = try await connection.all(
      """
      SELECT step, name, needs, began_at, finished_at, place FROM \(schema.part).latchkey_schema ORDER BY step
      """
    ) { row in
      Record(
        number: Int(row.integer(0)), name: row.text(1), needs: Int(row.integer(2)), beganAt: row.timestamp(3),
        finishedAt: row.optionalTimestamp(4), place: row.optionalText(5))
    }
    let users = tables.contains("members") ? try await users(of: schema.part, on: connection) : []
    return SchemaState(schema: schema, records: records, users: users)
  }

  /// Those of both names that are there. From the catalog as it is now: PostgreSQL's own lookup of a name remembers that it
  /// was not there.
  private static func tables(
    of part: String, on connection: PostgreSQLConnection
  ) async throws(StorageError) -> [String] {
    try await connection.all(
      """
      SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname = $1 AND c.relname IN ('latchkey_schema', 'members')
      """, .text(part)
    ) { $0.text(0) }
  }

  private static let now = "extract(epoch FROM clock_timestamp()) * 1000"

  private static func users(
    of part: String, on connection: PostgreSQLConnection
  ) async throws(StorageError) -> [User] {
    try await connection.all(
      "SELECT instance, address, knows FROM \(part).members WHERE heartbeat > \(now) - $1::bigint ORDER BY instance",
      .integer(Limits.memberSilenceMilliseconds), map: user)
  }

  /// Instances that do not know a step, gave no sign of life lately, and did not say good-bye.
  static func silentStrangers(
    to step: Int, of part: String, on connection: PostgreSQLConnection
  ) async throws(StorageError) -> [User] {
    try await connection.all(
      """
      SELECT instance, address, knows FROM \(part).members
      WHERE knows < $1 AND NOT has_left AND heartbeat <= \(now) - $2::bigint AND heartbeat > \(now) - $3::bigint
      ORDER BY instance
      """,
      .integer(step), .integer(Limits.memberSilenceMilliseconds), .integer(Limits.memberLeaseMilliseconds),
      map: user)
  }

  private static func user(_ row: PostgreSQLRow) -> User {
    User(instance: Int(row.integer(0)), address: row.text(1), knows: Int(row.integer(2)))
  }

  /// Errors: `newerSchema` when no release as old as this one works here, `olderSchema` when steps are missing.
  func check(_ operation: String) throws(StorageError) {
    if isTooNew {
      throw StorageError(
        .newerSchema(found: floor, known: schema.latest), operation: operation, detail: "schema \(schema.part)")
    }
    if let step = missing.last {
      throw StorageError(.olderSchema(step: step), operation: operation, detail: "schema \(schema.part)")
    }
  }
}
