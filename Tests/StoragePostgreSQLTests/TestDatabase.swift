import Storage
import TestSupport

@testable import StoragePostgreSQL

/// A new database with one table of numbers by key.
struct TestDatabase {
  static let schema = PostgreSQLSchema(
    part: "test",
    steps: [
      .expand(
        "numbers and kinds",
        [
          "CREATE TABLE numbers (key text COLLATE \"C\" NOT NULL PRIMARY KEY, number bigint NOT NULL)",
          "CREATE TABLE kinds (number bigint, text text, bytes bytea, id uuid, flag boolean)",
        ] + CommitLane.statements)
    ])

  let server: PostgreSQLServer
  let url: String
  let database: PostgreSQLDatabase

  /// As patient as a service only where that is what is tested: a busy machine takes its time.
  init(
    on server: PostgreSQLServer? = nil, connections: Int? = 3, isPatient: Bool = true, groupDuration: Duration? = nil
  ) async throws {
    self.server = try server ?? .shared()
    url = try self.server.database()
    database = try await PostgreSQLDatabase.open(
      url: PostgreSQLURL(url), schema: Self.schema, connections: connections, isPatient: isPatient,
      groupDuration: groupDuration)
  }

  /// Makes every commit that changed `numbers` do `statement` at its very end, after the last chance to say no.
  func atCommit(_ statement: String) throws {
    try server.run(
      sql: """
        CREATE FUNCTION test.at_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \(statement); RETURN NULL; END $$;
        CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT OR UPDATE ON test.numbers DEFERRABLE INITIALLY DEFERRED
          FOR EACH ROW EXECUTE FUNCTION test.at_commit();
        """, in: url)
  }

  func put(_ key: String, _ number: Int64) async throws(StorageError) {
    try await database.write("put") { db throws(StorageError) in
      try await db.execute(
        "INSERT INTO numbers VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET number = excluded.number",
        .text(key), .integer(number))
    }
  }

  func number(_ key: String) async throws(StorageError) -> Int64? {
    try await database.read("number") { db throws(StorageError) in
      try await db.first("SELECT number FROM numbers WHERE key = $1", .text(key)) { $0.integer(0) }
    }
  }
}
