import Callers
import Storage
import Synchronization
import TestSupport
import Testing

@testable import StoragePostgreSQL

@Suite("What waits for a PostgreSQL at the same time")
struct PostgreSQLGroupTests {
  typealias Work = @Sendable () async throws -> Int64

  private static let add = """
    INSERT INTO numbers VALUES ($1, 1) ON CONFLICT (key) DO UPDATE SET number = numbers.number + 1
    RETURNING pg_current_xact_id()::text::bigint
    """

  /// Does all of `works` once they wait, in their order, for the one connection of `test`.
  func together(in test: TestDatabase, _ works: [Work]) async throws -> [Result<Int64, any Error>] {
    let (entered, gate) = (Counter(), ThreadGate())
    let holder = Task {
      try await test.database.write("hold") { _ in
        entered.add()
        gate.wait()
      }
    }
    while entered.value == 0 { await Task.yield() }
    var tasks: [Task<Result<Int64, any Error>, Never>] = []
    // One that is late before it waits has ended.
    let ended = Counter()
    for (number, work) in works.enumerated() {
      tasks.append(
        Task {
          defer { ended.add() }
          do {
            return .success(try await work())
          } catch {
            return .failure(error)
          }
        })
      while test.database.waiting + ended.value <= number { await Task.yield() }
    }
    gate.open()
    try await holder.value
    var results: [Result<Int64, any Error>] = []
    for task in tasks { results.append(await task.value) }
    return results
  }

  /// Adds one to a number in one statement. Answers its transaction.
  private func adding(_ key: String, in test: TestDatabase) -> Work {
    {
      try await test.database.change(Self.add, [.text(key)], about: [], as: "add \(key)") { $0.integer(0) } ?? -1
    }
  }

  /// The same as a brief transaction of a body's.
  private func writing(
    _ key: String, in test: TestDatabase,
    then body: @escaping @Sendable (PostgreSQLConnection) async throws(StorageError) -> Void = { _ in },
    before beginning: @escaping @Sendable (PostgreSQLConnection) async throws(StorageError) -> Void = { _ in }
  ) -> Work {
    {
      try await test.database.write("write \(key)", about: [key]) { db throws(StorageError) in
        try await beginning(db)
        let transaction = try await db.first(Self.add, .text(key)) { $0.integer(0) } ?? -1
        try await body(db)
        return transaction
      }
    }
  }

  private func operation(_ result: Result<Int64, any Error>) -> String? {
    if case .failure(let error) = result { (error as? StorageError)?.operation } else { nil }
  }

  func fault(_ result: Result<Int64, any Error>) -> StorageError.Fault? {
    if case .failure(let error) = result { (error as? StorageError)?.fault } else { nil }
  }

  @Test("is committed as one transaction, whatever its shape, and what is not brief is not in it")
  func oneTransaction() async throws {
    let test = try await TestDatabase(connections: 1, groupDuration: .seconds(60))
    let alone: Work = {
      try await test.database.write("alone") { db throws(StorageError) in
        try await db.first(Self.add, .text("alone")) { $0.integer(0) } ?? -1
      }
    }
    let results = try await together(
      in: test, [adding("a", in: test), writing("b", in: test), alone, adding("c", in: test)])
    let numbers = try results.map { try $0.get() }
    #expect(numbers[0] == numbers[1] && numbers[0] == numbers[3] && numbers[0] != numbers[2])
    for key in ["a", "b", "c", "alone"] { #expect(try await test.number(key) == 1) }
  }

  @Test("runs side by side when it is about different rows: each goes on when all have asked")
  func sideBySide() async throws {
    let test = try await TestDatabase(connections: 1, groupDuration: .seconds(60))
    let log = Mutex<[String]>([])
    let works = ["a", "b", "c", "a"].enumerated().map { number, key in
      writing(key, in: test) { db throws(StorageError) in
        log.withLock { $0.append("\(key)\(number) first") }
        let seen = try await db.first("SELECT number FROM numbers WHERE key = $1", .text(key)) { $0.integer(0) }
        log.withLock { $0.append("\(key)\(number) sees \(seen ?? 0)") }
      } before: { _ in
        log.withLock { $0.append("\(key)\(number) begins") }
      }
    }
    let results = try await together(in: test, works)
    #expect(Set(try results.map { try $0.get() }).count == 1)
    #expect(
      log.withLock(\.self) == [
        "a0 begins", "b1 begins", "c2 begins", "a0 first", "b1 first", "c2 first", "a0 sees 1", "b1 sees 1",
        "c2 sees 1",
        // The second about the same row, when the first has ended.
        "a3 begins", "a3 first", "a3 sees 2",
      ])
  }

