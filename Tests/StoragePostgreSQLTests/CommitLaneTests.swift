import Callers
import Glibc
import Storage
import Synchronization
import TestSupport
import Testing

@testable import StoragePostgreSQL

@Suite("C5: a commit that was not answered")
struct CommitLaneTests {
  /// What a commit does at its end: nothing in most transactions, `statement` in the first that this server runs.
  private func first(_ statement: String, of test: TestDatabase) throws {
    try test.server.run(sql: "CREATE SEQUENCE test.commits", in: test.url)
    try test.atCommit("IF nextval('test.commits') = 1 THEN \(statement); END IF")
  }

  /// Adds one to a number, and to `runs`.
  private func add(
    _ key: String, in test: TestDatabase, counting runs: Counter, isBrief: Bool = false, isUrgent: Bool = false
  ) async throws(StorageError) -> Int64 {
    try await test.database.write("add \(key)", isUrgent: isUrgent, about: isBrief ? [key] : nil) {
      db throws(StorageError) in
      runs.add()
      return try await db.first(
        """
        INSERT INTO numbers VALUES ($1, 1) ON CONFLICT (key) DO UPDATE SET number = numbers.number + 1 RETURNING number
        """, .text(key)
      ) { $0.integer(0) } ?? -1
    }
  }

  @Test("is answered with its result when it was made", arguments: [true, false])
  func made(isBrief: Bool) async throws {
    let test = try await TestDatabase()
    try first("RAISE WARNING 'canceling wait for synchronous replication due to user request'", of: test)
    let runs = Counter()
    #expect(try await add("a", in: test, counting: runs, isBrief: isBrief) == 1)
    #expect(runs.value == 1)
    // Its connection serves on.
    for number in (2 as Int64)...9 { #expect(try await add("a", in: test, counting: runs) == number) }
    #expect(runs.value == 9)
  }

  @Test("is made again when it was not made", arguments: [true, false])
  func undone(isBrief: Bool) async throws {
    let test = try await TestDatabase()
    try first("PERFORM pg_terminate_backend(pg_backend_pid())", of: test)
    let runs = Counter()
    #expect(try await add("a", in: test, counting: runs, isBrief: isBrief) == 1)
    #expect(runs.value == 2)
    #expect(try await test.number("a") == 1)
  }

  @Test("is not made again for ever")
  func undoneAgain() async throws {
    let test = try await TestDatabase(connections: 1)
    try test.atCommit("PERFORM pg_terminate_backend(pg_backend_pid())")
    let runs = Counter()
    let failure = await #expect(throws: StorageError.self) { _ = try await add("a", in: test, counting: runs) }
    #expect(failure?.fault == .unavailable)
    #expect(runs.value == Limits.losses + 1)
    #expect(try await test.number("a") == nil)
  }

  @Test("is not made again when it was given up here: a server in trouble has enough of it")
  func givenUp() async throws {
    let test = try await TestDatabase()
    // Longer than anybody waits for a commit; the server looks meanwhile whether anybody is there.
    try first("PERFORM pg_sleep(600)", of: test)
    let runs = Counter()
    let failure = await #expect(throws: StorageError.self) { _ = try await add("a", in: test, counting: runs) }
    #expect(failure?.fault == .unavailable)
    #expect(runs.value == 1)
    #expect(try await test.number("a") == nil)
  }

  @Test("is of each that was committed together, which have their own results")
  func group() async throws {
    let test = try await TestDatabase(connections: 1, groupDuration: .seconds(60))
    try first("RAISE WARNING 'canceling wait for synchronous replication due to user request'", of: test)
    try await test.put("b", 10)
    try test.server.run(sql: "ALTER SEQUENCE test.commits RESTART", in: test.url)
    let (entered, gate, runs) = (Counter(), ThreadGate(), Counter())
    let holder = Task {
      try await test.database.write("hold") { _ in
        entered.add()
        gate.wait()
      }
    }
    while entered.value == 0 { await Task.yield() }
    let tasks = ["a", "b", "a"].enumerated().map { number, key in
      Task {
        while test.database.waiting < number { await Task.yield() }
        return try await add(key, in: test, counting: runs, isBrief: true)
      }
    }
    while test.database.waiting < 3 { await Task.yield() }
    gate.open()
    try await holder.value
    var results: [Int64] = []
    for task in tasks { results.append(try await task.value) }
    #expect(results == [1, 11, 2])
    #expect(runs.value == 3)
  }

  @Test("of a sign of life is not looked up: it would come too late")
  func urgent() async throws {
    let test = try await TestDatabase()
    try first("PERFORM pg_terminate_backend(pg_backend_pid())", of: test)
    let runs = Counter()
    let failure = await #expect(throws: StorageError.self) {
      _ = try await add("a", in: test, counting: runs, isUrgent: true)
    }
    #expect(failure?.fault == .outcomeUnknown)
    #expect(runs.value == 1)
  }

