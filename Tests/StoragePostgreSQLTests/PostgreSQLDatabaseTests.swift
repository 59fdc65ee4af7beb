import Callers
import Glibc
import Storage
import Synchronization
import TestSupport
import Testing

@testable import StoragePostgreSQL

@Suite("A PostgreSQL database")
struct PostgreSQLDatabaseTests {
  @Test("what was written is read, and what threw is not there")
  func writesAndReads() async throws {
    let test = try await TestDatabase()
    try await test.put("a", -7)
    let failure = await #expect(throws: StorageError.self) {
      try await test.database.write("fail") { db throws(StorageError) in
        try await db.execute("INSERT INTO numbers VALUES ('b', 1)")
        throw StorageError(.misuse, operation: "fail")
      }
    }
    #expect(failure?.operation == "fail")
    #expect(try await test.number("a") == -7)
    #expect(try await test.number("b") == nil)
  }

  @Test("every kind of value comes back as it went")
  func kinds() async throws {
    let test = try await TestDatabase()
    let id = [UInt8](0..<16)
    try await test.database.write { db throws(StorageError) in
      try await db.execute(
        "INSERT INTO kinds VALUES ($1, $2, $3, $4, $5), (NULL, NULL, NULL, NULL, NULL)",
        .integer(Int64.min), .text("ü\"\\{}"), .bytes([0, 255]), .bytes(id), .bool(true))
    }
    try await test.database.read { db throws(StorageError) in
      let rows = try await db.all(
        "SELECT number, text, bytes, id, flag FROM kinds ORDER BY number"
      ) { ($0.optionalInteger(0), $0.optionalText(1), $0.optionalBytes(2), $0.optionalBytes(3), $0.optionalBoolean(4)) }
      #expect(rows.count == 2)
      #expect(rows[0] == (Int64.min, "ü\"\\{}", [0, 255], id, true))
      #expect(rows[1] == (nil, nil, nil, nil, nil))
      let empty = try await db.first("SELECT $1::text, $2::bytea", .text(""), .bytes([])) {
        ($0.optionalText(0), $0.optionalBytes(1))
      }
      #expect(empty?.0 == "" && empty?.1 == [])
    }
  }

  @Test("arrays arrive element by element")
  func arrays() async throws {
    let test = try await TestDatabase()
    let id = [UInt8](repeating: 0xAB, count: 16)
    let texts = ["", "a,b", "\"quoted\" \\ {x}", "NULL"]
    try await test.database.read { db throws(StorageError) in
      let found = try await db.all("SELECT unnest($1::text[])", .texts(texts)) { $0.text(0) }
      #expect(found == texts)
      let numbers = try await db.all("SELECT unnest($1::bigint[])", .integers([3, -1])) { $0.integer(0) }
      #expect(numbers == [3, -1])
      let bytes = try await db.all("SELECT unnest($1::bytea[])", .byteArrays([[], [0, 92, 34]])) { $0.bytes(0) }
      #expect(bytes == [[], [0, 92, 34]])
      let ids = try await db.all("SELECT unnest($1::uuid[])", .uuids([id])) { $0.bytes(0) }
      #expect(ids == [id])
      let none = try await db.all("SELECT unnest($1::text[])", .texts([])) { $0.text(0) }
      #expect(none.isEmpty)
    }
  }

  @Test("a text that PostgreSQL cannot hold is refused, not cut")
  func nulInText() async throws {
    let test = try await TestDatabase()
    let failure = await #expect(throws: StorageError.self) { try await test.put("a\0b", 1) }
    #expect(failure?.fault == .misuse)
    #expect(try await test.number("a") == nil)
  }

  @Test("a broken rule of the schema is named, without the values that broke it")
  func constraints() async throws {
    let test = try await TestDatabase()
    try await test.put("secret", 1)
    let failure = await #expect(throws: StorageError.self) {
      try await test.database.write { db throws(StorageError) in
        try await db.execute("INSERT INTO numbers VALUES ($1, 2)", .text("secret"))
      }
    }
    #expect(failure?.isUniqueViolation == true)
    #expect(failure?.description.contains("secret") == false)
    let second = await #expect(throws: StorageError.self) {
      try await test.database.write { db throws(StorageError) in
        try await db.execute("INSERT INTO numbers VALUES ($1, NULL)", .text("x"))
      }
    }
    #expect(second?.fault == .constraint(.notNull))
  }

  @Test("a failed statement that its operation passes over undoes the operation, and says so")
  func swallowedFailure() async throws {
    let test = try await TestDatabase()
    try await test.put("a", 1)
    let failure = await #expect(throws: StorageError.self) {
      try await test.database.write { db throws(StorageError) in
        try await db.execute("INSERT INTO numbers VALUES ('b', 1)")
        _ = try? await db.change("INSERT INTO numbers VALUES ('a', 1)")
      }
    }
    #expect(failure?.fault == .misuse)
    #expect(try await test.number("b") == nil)
  }

  @Test("a reader writes nothing, and sees one state of the rows")
  func readers() async throws {
    let test = try await TestDatabase()
    try await test.put("a", 1)
    let failure = await #expect(throws: StorageError.self) {
      try await test.database.read { db throws(StorageError) in
        try await db.execute("DELETE FROM numbers")
      }
    }
    #expect(failure != nil)
    let isolation = try await test.database.read { db throws(StorageError) in
      try await db.first("SELECT current_setting('transaction_isolation')") { $0.text(0) }
    }
    #expect(isolation == "repeatable read")
    #expect(try await test.number("a") == 1)
  }

  @Test("forty at once read, add and store under the lock of a key that is not there: none is lost")
  func lockOfMissingKey() async throws {
    let test = try await TestDatabase(connections: 8)
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<40 {
        group.addTask {
          try await test.database.write("add") { db throws(StorageError) in
            try await db.lock("numbers", .text("k"))
            let found = try await db.first("SELECT number FROM numbers WHERE key = 'k'") { $0.integer(0) }
            guard let found else {
              try await db.execute("INSERT INTO numbers VALUES ('k', 1)")
              return
            }
            try await db.execute("UPDATE numbers SET number = $1 WHERE key = 'k'", .integer(found + 1))
          }
        }
      }
      try await group.waitForAll()
    }
    #expect(try await test.number("k") == 40)
  }

  @Test("operations that lock each other out are run again")
  func deadlock() async throws {
    let test = try await TestDatabase(connections: 2)
    try await test.put("a", 0)
    try await test.put("b", 0)
    try await withThrowingTaskGroup(of: Void.self) { group in
      for turn in 0..<2 {
        group.addTask {
          try await test.database.write("swap") { db throws(StorageError) in
            let keys = turn.isMultiple(of: 2) ? ["a", "b"] : ["b", "a"]
            for key in keys {
              try await db.execute("UPDATE numbers SET number = number + 1 WHERE key = $1", .text(key))
              // Long enough for the other one to take its first row.
              try await db.execute("SELECT pg_sleep(0.2)")
            }
          }
        }
      }
      try await group.waitForAll()
    }
    #expect(try await test.number("a") == 2)
    #expect(try await test.number("b") == 2)
  }

  @Test("what keeps failing to serialize is tried four times, and then too much")
  func persistentConflict() async throws {
    let test = try await TestDatabase()
    let runs = Counter()
    let failure = await #expect(throws: StorageError.self) {
      try await test.database.write { db throws(StorageError) in
        runs.add()
        try await db.execute("DO $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END $$")
      }
    }
    #expect(failure?.fault == .overloaded)
    #expect(runs.value == 4)
  }

  @Test("who is cancelled while waiting hears so, and what runs is finished")
  func cancellation() async throws {
    let test = try await TestDatabase(connections: 1)
    let (entered, gate) = (ThreadGate(), ThreadGate())
    let running = Task {
      try await test.database.write("hold") { db throws(StorageError) in
        entered.open()
        gate.wait()
        try await db.execute("INSERT INTO numbers VALUES ('held', 1)")
      }
    }
    entered.wait()
    let waiting = Task { try await test.put("waited", 1) }
    waiting.cancel()
    running.cancel()
    let failure = await #expect(throws: StorageError.self) { try await waiting.value }
    #expect(failure?.fault == .cancelled)
    gate.open()
    try await running.value
    #expect(try await test.number("held") == 1)
    #expect(try await test.number("waited") == nil)
  }

  private final class Order: Sendable {
    let names = Mutex<[String]>([])

    func note(_ name: String) { names.withLock { $0.append(name) } }
  }

  @Test("what is urgent goes before what waits, and work whose call is over is not begun")
  func order() async throws {
    let test = try await TestDatabase(connections: 1)
    let (entered, gate) = (Counter(), ThreadGate())
    let running = Task {
      try await test.database.write("hold") { _ in
        entered.add()
        gate.wait()
      }
    }
    while entered.value == 0 { await Task.yield() }
    let order = Order()
    let plain = Task { try await test.database.write("plain") { _ in order.note("plain") } }
    while test.database.waiting < 1 { await Task.yield() }
    let urgent = Task {
      try await test.database.read("urgent", isUrgent: true) { _ in order.note("urgent") }
    }
    while test.database.waiting < 2 { await Task.yield() }
    let deadline = ContinuousClock.now + .milliseconds(50)
    let late = Task {
      try await CallDeadline.$current.withValue(deadline) {
        try await test.database.write("late") { _ in order.note("late") }
      }
    }
    while test.database.waiting < 3, .now < deadline { await Task.yield() }
    try await Task.sleep(until: deadline)
    gate.open()
    try await running.value
    try await urgent.value
    try await plain.value
    let failure = await #expect(throws: StorageError.self) { try await late.value }
    #expect(failure?.fault == .overloaded)
    #expect(order.names.withLock { $0 } == ["urgent", "plain"])
  }

  @Test(
    "R46: while what waits is old, calls that would wait too are refused, and further ones before they begin",
    .timeLimit(.minutes(1)))
  func doors() async throws {
    let test = try await TestDatabase(connections: 1, isPatient: false)
    let (entered, gate, door) = (Counter(), ThreadGate(), CallGate())
    let running = Task {
      try await test.database.write("hold") { _ in
        entered.add()
        gate.wait()
      }
    }
    while entered.value == 0 { await Task.yield() }
    let waiting = Task { try await test.put("waited", 1) }
    while test.database.waiting < 1 { await Task.yield() }
    #expect(!door.isShut)
    try await Task.sleep(for: Limits.longestWait + .milliseconds(50))
    let failure = await #expect(throws: StorageError.self) {
      try await CallPlace.$current.withValue(CallPlace(gate: door)) { try await test.put("refused", 1) }
    }
    #expect(failure?.fault == .overloaded && door.isShut)
    // What ends a call that was let in is taken all the same.
    let owed = Task { try await CallDeadline.outliving { () async throws in try await test.put("owed", 1) } }
    while test.database.waiting < 2 { await Task.yield() }
    gate.open()
    try await running.value
    try await waiting.value
    try await owed.value
    #expect(!door.isShut)
    try await test.put("taken", 1)
    #expect(try await test.number("refused") == nil)
  }

  @Test("that a disk is full holds until a trial which began some seconds later finds room; there is one a second")
  func room() {
    var room = DiskRoom()
    let now = ContinuousClock.now
    let isTriedBefore = room.isToBeTried(at: now)
    room.ran(out: now)
    let isTried = room.isToBeTried(at: now)
    // One goes on.
    let isTriedBeside = room.isToBeTried(at: now + .seconds(2))
    room.wasTried(false, since: now)
    let isTriedTwice = room.isToBeTried(at: now + .milliseconds(900))
    let isTriedLater = room.isToBeTried(at: now + .seconds(1))
    #expect(!isTriedBefore && isTried && !isTriedBeside && !isTriedTwice && isTriedLater)
    room.wasTried(true, since: now + Limits.roomCalm - .milliseconds(1))
    #expect(room.isMissing)
    room.wasTried(true, since: now + Limits.roomCalm)
    #expect(!room.isMissing)
  }

  /// Of the threads of a pool.
  private final class Ends: Sendable {
    static let threads = 3
    private let begun = Atomic(0)
    private let ending = Atomic(0)
    private let ended = Atomic(0)
    var areOver: Bool { ended.load(ordering: .relaxed) == Self.threads }

    /// Returns once each thread has come here.
    func begin() {
      begun.add(1, ordering: .relaxed)
      while begun.load(ordering: .relaxed) < Self.threads { usleep(1000) }
    }

    /// Takes the longer the sooner a thread comes here, so that the last one is the first to be over.
    func end() {
      let before = ending.add(1, ordering: .relaxed).oldValue
      usleep(UInt32(Self.threads - 1 - before) * 200_000)
      ended.add(1, ordering: .relaxed)
    }
  }

  @Test("when a database is closed its threads are gone, with what libraries keep for each")
  func threadsAreGone() async throws {
    let test = try await TestDatabase()
    let ends = Ends()
    var key = pthread_key_t()
    // The value is a retained reference that the destructor takes back, once for each thread that has it.
    #expect(
      unsafe pthread_key_create(&key) { value in
        unsafe Unmanaged<Ends>.fromOpaque(value!).takeRetainedValue().end()
      } == 0)
    let made = key
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<Ends.threads {
        group.addTask {
          try await test.database.write { _ throws(StorageError) in
            _ = unsafe pthread_setspecific(made, Unmanaged.passRetained(ends).toOpaque())
            ends.begin()
          }
        }
      }
      try await group.waitForAll()
    }
    #expect(!ends.areOver)
    // Whoever closes it, all come back once the threads are gone.
    await withTaskGroup(of: Bool.self) { group in
      for _ in 0..<2 {
        group.addTask {
          await test.database.close()
          return ends.areOver
        }
      }
      for await areOver in group { #expect(areOver) }
    }
    pthread_key_delete(key)
  }

  @Test("a closed database finishes what waits and takes no more")
  func closing() async throws {
    let test = try await TestDatabase()
    try await test.put("a", 1)
    await test.database.close()
    await test.database.close()
    let failure = await #expect(throws: StorageError.self) { try await test.put("b", 1) }
    #expect(failure?.fault == .closed)
  }
}