  @Test("keeps its order for those about the same rows, whatever else they are about")
  func chains() async throws {
    let test = try await TestDatabase(connections: 1, groupDuration: .seconds(60))
    let log = Mutex<[String]>([])
    let rows = [["x", "y"], ["y", "z"], ["x"], ["z"], ["w"]]
    let works = rows.map { rows -> Work in
      { @Sendable in
        try await test.database.write("write", about: rows) { db throws(StorageError) in
          for key in rows {
            _ = try await db.first(Self.add, .text(key)) { $0.integer(0) }
            log.withLock { $0.append("\(rows.joined())") }
          }
          return 0
        }
      }
    }
    for result in try await together(in: test, works) { _ = try result.get() }
    #expect(log.withLock(\.self) == ["xy", "w", "xy", "yz", "x", "yz", "z"])
    for (key, number) in ["w": 1, "x": 2, "y": 2, "z": 2] as [String: Int64] {
      #expect(try await test.number(key) == number)
    }
  }

  @Test("runs in its order, each seeing those before it, when it is about the same row")
  func ordering() async throws {
    let test = try await TestDatabase(connections: 1, groupDuration: .seconds(60))
    let works = (0..<20).map { _ -> Work in
      { @Sendable in
        try await test.database.write("count", about: ["k"]) { db throws(StorageError) in
          let found = try await db.first("SELECT number FROM numbers WHERE key = 'k' FOR UPDATE") { $0.integer(0) } ?? 0
          try await db.execute(
            "INSERT INTO numbers VALUES ('k', $1) ON CONFLICT (key) DO UPDATE SET number = $1", .integer(found + 1))
          return found
        }
      }
    }
    let results = try await together(in: test, works)
    #expect(try results.map { try $0.get() } == (0..<20).map { Int64($0) })
    #expect(try await test.number("k") == 20)
  }

  @Test("stays when one of it fails, which hears why in its own name; each is done once")
  func failingMember() async throws {
    let test = try await TestDatabase(connections: 1, groupDuration: .seconds(60))
    try await test.put("there", 7)
    let failing: Work = {
      let sql = "INSERT INTO numbers VALUES ('there', 1)"
      return Int64(try await test.database.change(sql, [], about: [], as: "insert again"))
    }
    let results = try await together(
      in: test, [adding("a", in: test), writing("b", in: test), failing, adding("a", in: test), adding("c", in: test)])
    #expect(fault(results[2]) == .constraint(.unique))
    #expect(operation(results[2]) == "insert again")
    #expect(results.filter { fault($0) == nil }.count == 4)
    #expect(try await test.number("a") == 2)
    #expect(try await test.number("b") == 1)
    #expect(try await test.number("c") == 1)
    #expect(try await test.number("there") == 7)
  }

