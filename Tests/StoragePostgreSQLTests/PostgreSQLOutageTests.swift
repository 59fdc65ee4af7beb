import Storage
import Synchronization
import TestSupport
import Testing

@testable import StoragePostgreSQL

@Suite("A PostgreSQL that fails")
struct PostgreSQLOutageTests {
  @Test("C5: a wait for a standby that somebody ended is waited for once more")
  func cancelledStandbyWait() async throws {
    let server = try PostgreSQLServer()
    let test = try await TestDatabase(on: server)
    try server.set("synchronous_standby_names = 'nobody'")
    // The server takes the setting in its own time: what is written until then waits for nobody.
    let last = Mutex<Int64>(0)
    let hasStandby = Mutex(true)
    let writing = Task {
      for number in (1 as Int64)... {
        guard hasStandby.withLock({ $0 }) else { return }
        last.withLock { $0 = number }
        try await test.put("a\(number)", number)
      }
    }
    try server.run(
      sql: """
        DO $$ DECLARE done boolean := false; BEGIN
          FOR turn IN 1..1000 LOOP
            SELECT bool_or(pg_cancel_backend(pid)) INTO done FROM pg_stat_activity WHERE wait_event = 'SyncRep';
            EXIT WHEN done;
            PERFORM pg_sleep(0.01);
            PERFORM pg_stat_clear_snapshot();
          END LOOP;
        END $$;
        """, in: test.url)
    let number = last.withLock { $0 }
    // Whose wait is ended hears of it in its own time, and only then can others see the change.
    while try await test.database.find(Self.waiting, [], map: { $0.integer(0) }) != 1 {
      try await Task.sleep(for: .milliseconds(10))
    }
    // The change is there, but on this server alone.
    #expect(try await test.number("a\(number)") == number)
    #expect(last.withLock { $0 } == number)
    hasStandby.withLock { $0 = false }
    try server.set("synchronous_standby_names = ''")
    try await writing.value
    #expect(last.withLock { $0 } == number)
  }

  /// How many look a commit up and wait for a standby to have the answer.
  private static let waiting = """
    SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE 'INSERT INTO lanes%RETURNING%'
    """

  @Test("a rule that is broken at the commit is a plain failure")
  func refusedCommit() async throws {
    let test = try await TestDatabase()
    try test.atCommit("RAISE EXCEPTION 'no' USING ERRCODE = '23514'")
    let failure = await #expect(throws: StorageError.self) { try await test.put("a", 1) }
    #expect(failure?.fault == .constraint(.check))
    #expect(try await test.number("a") == nil)
  }

  @Test("a connection that ends before the commit leaves nothing, and says that the same may be tried again")
  func brokenStatement() async throws {
    let test = try await TestDatabase()
    let failure = await #expect(throws: StorageError.self) {
      try await test.database.write { db throws(StorageError) in
        _ = try await db.change("INSERT INTO numbers VALUES ('a', 1)")
        db.breakSocket()
        _ = try await db.change("INSERT INTO numbers VALUES ('b', 1)")
      }
    }
    #expect(failure?.fault == .unavailable)
    #expect(try await test.number("a") == nil)
  }

  @Test("a server that goes away while nothing is asked is missed, and served by again when it comes back")
  func returningServer() async throws {
    let server = try PostgreSQLServer(["log_connections = on", "log_line_prefix = '%n '", "max_connections = 12"])
    let test = try await TestDatabase(on: server, connections: 8)
    try await test.put("a", 1)
    try server.kill()
    while test.database.connections > 0 { try await Task.sleep(for: .milliseconds(10)) }
    #expect(test.database.obstacle != nil)
    let failure = await #expect(throws: StorageError.self) { try await test.put("b", 1) }
    #expect(failure?.fault == .unavailable)
    let before = connections(server)
    try server.start()
    while test.database.obstacle != nil { try await Task.sleep(for: .milliseconds(10)) }
    #expect(try await test.number("a") == 1)
    try await test.put("b", 2)
    while test.database.connections < 8 { try await Task.sleep(for: .milliseconds(50)) }
    // The server's own account of when it was asked: a second between any two, but for how long it took to log in.
    let times = Array(connections(server).dropFirst(before.count))
    #expect(times.count >= 8)
    #expect(times[times.count - 1] - times[0] > Double(times.count) / 2)
  }

  /// When the pool's user connected, in seconds.
  private func connections(_ server: PostgreSQLServer) -> [Double] {
    String(decoding: FileLook.contents(of: server.folder + "/log"), as: UTF8.self)
      .split(separator: "\n")
      .filter { $0.contains("application_name=latchkey") }
      .compactMap { $0.split(separator: " ").first.flatMap { Double($0) } }
  }

  @Test("one lost connection does not stand in the way of the others")
  func oneLostConnection() async throws {
    let test = try await TestDatabase(connections: 3)
    try test.server.run(
      sql: """
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'latchkey' LIMIT 1
        """, in: test.url)
    for number in 0..<20 { try await test.put("k", Int64(number)) }
    #expect(try await test.number("k") == 19)
  }

  @Test("no error tells the password")
  func password() async throws {
    let url = try PostgreSQLURL("postgresql://someone:s3cret@127.0.0.1:1/there")
    #expect(!"\(url)".contains("s3cret"))
    let refused = await #expect(throws: StorageError.self) {
      try await PostgreSQLDatabase.open(url: url, schema: TestDatabase.schema)
    }
    #expect(refused?.fault == .unavailable)
    #expect(refused?.description.contains("s3cret") == false)
    for text in ["postgresql://u:s3cret@h:port/x?no=such", "postgresql://u:s3cret@[/", "mysql://u:s3cret@h/"] {
      let failure = #expect(throws: StorageError.self) { try PostgreSQLURL(text) }
      #expect(failure?.description.contains("s3cret") == false)
    }
  }

  @Test("an URL prints what it says but the password, and only a socket of this machine goes without TLS")
  func urls() throws {
    let url = try PostgreSQLURL("postgresql://u:p@one:5433,two/db?target_session_attrs=any")
    #expect("\(url)" == "postgresql://u@one:5433,two/db")
    #expect(url.connectionOptions["sslmode"] == "verify-full")
    #expect(url.connectionOptions["target_session_attrs"] == "any")
    #expect(try PostgreSQLURL("postgresql://one/db?sslmode=disable").connectionOptions["sslmode"] == "disable")
    // Whatever the environment makes of a host that is not named.
    for text in ["postgresql:///db", "postgresql:///db?service=x", "postgresql://localhost/db?hostaddr=192.0.2.1"] {
      #expect(try PostgreSQLURL(text).connectionOptions["sslmode"] == "verify-full")
    }
    let local = try PostgreSQLURL("postgresql:///db?host=/run/postgresql")
    #expect(local.connectionOptions["sslmode"] == nil)
    #expect(local.connectionOptions["target_session_attrs"] == "read-write")
  }

  @Test("instances that start at once make one schema")
  func startingTogether() async throws {
    let server = try PostgreSQLServer.shared()
    let url = try PostgreSQLURL(server.database())
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<6 {
        group.addTask {
          let database = try await PostgreSQLDatabase.open(url: url, schema: TestDatabase.schema, connections: 1)
          await database.close()
        }
      }
      try await group.waitForAll()
    }
  }
}
