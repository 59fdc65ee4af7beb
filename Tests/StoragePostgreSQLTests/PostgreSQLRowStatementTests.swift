import Storage
import TestSupport
import Testing

@testable import StoragePostgreSQL

@Suite("Statements about one row each that wait for a PostgreSQL at the same time")
struct PostgreSQLRowStatementTests {
  private static let find = PostgreSQLRowStatement.find(
    "number, convert_to(key, 'UTF8')", in: "numbers", by: "key", .text, at: 1)
  /// Adds to a number that is still what it was, and counts statements.
  private static let exchange = PostgreSQLRowStatement(
    one: """
      UPDATE numbers SET number = number + $2 WHERE key = $1 AND number = $3 RETURNING convert_to(key, 'UTF8')
      """,
    many: """
      UPDATE numbers SET number = numbers.number + new.more
      FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS new (key, more, before)
      WHERE numbers.key = new.key AND numbers.number = new.before RETURNING convert_to(numbers.key, 'UTF8')
      """,
    [.text, .integer, .integer], keyColumn: 0, isChange: true)

  private func exchanging(
    _ key: String, from before: Int64, adding more: Int64, in test: TestDatabase
  ) -> PostgreSQLGroupTests.Work {
    let question = PostgreSQLRowQuestion(
      statement: Self.exchange, key: Array(key.utf8), values: [.text(key), .integer(more), .integer(before)])
    return { try await test.database.change(question, about: [key], as: "exchange \(key)") ? 1 : 0 }
  }

  private func finding(_ key: String, in test: TestDatabase) -> PostgreSQLGroupTests.Work {
    let question = PostgreSQLRowQuestion(statement: Self.find, key: Array(key.utf8), values: [.text(key)])
    return { try await test.database.find(question, as: "find \(key)") { $0.integer(0) } ?? -1 }
  }

  /// How many statements changed numbers since this was called first.
  private func countStatements(_ test: TestDatabase) throws {
    try test.server.run(
      sql: """
        CREATE TABLE test.statements (number bigint);
        CREATE FUNCTION test.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          INSERT INTO test.statements VALUES (1); RETURN NULL; END $$;
        CREATE TRIGGER note AFTER UPDATE ON test.numbers FOR EACH STATEMENT EXECUTE FUNCTION test.note();
        """, in: test.url)
  }

  private func statements(_ test: TestDatabase) async throws -> Int64? {
    try await test.database.read("count") { db throws(StorageError) in
      try await db.first("SELECT count(*) FROM statements") { $0.integer(0) }
    }
  }

  @Test("are one, and each is told of its own row")
  func shared() async throws {
    let test = try await TestDatabase(connections: 1)
    for (place, key) in ["a", "b", "c"].enumerated() { try await test.put(key, Int64(place)) }
    try countStatements(test)
    let results = try await PostgreSQLGroupTests().together(
      in: test,
      [
        exchanging("c", from: 2, adding: 10, in: test), exchanging("a", from: 0, adding: 10, in: test),
        exchanging("b", from: 7, adding: 10, in: test), exchanging("none", from: 0, adding: 10, in: test),
      ])
    #expect(try results.map { try $0.get() } == [1, 1, 0, 0])
    #expect(try await statements(test) == 1)
    let found = try await PostgreSQLGroupTests().together(
      in: test, ["b", "none", "c", "a", "b"].map { finding($0, in: test) })
    #expect(try found.map { try $0.get() } == [1, -1, 12, 10, 1])
    await test.database.close()
  }

  @Test("come one after the other where they are about the same row")
  func sameRow() async throws {
    let test = try await TestDatabase(connections: 1)
    for key in ["a", "b"] { try await test.put(key, 0) }
    try countStatements(test)
    let results = try await PostgreSQLGroupTests().together(
      in: test,
      [
        exchanging("a", from: 0, adding: 1, in: test), exchanging("b", from: 0, adding: 1, in: test),
        exchanging("a", from: 0, adding: 5, in: test), exchanging("a", from: 1, adding: 1, in: test),
      ])
    #expect(try results.map { try $0.get() } == [1, 1, 0, 1])
    #expect(try await test.number("a") == 2)
    #expect(try await statements(test) == 3)
    await test.database.close()
  }

  @Test("are each done by itself when one of them fails")
  func failing() async throws {
    let test = try await TestDatabase(connections: 1)
    for key in ["a", "b"] { try await test.put(key, 0) }
    let results = try await PostgreSQLGroupTests().together(
      in: test,
      [
        exchanging("a", from: 0, adding: 1, in: test), exchanging("b", from: 0, adding: 3, in: test),
        exchanging("b", from: 3, adding: 1, in: test), exchanging("x\0", from: 0, adding: 1, in: test),
      ])
    #expect(try results[0].get() == 1)
    #expect(throws: StorageError.self) { try results[3].get() }
    #expect(try await test.number("a") == 1)
    await test.database.close()
  }

  @Test("find their rows by the index, however small the table was when they were planned")
  func plans() async throws {
    let server = try PostgreSQLServer.shared()
    let url = try server.database()
    let schema = PostgreSQLSchema(part: "test", steps: TestDatabase.schema.steps, isFoundByKeys: true)
    let database = try await PostgreSQLDatabase.open(url: PostgreSQLURL(url), schema: schema, connections: 1)
    try server.run(sql: "INSERT INTO test.numbers VALUES ('a', 0); ANALYZE test.numbers", in: url)
    let plan = try await database.read("plan") { db throws(StorageError) in
      try await db.all(
        """
        EXPLAIN UPDATE numbers SET number = new.number FROM unnest(ARRAY['a', 'b'], ARRAY[1, 2]) AS new (key, number)
        WHERE numbers.key = new.key
        """
      ) { $0.text(0) }
    }
    #expect(plan.contains { $0.contains("Index Scan using numbers_pkey") }, "\(plan)")
    await database.close()
  }

  @Test("begin while others of their kind are on their way, when that takes longer or as many wait as go together")
  func overlap() throws {
    func operation() -> PostgreSQLOperation<Int> {
      PostgreSQLOperation(name: "count", isReading: false, about: [], work: .body { _ in 1 })
    }
    var queue = PostgreSQLQueue()
    queue.append(operation())
    let now = ContinuousClock.now
    let first = queue.next(at: now)
    #expect(first?.operations.count == 1)
    queue.append(operation())
    let early = queue.next(at: now + .milliseconds(1))
    #expect(early == nil && queue.held(at: now + .milliseconds(1)) == now + Limits.groupOverlap)
    let late = now + Limits.groupOverlap
    #expect(queue.held(at: late) == nil && queue.isReady(at: late))
    for _ in 1..<Limits.groupOperations { queue.append(operation()) }
    let full = queue.next(at: now + .milliseconds(2))
    #expect(full?.operations.count == Limits.groupOperations)
    queue.append(operation())
    #expect(!queue.isReady(at: now + .milliseconds(3)))
    if let first, let full {
      queue.finished(first, done: 1)
      queue.finished(full, done: Limits.groupOperations)
    }
    #expect(queue.isReady(at: .now))
  }
}