  @Test("leaves nothing of one that throws after it wrote, nor of what it did not wait for")
  func throwingMember() async throws {
    let test = try await TestDatabase(connections: 1, groupDuration: .seconds(60))
    let throwing = writing("thrown", in: test) { db throws(StorageError) in
      try await db.execute("INSERT INTO numbers VALUES ('later', 1)")
      throw StorageError(.corrupt, operation: "throw")
    }
    let failingLater = writing("failed", in: test) { db throws(StorageError) in
      try await db.execute("INSERT INTO numbers VALUES ('failed', 1)")
    }
    let results = try await together(
      in: test, [writing("a", in: test), throwing, failingLater, adding("b", in: test)])
    #expect(fault(results[1]) == .corrupt)
    #expect(fault(results[2]) == .constraint(.unique))
    #expect(operation(results[2]) == "write failed")
    for key in ["thrown", "later", "failed"] { #expect(try await test.number(key) == nil) }
    for key in ["a", "b"] { #expect(try await test.number(key) == 1) }
  }

  @Test("does not wait together for a row that somebody holds")
  func lockInTheWay() async throws {
    let test = try await TestDatabase(connections: 2)
    try await test.put("held", 0)
    let other = try await PostgreSQLDatabase.open(
      url: PostgreSQLURL(test.url), schema: TestDatabase.schema, connections: 1, isPatient: true)
    let (entered, gate) = (Counter(), ThreadGate())
    let holder = Task {
      try await other.write("hold the row") { db throws(StorageError) in
        _ = try await db.first("SELECT number FROM numbers WHERE key = 'held' FOR UPDATE") { $0.integer(0) }
        entered.add()
        gate.wait()
      }
    }
    while entered.value == 0 { await Task.yield() }
    let waitsForRow = Task { try await adding("held", in: test)() }
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<20 {
        group.addTask {
          _ = try await adding("free\(number)", in: test)()
        }
      }
      try await group.waitForAll()
    }
    // All others are done, and the row is held still.
    #expect(try await test.number("held") == 0)
    for number in 0..<20 { #expect(try await test.number("free\(number)") == 1) }
    gate.open()
    try await holder.value
    _ = try await waitsForRow.value
    #expect(try await test.number("held") == 1)
    await other.close()
  }

  @Test("keeps nobody waiting for a connection while lone changes wait for their rows")
  func loneLocksInTheWay() async throws {
    let test = try await TestDatabase(connections: 6)
    let other = try await PostgreSQLDatabase.open(
      url: PostgreSQLURL(test.url), schema: TestDatabase.schema, connections: 1, isPatient: true)
    for number in 0..<4 { try await test.put("held\(number)", 0) }
    let (entered, gate) = (Counter(), ThreadGate())
    let holder = Task {
      try await other.write("hold the rows") { db throws(StorageError) in
        _ = try await db.all("SELECT key FROM numbers FOR UPDATE") { _ in true }
        entered.add()
        gate.wait()
      }
    }
    while entered.value == 0 { await Task.yield() }
    // As many as have connections for groups, each by itself: the next one comes when the one before has begun.
    let ended = Counter()
    var waiters: [Task<Int64, any Error>] = []
    for number in 0..<4 {
      let began = Counter()
      waiters.append(
        Task {
          defer { ended.add() }
          return try await writing("held\(number)", in: test, before: { _ in began.add() })()
        })
      while began.value == 0 { await Task.yield() }
    }
    _ = try await adding("free", in: test)()
    #expect(ended.value == 0)
    gate.open()
    try await holder.value
    for waiter in waiters { _ = try await waiter.value }
    for number in 0..<4 { #expect(try await test.number("held\(number)") == 1) }
    await other.close()
  }

  @Test("goes back behind what is urgent")
  func undoneBehindUrgent() throws {
    func operation(isUrgent: Bool = false) -> PostgreSQLOperation<Int> {
      PostgreSQLOperation(name: "count", isReading: false, isUrgent: isUrgent, about: [], work: .body { _ in 1 })
    }
    var queue = PostgreSQLQueue()
    let (first, second, urgent) = (operation(), operation(), operation(isUrgent: true))
    queue.append(first)
    queue.append(second)
    let next = queue.next()
    let group = try #require(next)
    #expect(group.operations.count == 2)
    queue.append(urgent)
    for member in group.operations { member.goBack(.undone) }
    queue.finished(group, done: 0)
    queue.prepend(group.operations)
    #expect(queue.count == 3)
    let order = (0..<3).compactMap { _ in queue.next()?.operations.first }
    #expect(order.map(ObjectIdentifier.init) == [urgent, first, second].map { ObjectIdentifier($0) })
  }

  @Test("R50: what one source has waiting keeps no other from its few, which are done by turns with it")
  func shares() throws {
    let (large, small) = (NetworkAddress("192.0.2.1"), NetworkAddress("192.0.2.2"))
    func operation(of source: NetworkAddress?, isBrief: Bool = true) -> PostgreSQLOperation<Int> {
      CallPlace.$current.withValue(CallPlace(holder: source)) {
        PostgreSQLOperation(name: "count", isReading: false, about: isBrief ? [] : nil, work: .body { _ in 1 })
      }
    }
    var queue = PostgreSQLQueue()
    let many = (0..<4).map { _ in operation(of: large, isBrief: false) }
    for waiting in many { queue.append(waiting) }
    let few = (0..<2).map { _ in operation(of: small) }
    let isLargeTaken = queue.appendOfFew(operation(of: large))
    let isFirstTaken = queue.appendOfFew(few[0])
    let isSecondTaken = queue.appendOfFew(few[1])
    #expect(isFirstTaken && !isSecondTaken && !isLargeTaken && queue.count == 5)
    for waiting in (0..<4).map({ _ in operation(of: large) }) { queue.append(waiting) }
    let isTakenNow = queue.appendOfFew(few[1])
    #expect(isTakenNow)
    let order = (0..<4).compactMap { _ in queue.next()?.operations.first }
    #expect(order.map(ObjectIdentifier.init) == [few[0], many[0], few[1], many[1]].map { ObjectIdentifier($0) })
    // What is taken out is nobody's share any more, until it comes back.
    let isTakenOfLess = queue.appendOfFew(operation(of: small))
    #expect(isTakenOfLess)
    queue.prepend([few[0]])
    let isTakenTwice = queue.appendOfFew(operation(of: small))
    #expect(!isTakenTwice)
    _ = queue.removeAll()
    let isTakenOfNothing = queue.appendOfFew(operation(of: small))
    #expect(!isTakenOfNothing && queue.count == 0)
  }

  @Test("is undone together when the connection ends before the commit, and nobody is told otherwise")
  func lostConnection() async throws {
    let test = try await TestDatabase(connections: 1, groupDuration: .seconds(60))
    let runs = Counter()
    let breaking = writing("breaking", in: test) { db throws(StorageError) in
      runs.add()
      db.breakSocket()
      _ = try await db.first("SELECT 1") { $0.integer(0) }
    }
    let results = try await together(
      in: test, [adding("a", in: test), writing("b", in: test), breaking, writing("c", in: test)])
    for result in results { #expect(fault(result) == .unavailable) }
    #expect(runs.value == 1)
    // By a connection of its own: the lost one may not stand again yet.
    try test.server.run(sql: "DO $$ BEGIN ASSERT NOT EXISTS (SELECT FROM test.numbers); END $$", in: test.url)
  }

  @Test("is done again by another connection when its own is lost over undoing it", .timeLimit(.minutes(1)))
  func lostOverUndoing() async throws {
    let test = try await TestDatabase(connections: 2, groupDuration: .seconds(60))
    let (entered, gate) = (Counter(), ThreadGate())
    let holder = Task {
      try await test.database.write("hold the other connection") { _ in
        entered.add()
        gate.wait()
      }
    }
    while entered.value == 0 { await Task.yield() }
    let runs = Counter()
    let failing = writing("failing", in: test) { db throws(StorageError) in
      runs.add()
      if runs.value == 1 { db.breakSocket() }
      throw StorageError(.corrupt, operation: "fail")
    }
    async let results = together(
      in: test, [adding("a", in: test), writing("b", in: test), failing, writing("c", in: test)])
    while runs.value == 0 { try await Task.sleep(for: .milliseconds(1)) }
    gate.open()
    try await holder.value
    let ends = try await results
    #expect(ends.map { fault($0) } == [nil, nil, .corrupt, nil])
    #expect(runs.value == 2)
    for key in ["a", "b", "c"] { #expect(try await test.number(key) == 1) }
    #expect(try await test.number("failing") == nil)
  }

  @Test("C5: is looked up together when the commit is not answered, and done again when it was not made")
  func unansweredCommit() async throws {
    let test = try await TestDatabase(connections: 1, groupDuration: .seconds(60))
    try test.server.run(sql: "CREATE SEQUENCE test.commits", in: test.url)
    try test.atCommit("IF nextval('test.commits') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF")
    let runs = Counter()
    let counted: @Sendable (PostgreSQLConnection) async throws(StorageError) -> Void = { _ in runs.add() }
    let results = try await together(
      in: test,
      [writing("a", in: test, then: counted), adding("b", in: test), writing("c", in: test, then: counted)])
    #expect(Set(try results.map { try $0.get() }).count == 1)
    #expect(runs.value == 4)
    for key in ["a", "b", "c"] { #expect(try await test.number(key) == 1) }
  }

  @Test("is not done for a caller who went away or is late, neither in a group nor after one that was undone")
  func lateMembers() async throws {
    let test = try await TestDatabase(connections: 1, groupDuration: .seconds(60))
    let deadline = ContinuousClock.now + .seconds(1)
    let late: Work = {
      try await CallDeadline.$current.withValue(deadline) { try await adding("late", in: test)() }
    }
    let failing = writing("failing", in: test) { _ throws(StorageError) in
      while ContinuousClock.now < deadline {}
      throw StorageError(.corrupt, operation: "fail")
    }
    let results = try await together(in: test, [late, failing, adding("a", in: test)])
    #expect(fault(results[0]) == .overloaded)
    #expect(try await test.number("late") == nil)
    #expect(try await test.number("a") == 1)
  }

  @Test("is looked up together, and one that fails fails alone")
  func lookups() async throws {
    let test = try await TestDatabase(connections: 1, groupDuration: .seconds(60))
    for number in 0..<5 { try await test.put("k\(number)", Int64(number)) }
    let works = (0..<5).map { number -> Work in
      { @Sendable in
        let column = number == 3 ? "1 / (number - 3)" : "number"
        let sql = "SELECT \(column) FROM numbers WHERE key = $1"
        return try await test.database.find(sql, [.text("k\(number)")], as: "find \(number)") { $0.integer(0) } ?? -1
      }
    }
    let results = try await together(in: test, works)
    for number in [0, 1, 2, 4] { #expect(try results[number].get() == Int64(number)) }
    #expect(operation(results[3]) == "find 3")
  }
}