  @Test("is looked up after signs of life that wait")
  func afterUrgent() async throws {
    let test = try await TestDatabase(connections: 2)
    try first("PERFORM pg_terminate_backend(pg_backend_pid())", of: test)
    let (entered, runs) = (Counter(), Counter())
    let gates = [ThreadGate(), ThreadGate()]
    func hold(_ number: Int) async throws {
      try await test.database.write("hold \(number)") { db throws(StorageError) in
        entered.add()
        gates[number].wait()
        if number == 1 { try await db.execute("INSERT INTO numbers VALUES ('a', 1)") }
        runs.add()
      }
    }
    let (holder, broken) = (Task { try await hold(0) }, Task { try await hold(1) })
    while entered.value < 2 { await Task.yield() }
    func countLooks() async throws -> Int64? {
      try await test.database.read("count looks", isUrgent: true) { db throws(StorageError) in
        try await db.first("SELECT count(closed) FROM lanes") { $0.integer(0) }
      }
    }
    let looks = Task { try await countLooks() }
    while test.database.waiting < 1 { await Task.yield() }
    gates[1].open()
    #expect(try await looks.value == 0)
    try await broken.value
    #expect(try await test.number("a") == 1 && runs.value == 2)
    gates[0].open()
    try await holder.value
    #expect(try await countLooks() == 1)
  }

  @Test("leaves nothing of the looking where nothing was changed")
  func readers() async throws {
    let test = try await TestDatabase()
    _ = try await test.database.write("look") { db throws(StorageError) in
      try await db.all("SELECT number FROM numbers") { $0.integer(0) }
    }
    #expect(try await lanes(test).isEmpty)
    try await test.put("a", 1)
    #expect(try await lanes(test).count == 1)
  }

  private func lanes(_ test: TestDatabase) async throws(StorageError) -> [Int64] {
    try await test.database.read("lanes") { db throws(StorageError) in
      try await db.all("SELECT last FROM lanes") { $0.integer(0) }
    }
  }

  @Test("waits for a server that comes back, and is made again there")
  func outage() async throws {
    let server = try PostgreSQLServer()
    let test = try await TestDatabase(on: server)
    try await test.put("b", 1)
    try server.run(sql: "CREATE TABLE test.began AS SELECT pg_postmaster_start_time() AS at", in: test.url)
    try test.atCommit("IF pg_postmaster_start_time() = (SELECT at FROM test.began) THEN PERFORM pg_sleep(60); END IF")
    let runs = Counter()
    let adding = Task { try await add("a", in: test, counting: runs) }
    try await wait(for: "PgSleep", in: test)
    try server.kill()
    while test.database.connections > 0 { try await Task.sleep(for: .milliseconds(10)) }
    try server.start()
    #expect(try await adding.value == 1)
    #expect(runs.value == 2)
    #expect(try await test.number("a") == 1)
  }

  @Test("is said to be unknown when nobody comes to look, and at the latest with the pool's end")
  func nobodyLooks() async throws {
    let server = try PostgreSQLServer()
    let test = try await TestDatabase(on: server)
    try test.atCommit("PERFORM pg_sleep(60)")
    let runs = Counter()
    let adding = Task { try await add("a", in: test, counting: runs) }
    try await wait(for: "PgSleep", in: test)
    try server.kill()
    while test.database.connections > 0 { try await Task.sleep(for: .milliseconds(10)) }
    await test.database.close()
    let failure = await #expect(throws: StorageError.self) { _ = try await adding.value }
    #expect(failure?.fault == .outcomeUnknown)
    #expect(failure?.operation == "add a")
    #expect(runs.value == 1)
  }

  @Test("is said to be unknown before its caller's time is over, when nobody could look until then")
  func callersTime() async throws {
    let server = try PostgreSQLServer()
    let test = try await TestDatabase(on: server)
    try test.atCommit("PERFORM pg_sleep(60)")
    let (runs, deadline) = (Counter(), ContinuousClock.now + .seconds(4))
    let adding = Task {
      try await CallDeadline.$current.withValue(deadline) {
        try await add("a", in: test, counting: runs)
      }
    }
    try await wait(for: "PgSleep", in: test)
    try server.kill()
    let failure = await #expect(throws: StorageError.self) { _ = try await adding.value }
    #expect(failure?.fault == .outcomeUnknown)
    #expect(ContinuousClock.now < deadline)
  }

