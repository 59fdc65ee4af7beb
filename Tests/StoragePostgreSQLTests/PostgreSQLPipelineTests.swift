import Storage
import StoragePostgreSQL
import TestSupport
import Testing

@Suite("What is sent to a PostgreSQL without waiting")
struct PostgreSQLPipelineTests {
  @Test("is done before what is asked after it")
  func ordering() async throws {
    let test = try await TestDatabase()
    let sum = try await test.database.write("add up") { db throws(StorageError) in
      for number in 1...100 {
        try await db.execute("INSERT INTO numbers VALUES ($1, $2)", .text("\(number)"), .integer(number))
      }
      try await db.execute("UPDATE numbers SET number = number * 2")
      return try await db.first("SELECT sum(number)::bigint FROM numbers") { $0.integer(0) }
    }
    #expect(sum == 10_100)
    #expect(try await test.number("100") == 200)
  }

  @Test("fails in the name of its operation, at what is waited for next or at the commit")
  func naming() async throws {
    let test = try await TestDatabase()
    try await test.put("there", 1)
    let atWait = await #expect(throws: StorageError.self) {
      try await test.database.write("insert and look") { db throws(StorageError) in
        try await db.execute("INSERT INTO numbers VALUES ('there', 2)")
        _ = try await db.first("SELECT number FROM numbers") { $0.integer(0) }
        Issue.record("went on")
      }
    }
    #expect(atWait?.fault == .constraint(.unique))
    #expect(atWait?.operation == "insert and look")
    let atCommit = await #expect(throws: StorageError.self) {
      try await test.database.write("insert and leave") { db throws(StorageError) in
        try await db.execute("INSERT INTO numbers VALUES ('new', 1)")
        try await db.execute("INSERT INTO numbers VALUES ('there', 2)")
      }
    }
    #expect(atCommit?.fault == .constraint(.unique))
    #expect(atCommit?.operation == "insert and leave")
    #expect(try await test.number("new") == nil)
    #expect(try await test.number("there") == 1)
  }

  @Test("does not stand in the way of the next operation when it was refused or given up")
  func cleanAfterFailure() async throws {
    let test = try await TestDatabase(connections: 1)
    for turn in 0..<3 {
      await #expect(throws: StorageError.self) {
        try await test.database.write("fail") { db throws(StorageError) in
          try await db.execute("INSERT INTO numbers VALUES ('a', 1)")
          // Prepared for the first time behind a failure, and so not prepared at all.
          try await db.execute("SELECT 1 / 0")
          try await db.execute("UPDATE numbers SET number = \(100 + turn)")
        }
      }
      await #expect(throws: StorageError.self) {
        try await test.database.write("throw") { db throws(StorageError) in
          try await db.execute("INSERT INTO numbers VALUES ('b', 1)")
          throw StorageError(.corrupt, operation: "throw")
        }
      }
      try await test.database.write("update") { db throws(StorageError) in
        try await db.execute("UPDATE numbers SET number = \(100 + turn)")
      }
    }
    #expect(try await test.number("a") == nil)
    #expect(try await test.number("b") == nil)
  }

  @Test("is not counted on by who asks nothing: an empty transaction succeeds")
  func nothing() async throws {
    let test = try await TestDatabase()
    try await test.database.write("nothing") { _ in }
    try await test.database.read("nothing") { _ in }
    try await test.put("a", 1)
    #expect(try await test.number("a") == 1)
  }
}

@Suite("One statement that is all of an operation")
struct PostgreSQLStatementTests {
  private func change(_ test: TestDatabase) async throws(StorageError) -> Int {
    let insert = "INSERT INTO numbers VALUES ($1, $2)"
    return try await test.database.change(insert, [.text("a"), .integer(1)], about: [], as: "insert")
  }

  @Test("counts its rows, or answers the first")
  func answers() async throws {
    let test = try await TestDatabase()
    #expect(try await change(test) == 1)
    let sql = "UPDATE numbers SET number = number + 1 WHERE key = $1 RETURNING number"
    #expect(try await test.database.change(sql, [.text("a")], about: [], map: { $0.integer(0) }) == 2)
    #expect(try await test.database.change(sql, [.text("b")], about: [], map: { $0.integer(0) }) == nil)
    #expect(try await test.database.find("SELECT number FROM numbers", [], map: { $0.integer(0) }) == 2)
  }

  @Test("is refused by a rule that is broken at its commit")
  func refusedCommit() async throws {
    let test = try await TestDatabase()
    try test.atCommit("RAISE EXCEPTION 'no' USING ERRCODE = '23514'")
    let failure = await #expect(throws: StorageError.self) { _ = try await change(test) }
    #expect(failure?.fault == .constraint(.check))
    #expect(failure?.operation == "insert")
    #expect(try await test.number("a") == nil)
  }

  @Test("C5: is looked up when its commit is not answered, or comes with a warning")
  func unansweredCommit() async throws {
    for statement in ["PERFORM pg_terminate_backend(pg_backend_pid())", "RAISE WARNING 'canceling wait'"] {
      let test = try await TestDatabase()
      try test.server.run(sql: "CREATE SEQUENCE test.commits", in: test.url)
      try test.atCommit("IF nextval('test.commits') = 1 THEN \(statement); END IF")
      #expect(try await change(test) == 1)
      #expect(try await test.number("a") == 1)
    }
  }

  @Test("is tried again when it came into another's way, and no more than four times")
  func conflict() async throws {
    let test = try await TestDatabase()
    try test.server.run(sql: "CREATE SEQUENCE test.tries", in: test.url)
    try test.atCommit("IF nextval('test.tries') < 3 THEN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END IF")
    #expect(try await change(test) == 1)
    let tries = try await test.database.find("SELECT last_value FROM tries", []) { $0.integer(0) }
    #expect(tries == 3)
  }

  @Test("finds another connection when its own ended while nothing was asked")
  func lostWhileIdle() async throws {
    let test = try await TestDatabase(connections: 3)
    try test.server.run(
      sql: """
        SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'latchkey' LIMIT 2
        """, in: test.url)
    #expect(try await change(test) == 1)
    for _ in 0..<10 { #expect(try await test.database.find("SELECT 1", [], map: { $0.integer(0) }) == 1) }
  }

  @Test("is not begun again on another connection when this side gave the first one up")
  func givenUp() async throws {
    let test = try await TestDatabase(connections: 2, isPatient: false)
    let runs = Counter()
    let failure = await #expect(throws: StorageError.self) {
      try await test.database.write("wait") { db throws(StorageError) in
        runs.add()
        _ = try await db.first("SELECT pg_sleep(60)") { _ in true }
      }
    }
    #expect(failure?.fault == .unavailable)
    #expect(runs.value == 1)
  }
}
