import Glibc
import Storage

/// Brings a part's tables forward to the latest version, all or nothing.
///
/// Instances that start together wait for one another; none waits for a table's lock for longer than two seconds, and one
/// that got none tries again, so that what runs on the tables meanwhile is never held up for longer.
enum SchemaUpgrade {
  static func run(_ schema: PostgreSQLSchema, on connection: PostgreSQLConnection) async throws(StorageError) {
    let deadline = ContinuousClock.now + Limits.schemaPatience
    while true {
      do throws(StorageError) {
        connection.operation = "schema version"
        if try await version(of: schema, on: connection) == schema.latest { return }
        try await upgrade(schema, on: connection)
        return
      } catch {
        connection.rollBack()
        guard error.fault == .overloaded, ContinuousClock.now < deadline, !connection.isBroken else { throw error }
        // The thread is the engine's own, and serves nobody yet.
        usleep(UInt32.random(in: 100_000...500_000))
      }
    }
  }

  private static func upgrade(
    _ schema: PostgreSQLSchema, on connection: PostgreSQLConnection
  ) async throws(StorageError) {
    try connection.begin(isReading: false)
    try await connection.lock("latchkey_schema", .text(schema.part))
    let found = try await version(of: schema, on: connection)
    for version in found..<schema.latest {
      connection.operation = "schema version \(version + 1)"
      if version == 0 { try await create(schema, on: connection) }
      for statement in schema.versions[version] { try connection.run(statement) }
      try await connection.execute(
        "INSERT INTO \(schema.part).latchkey_schema (part, version) VALUES ($1, $2)",
        .text(schema.part), .integer(version + 1))
    }
    try connection.commit()
  }

  private static func create(
    _ schema: PostgreSQLSchema, on connection: PostgreSQLConnection
  ) async throws(StorageError) {
    // Before `IF NOT EXISTS` PostgreSQL asks for the right to make schemas, which a careful operator does not give.
    let isThere = try await connection.first(
      "SELECT count(*) > 0 FROM pg_namespace WHERE nspname = $1", .text(schema.part)
    ) { $0.bool(0) }
    if isThere != true { try connection.run("CREATE SCHEMA \(schema.part)") }
    try connection.run(
      """
      CREATE TABLE \(schema.part).latchkey_schema
        (part text NOT NULL, version bigint NOT NULL, PRIMARY KEY (part, version))
      """)
  }

  /// 0 when there is nothing yet.
  private static func version(
    of schema: PostgreSQLSchema, on connection: PostgreSQLConnection
  ) async throws(StorageError) -> Int {
    // From the catalog as it is now: PostgreSQL's own lookup of a name remembers that it was not there.
    let isThere = try await connection.first(
      """
      SELECT count(*) > 0 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname = $1 AND c.relname = 'latchkey_schema'
      """, .text(schema.part)
    ) { $0.bool(0) }
    guard isThere == true else { return 0 }
    let found = try await connection.first(
      "SELECT coalesce(max(version), 0) FROM \(schema.part).latchkey_schema WHERE part = $1", .text(schema.part)
    ) { Int($0.integer(0)) }
    guard let found, found <= schema.latest else {
      throw StorageError(.newerSchema(found: found ?? 0, known: schema.latest), operation: connection.operation)
    }
    return found
  }
}