  /// Waits for a connection of the test's that waits for `event`.
  private func wait(for event: String, in test: TestDatabase) async throws {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = $1"
    while try await test.database.find(sql, [.text(event)], map: { $0.integer(0) }) != 1 {
      try await Task.sleep(for: .milliseconds(10))
    }
  }

  // MARK: Connections that break behind a commit

  /// A pool of one connection, which breaks while the server takes its time for a commit that it makes.
  private struct BrokenCommit {
    let test: TestDatabase
    private let observer: PostgreSQLDatabase
    private let socket: Int32

    init() async throws {
      test = try await TestDatabase(connections: 1, groupDuration: .seconds(60))
      observer = try await PostgreSQLDatabase.open(
        url: PostgreSQLURL(test.url), schema: TestDatabase.schema, connections: 1)
      let found = Mutex<Int32>(-1)
      try await test.database.write("find the socket") { db in found.withLock { $0 = db.socket } }
      socket = found.withLock { $0 }
      try test.server.run(sql: "CREATE SEQUENCE test.commits", in: test.url)
    }

    /// What the commit does that takes its time. The server does not look whether anybody waits for it.
    static func sleep(seconds: Int) -> String {
      "PERFORM set_config('client_connection_check_interval', '0', true), pg_sleep(\(seconds))"
    }

    /// It is the first.
    func setFirst(seconds: Int) throws {
      try test.atCommit("IF nextval('test.commits') = 1 THEN \(Self.sleep(seconds: seconds)); END IF")
    }

    /// Returns when a commit is under way whose answer does not come.
    func lose() async throws {
      _ = try await session("wait_event = 'PgSleep'")
      // The socket is the pool's, which closes it when it finds out.
      shutdown(socket, Int32(SHUT_RDWR))
    }

    /// The process of one that does this, sooner or later.
    func session(_ condition: String) async throws -> Int64 {
      let sql = "SELECT pid::bigint FROM pg_stat_activity WHERE datname = current_database() AND \(condition)"
      while true {
        if let found = try await observer.find(sql, [], map: { $0.integer(0) }) { return found }
        try await Task.sleep(for: .milliseconds(10))
      }
    }

    func end(_ session: Int64) async throws {
      _ = try await observer.find("SELECT pg_terminate_backend($1::bigint::int)", [.integer(session)]) { $0.bool(0) }
    }
  }

  private static let isLooking = "query LIKE 'INSERT INTO lanes%RETURNING%' AND wait_event_type = 'Lock'"

  @Test(
    "is answered with its result when it was made after its connection broke, however often a look is lost",
    arguments: 0...2)
  func broken(lostLooks: Int) async throws {
    let commit = try await BrokenCommit()
    let (test, runs) = (commit.test, Counter())
    try commit.setFirst(seconds: 1 + 2 * lostLooks)
    let adding = Task { try await add("a", in: test, counting: runs) }
    try await commit.lose()
    for _ in 0..<lostLooks { try await commit.end(commit.session(Self.isLooking)) }
    #expect(try await adding.value == 1)
    #expect(runs.value == 1)
    #expect(try await test.number("a") == 1)
  }

  @Test("is answered also while the pool is closed, by a look that was under way")
  func closing() async throws {
    let commit = try await BrokenCommit()
    let (test, runs) = (commit.test, Counter())
    try commit.setFirst(seconds: 2)
    let adding = Task { try await add("a", in: test, counting: runs) }
    try await commit.lose()
    _ = try await commit.session(Self.isLooking)
    await test.database.close()
    #expect(try await adding.value == 1)
    #expect(runs.value == 1)
  }

