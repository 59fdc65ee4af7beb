import Storage
import StoragePostgreSQL
import TestSupport

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
        ])
    ])

  let server: PostgreSQLServer
  let url: String
  let database: PostgreSQLDatabase

  init(on server: PostgreSQLServer? = nil, connections: Int? = 3) async throws {
    self.server = try server ?? .shared()
    url = try self.server.database()
    database = try await PostgreSQLDatabase.open(
      url: PostgreSQLURL(url), schema: Self.schema, connections: connections)
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