  @Test("is unknown when it was made and what its only statement answered is lost, with whatever it answered before")
  func statement() async throws {
    let commit = try await BrokenCommit()
    let test = commit.test
    // The third attempt is the one whose answer is lost. The others, in a group and alone, were answered and then undone by
    // their commits.
    try test.atCommit(
      """
      CASE nextval('test.commits') WHEN 1, 2 THEN RAISE EXCEPTION 'again' USING ERRCODE = '40001';
      WHEN 3 THEN \(BrokenCommit.sleep(seconds: 1)); ELSE NULL; END CASE
      """)
    let adding = Task {
      try await test.database.change(
        "INSERT INTO numbers VALUES ('a', 1) RETURNING pg_current_xact_id()::text::bigint", [], about: [], as: "add"
      ) { $0.integer(0) }
    }
    try await commit.lose()
    let failure = await #expect(throws: StorageError.self) { try await adding.value }
    #expect(failure?.fault == .outcomeUnknown)
    #expect(failure?.detail == "it was done, and its answer is lost")
    #expect(try await test.number("a") == 1)
  }

  // MARK: One lane

  private func look(_ mark: CommitMark, in test: TestDatabase) async throws(StorageError) -> Bool {
    // The look is a transaction of its own, before that of the write has begun.
    try await test.database.write("look") { db throws(StorageError) in try db.isCommitted(mark) }
  }

  private func move(
    _ mark: CommitMark, in test: TestDatabase,
    then body: @escaping @Sendable () -> Void = {}
  ) async throws(StorageError) {
    try await test.database.write("move a lane") { db throws(StorageError) in
      // So that the transaction changes something.
      try await db.execute("INSERT INTO numbers VALUES ('k', 1) ON CONFLICT (key) DO UPDATE SET number = 2")
      _ = try await db.change(CommitLane.mark, .integer(mark.lane), .integer(mark.number))
      body()
    }
  }

  @Test("a look at a transaction that is just being committed waits for it", arguments: [0, 1])
  func waiting(before: Int64) async throws {
    let test = try await TestDatabase()
    if before > 0 { try await move(CommitMark(lane: 7, number: before), in: test) }
    let (entered, gate, mark) = (Counter(), ThreadGate(), CommitMark(lane: 7, number: before + 1))
    let moving = Task {
      try await move(mark, in: test) {
        entered.add()
        gate.wait()
      }
    }
    while entered.value == 0 { await Task.yield() }
    let looking = Task { try await look(mark, in: test) }
    try await wait(for: "transactionid", in: test)
    gate.open()
    try await moving.value
    #expect(try await looking.value)
  }

  @Test(
    "a transaction that comes after a look fails, and another look says the same", arguments: [0, 1])
  func straggler(before: Int64) async throws {
    let test = try await TestDatabase()
    if before > 0 { try await move(CommitMark(lane: 7, number: before), in: test) }
    let mark = CommitMark(lane: 7, number: before + 1)
    #expect(try await !look(mark, in: test))
    let failure = await #expect(throws: StorageError.self) { try await move(mark, in: test) }
    #expect(failure?.fault == .constraint(.check))
    #expect(try await !look(mark, in: test))
    #expect(try await look(CommitMark(lane: 7, number: before), in: test))
  }

  @Test("rows of lanes that nobody has used for a month go with the first commit of a new one")
  func forgetting() async throws {
    let test = try await TestDatabase(connections: 1)
    try test.server.run(
      sql: """
        INSERT INTO test.lanes (lane, last, used_at) VALUES (1, 101, now() - interval '31 days'),
          (2, 102, now() - interval '29 days')
        """, in: test.url)
    try await test.put("a", 1)
    #expect(Set(try await lanes(test)) == [102, 1])
    try await test.put("a", 2)
    #expect(Set(try await lanes(test)) == [102, 2])
  }

  @Test("a connection takes another lane after a thousand commits, and the row of the one before goes")
  func another() async throws {
    let test = try await TestDatabase(connections: 1)
    for number in 1...(Int64(Limits.laneCommits) + 2) { try await test.put("a", number) }
    #expect(try await lanes(test) == [2])
  }

  @Test("looks leave a connection to what else there is, and there are not too many")
  func bounds() {
    var commits = UnknownCommits()
    let entry = UnknownCommits.Entry(
      mark: CommitMark(lane: 1, number: 1), operations: [], isRunAgain: true,
      failure: StorageError(.outcomeUnknown, operation: "test"))
    let taken = (0...Limits.unknownCommits).map { _ in commits.append(entry) }
    #expect(taken.filter { $0 }.count == Limits.unknownCommits)
    for (connections, looks) in [(1, 1), (2, 1), (3, 2), (8, 2)] {
      var looking = commits
      let found = (0..<8).map { _ in looking.next(among: connections) != nil }
      #expect(found.filter { $0 }.count == looks)
      looking.finished(entry)
      #expect(looking.isReady(among: connections))
    }
  }
}
