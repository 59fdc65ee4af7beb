import Callers
import Glibc
import Storage
import Synchronization
import TestSupport
import Testing

@testable import StorageSQLite

private let schema = SQLiteSchema(versions: [
  "CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, data BLOB) STRICT;"
])

@Suite struct SQLiteDatabaseTests {
  let folder: TemporaryFolder
  let path: String

  init() throws {
    folder = try TemporaryFolder()
    path = folder.file("test.db")
  }

  private func insert(_ database: SQLiteDatabase, _ name: String) async throws(StorageError) {
    try await database.write { db throws(StorageError) in
      _ = try db.execute("INSERT INTO items (name) VALUES (?)", .text(name))
    }
  }

  private func names(_ database: SQLiteDatabase) async throws(StorageError) -> [String] {
    try await database.read { db throws(StorageError) in
      try db.all("SELECT name FROM items ORDER BY id") { $0.text(0) }
    }
  }

  @Test("a value comes back as it was bound, whatever it holds")
  func values() async throws {
    let database = try SQLiteDatabase.open(path: path, schema: schema)
    let texts = ["", "a\0b", "Zażółć gęślą jaźń 🗝️", String(repeating: "x", count: 100_000)]
    let blobs: [[UInt8]?] = [[], nil, [0, 255, 0], [UInt8](repeating: 7, count: 70_000)]
    for (text, blob) in zip(texts, blobs) {
      try await database.write { db throws(StorageError) in
        _ = try db.execute("INSERT INTO items (name, data) VALUES (?, ?)", .text(text), .optional(blob))
      }
    }
    let read = try await database.read { db throws(StorageError) in
      try db.all("SELECT name, data, typeof(data) FROM items ORDER BY id") {
        Row(text: $0.text(0), blob: $0.optionalBlob(1), type: $0.text(2))
      }
    }
    #expect(read.map(\.text) == texts)
    #expect(read.map(\.blob) == blobs)
    #expect(read.map(\.type) == ["blob", "null", "blob", "blob"])
    let extremes = try await database.read { db throws(StorageError) in
      try db.first("SELECT ?, ?", .integer(Int64.min), .integer(Int64.max)) { [$0.integer(0), $0.integer(1)] }
    }
    #expect(extremes == [.min, .max])
    await database.close()
  }

  private struct Row {
    let text: String
    let blob: [UInt8]?
    let type: String
  }

  @Test("writes that wait together are committed together")
  func grouping() async throws {
    let database = try SQLiteDatabase.open(path: path, schema: schema, isPatient: true)
    let before = commitFrames()
    let gate = Gate()
    // The first write holds the writer's thread until all others wait behind it.
    async let first: Void = database.write { db throws(StorageError) in
      gate.wait()
      _ = try db.execute("INSERT INTO items (name) VALUES ('first')")
    }
    await gate.entered()
    let count = 100
    try await withThrowingTaskGroup(of: Void.self) { group in
      for index in 0..<count {
        group.addTask { try await insert(database, "item \(index)") }
      }
      while database.waitingWrites < count { try await Task.sleep(for: .milliseconds(1)) }
      gate.open()
      try await group.waitForAll()
    }
    try await first
    #expect(try await names(database).count == count + 1)
    // The first group was closed by its two milliseconds; what waited went into one or two more. The log is the
    // witness: a frame that ends a transaction carries the size of the database.
    let commits = commitFrames() - before
    #expect(commits >= 1 && commits <= 3)
    #expect(database.statistics.commits == commits)
    #expect(database.statistics.writes == count + 1)
    #expect(database.statistics.largestGroup >= count / 2)
    await database.close()
  }

  @Test("a lone write is committed at once, alone")
  func loneWrite() async throws {
    let database = try SQLiteDatabase.open(path: path, schema: schema)
    for index in 0..<5 { try await insert(database, "item \(index)") }
    #expect(database.statistics == SQLiteStatistics(writes: 5, commits: 5, largestGroup: 1, reads: 0))
    await database.close()
  }

  @Test("an operation that fails undoes itself and nothing else of its group")
  func failingOperation() async throws {
    let database = try SQLiteDatabase.open(path: path, schema: schema, isPatient: true)
    try await insert(database, "taken")
    let gate = Gate()
    async let first: Void = database.write { _ in gate.wait() }
    await gate.entered()
    let outcomes = await withTaskGroup(of: (Int, StorageError?).self) { group in
      for index in 0..<30 {
        group.addTask {
          do throws(StorageError) {
            try await database.write("put") { db throws(StorageError) in
              _ = try db.execute("INSERT INTO items (name) VALUES (?)", .text("item \(index)"))
              // Every third one breaks the unique index after it has already written.
              if index % 3 == 0 { _ = try db.execute("INSERT INTO items (name) VALUES ('taken')") }
            }
            return (index, nil)
          } catch {
            return (index, error)
          }
        }
      }
      while database.waitingWrites < 30 { try? await Task.sleep(for: .milliseconds(1)) }
      gate.open()
      return await group.reduce(into: [Int: StorageError]()) { $0[$1.0] = $1.1 }
    }
    try await first
    #expect(outcomes.keys.sorted() == (0..<30).filter { $0 % 3 == 0 })
    #expect(outcomes.values.allSatisfy { $0.isUniqueViolation && !$0.isRetryable && $0.operation.hasPrefix("INSERT") })
    let stored = Set(try await names(database))
    #expect(stored == Set(["taken"] + (0..<30).filter { $0 % 3 != 0 }.map { "item \($0)" }))
    await database.close()
  }

  @Test("what an operation wrote before its own error is not stored")
  func ownError() async throws {
    let database = try SQLiteDatabase.open(path: path, schema: schema)
    await #expect(throws: StorageError(.misuse, operation: "mine")) {
      try await database.write { db throws(StorageError) in
        _ = try db.execute("INSERT INTO items (name) VALUES ('half')")
        throw StorageError(.misuse, operation: "mine")
      }
    }
    #expect(try await names(database) == [])
    await database.close()
  }

  @Test("a full disk fails the operations that met it, and the next ones work once there is room")
  func fullDisk() async throws {
    let database = try SQLiteDatabase.open(path: path, schema: schema)
    try await insert(database, "before")
    try await database.write { db throws(StorageError) in
      let pages = try db.first("PRAGMA page_count") { $0.integer(0) } ?? 0
      _ = try db.first("PRAGMA max_page_count = \(pages + 2)") { $0.integer(0) }
    }
    do throws(StorageError) {
      try await database.write { db throws(StorageError) in
        _ = try db.execute(
          "INSERT INTO items (name, data) VALUES ('big', ?)", .blob([UInt8](repeating: 1, count: 100_000)))
      }
      Issue.record("100 kB fit into two pages")
    } catch {
      #expect(error.fault == .full)
      #expect(error.isRetryable)
    }
    try await database.write { db throws(StorageError) in
      _ = try db.first("PRAGMA max_page_count = 100000") { $0.integer(0) }
    }
    try await insert(database, "after")
    #expect(try await names(database) == ["before", "after"])
    await database.close()
  }

  @Test("a full disk in the middle of a group fails the whole group that had run, and acknowledges none of it")
  func fullDiskInGroup() async throws {
    let database = try SQLiteDatabase.open(path: path, schema: schema, isPatient: true)
    try await database.write { db throws(StorageError) in
      let pages = try db.first("PRAGMA page_count") { $0.integer(0) } ?? 0
      _ = try db.first("PRAGMA max_page_count = \(pages + 4)") { $0.integer(0) }
    }
    let acknowledged = await withTaskGroup(of: String?.self) { group in
      for index in 0..<40 {
        group.addTask {
          let name = "item \(index)"
          do throws(StorageError) {
            try await database.write { db throws(StorageError) in
              _ = try db.execute(
                "INSERT INTO items (name, data) VALUES (?, ?)", .text(name),
                .blob([UInt8](repeating: 1, count: 1500)))
            }
            return name
          } catch {
            return error.fault == .full ? nil : "wrong error: \(error)"
          }
        }
      }
      return await group.reduce(into: [String]()) { if let name = $1 { $0.append(name) } }
    }
    #expect(acknowledged.count < 40)
    #expect(Set(try await names(database)) == Set(acknowledged))
    await database.close()
  }

  @Test("readers run beside each other and beside the writer, each on one state")
  func concurrentReaders() async throws {
    let database = try SQLiteDatabase.open(path: path, schema: schema, readers: 3, isPatient: true)
    try await insert(database, "0")
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask {
        for index in 1...200 {
          try await database.write { db throws(StorageError) in
            // Two rows or none: no reader may see an even count.
            _ = try db.execute("INSERT INTO items (name) VALUES (?)", .text("\(index) a"))
            _ = try db.execute("INSERT INTO items (name) VALUES (?)", .text("\(index) b"))
          }
        }
      }
      for _ in 0..<4 {
        group.addTask {
          for _ in 0..<200 {
            let counts = try await database.read { db throws(StorageError) in
              let first = try db.first("SELECT count(*) FROM items") { $0.integer(0) } ?? 0
              let second = try db.first("SELECT count(id) FROM items") { $0.integer(0) } ?? 0
              return [first, second]
            }
            #expect(counts[0] == counts[1])
            #expect(counts[0] % 2 == 1)
          }
        }
      }
      try await group.waitForAll()
    }
    #expect(try await names(database).count == 401)
    #expect(database.statistics.reads == 801)
    await database.close()
  }

  @Test("a reader sees what was acknowledged before it asked")
  func readYourWrites() async throws {
    let database = try SQLiteDatabase.open(path: path, schema: schema)
    for index in 0..<100 {
      try await insert(database, "item \(index)")
      #expect(try await names(database).count == index + 1)
    }
    await database.close()
  }

  @Test("a reader cannot write")
  func readerIsReadOnly() async throws {
    let database = try SQLiteDatabase.open(path: path, schema: schema)
    await #expect(throws: StorageError.self) {
      try await database.read { db throws(StorageError) in
        _ = try db.execute("INSERT INTO items (name) VALUES ('sneaky')")
      }
    }
    #expect(try await names(database) == [])
    await database.close()
  }

  @Test("rows outlive the process that wrote them, and the file is its owner's alone")
  func reopen() async throws {
    let first = try SQLiteDatabase.open(path: path, schema: schema)
    try await insert(first, "kept")
    await first.close()
    let second = try SQLiteDatabase.open(path: path, schema: schema)
    #expect(try await names(second) == ["kept"])
    var status = stat()
    // Fills the structure and keeps nothing.
    #expect(unsafe stat(path, &status) == 0)
    #expect(status.st_mode & 0o777 == 0o600)
    #expect(unsafe stat(path + "-wal", &status) == 0)
    #expect(status.st_mode & 0o777 == 0o600)
    await second.close()
  }

  @Test("the schema goes forward, keeps the rows, and a newer file is refused untouched")
  func schemaVersions() async throws {
    let old = try SQLiteDatabase.open(path: path, schema: schema)
    try await insert(old, "kept")
    await old.close()
    let next = SQLiteSchema(
      versions: schema.versions + ["ALTER TABLE items ADD COLUMN weight INTEGER NOT NULL DEFAULT 3;"])
    let new = try SQLiteDatabase.open(path: path, schema: next)
    let weights = try await new.read { db throws(StorageError) in
      try db.all("SELECT weight FROM items") { $0.integer(0) }
    }
    #expect(weights == [3])
    await new.close()
    #expect(throws: StorageError(.newerSchema(found: 2, known: 1), operation: "open \(path)")) {
      try SQLiteDatabase.open(path: path, schema: schema)
    }
  }

  @Test("a schema version that fails leaves the file at the version before")
  func failingSchemaVersion() async throws {
    let old = try SQLiteDatabase.open(path: path, schema: schema)
    await old.close()
    let broken = SQLiteSchema(versions: schema.versions + ["CREATE TABLE extra (id INTEGER) STRICT; NOT SQL;"])
    #expect(throws: StorageError.self) { try SQLiteDatabase.open(path: path, schema: broken) }
    let again = try SQLiteDatabase.open(path: path, schema: schema)
    let tables = try await again.read { db throws(StorageError) in
      try db.all("SELECT name FROM sqlite_schema WHERE type = 'table'") { $0.text(0) }
    }
    #expect(tables == ["items"])
    await again.close()
  }

  @Test("a file that is no database, a folder that is not there and one that cannot be written give errors")
  func unusableFiles() throws {
    // The path lives through the call.
    let file = unsafe open(path, O_CREAT | O_WRONLY, 0o600)
    let noise = [UInt8](repeating: 0x5A, count: 8192)
    // Writes the array's own bytes.
    #expect(unsafe write(file, noise, noise.count) == noise.count)
    close(file)
    #expect(fault(path) == .corrupt)
    #expect(fault(folder.file("none/test.db")) == .unavailable)
    #expect(fault("/proc/latchkey-test.db") == .unavailable)
  }

  private func fault(_ path: String) -> StorageError.Fault? {
    do throws(StorageError) {
      _ = try SQLiteDatabase.open(path: path, schema: schema)
      return nil
    } catch {
      return error.fault
    }
  }

  @Test("a caller that is cancelled while it waits is answered at once and its write never happens")
  func cancelledWriter() async throws {
    let database = try SQLiteDatabase.open(path: path, schema: schema)
    let gate = Gate()
    async let first: Void = database.write { _ in gate.wait() }
    await gate.entered()
    let waiting = Task { try await insert(database, "never") }
    while database.waitingWrites < 1 { try await Task.sleep(for: .milliseconds(1)) }
    waiting.cancel()
    await #expect(throws: StorageError(.cancelled, operation: "insert(_:_:)")) { try await waiting.value }
    gate.open()
    try await first
    #expect(try await names(database) == [])
    await database.close()
  }

  @Test("a write whose call is over by the time the writer comes to it never happens, and one that has time does")
  func lateWriter() async throws {
    let database = try SQLiteDatabase.open(path: path, schema: schema)
    let connection = try SQLiteConnection(path: path, mode: .reader)
    let queue = BlockingQueue<any QueuedOperation>(capacity: 8)
    let deadline = ContinuousClock.now + .seconds(3600)
    let callers = [deadline, deadline + .nanoseconds(1), nil].map { deadline in
      Task {
        try await CallDeadline.$current.withValue(deadline) {
          try await SQLiteOperation(name: "late", isInterruptible: false) { _ in }.perform(in: queue)
        }
      }
    }
    while queue.count < callers.count { try await Task.sleep(for: .milliseconds(1)) }
    let begun = queue.popAvailable(upTo: 8).filter { $0.begin(on: connection, at: deadline) }
    #expect(begun.count == 2)
    for operation in begun { operation.finish(await operation.run(on: connection)) }
    let error = await #expect(throws: StorageError.self) { try await callers[0].value }
    #expect(error?.fault == .overloaded)
    try await callers[1].value
    try await callers[2].value
    await database.close()
  }

  @Test("a write whose call is over already does not even wait")
  func overBefore() async throws {
    let database = try SQLiteDatabase.open(path: path, schema: schema)
    let gate = Gate()
    async let first: Void = database.write { _ in gate.wait() }
    await gate.entered()
    let error = await #expect(throws: StorageError.self) {
      try await CallDeadline.$current.withValue(.now) { try await insert(database, "never") }
    }
    #expect(error?.fault == .overloaded)
    gate.open()
    try await first
    #expect(try await names(database) == [])
    await database.close()
  }

  @Test("a long read stops when its caller is cancelled, and the reader serves the next one")
  func cancelledReader() async throws {
    let database = try SQLiteDatabase.open(path: path, schema: schema, readers: 1)
    let started = Gate()
    let endless = Task {
      try await database.read("endless") { db throws(StorageError) in
        started.open()
        return try db.first(
          "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
        ) { $0.integer(0) }
      }
    }
    while !started.isOpen { try await Task.sleep(for: .milliseconds(1)) }
    try await Task.sleep(for: .milliseconds(20))
    endless.cancel()
    let error = await #expect(throws: StorageError.self) { try await endless.value }
    #expect(error?.fault == .cancelled)
    #expect(try await names(database) == [])
    await database.close()
  }

  @Test("beyond its bound the queue refuses at once")
  func overload() async throws {
    let database = try SQLiteDatabase.open(path: path, schema: schema, isPatient: true)
    let gate = Gate()
    async let first: Void = database.write { _ in gate.wait() }
    await gate.entered()
    let total = Limits.waitingWrites + 50
    let refused = await withTaskGroup(of: StorageError?.self) { group in
      for _ in 0..<total {
        group.addTask {
          do throws(StorageError) {
            try await database.write { _ in }
            return nil
          } catch {
            return error
          }
        }
      }
      // Whoever is refused is answered while the writer still stands.
      let first = await group.next() ?? nil
      gate.open()
      return await group.reduce(into: [first].compactMap { $0 }) { if let error = $1 { $0.append(error) } }
    }
    try await first
    #expect(!refused.isEmpty && refused.count <= 50)
    #expect(refused.allSatisfy { $0.fault == .overloaded && $0.isRetryable })
    await database.close()
  }

  @Test("R26: a queue whose first has waited for too long takes no more until that is gone")
  func age() {
    let bounds = WaitingRule.Bounds(
      longestWait: .milliseconds(250), shortWait: .milliseconds(50), calm: .seconds(2))
    let queue = BlockingQueue<Int>(capacity: 8, bounds: bounds)
    let start = ContinuousClock.now
    #expect(queue.push(1, at: start) == .accepted)
    #expect(queue.push(2, at: start + .milliseconds(250)) == .accepted)
    #expect(queue.push(3, at: start + .milliseconds(251)) == .full)
    #expect(queue.pop(upTo: 1) == [1])
    #expect(queue.push(3, at: start + .milliseconds(251)) == .accepted)
    #expect(queue.push(4, at: start + .milliseconds(501)) == .full)
    #expect(queue.popAvailable(upTo: 8) == [2, 3])
    #expect(queue.push(4, at: start + .seconds(60)) == .accepted)
  }

  @Test(
    "R26: a call that is refused because too much waits shuts its method's door until there is room; a late one does not"
  )
  func doors() async throws {
    let bounds = WaitingRule.Bounds(
      longestWait: .milliseconds(250), shortWait: .milliseconds(50), calm: .seconds(2))
    let queue = BlockingQueue<any QueuedOperation>(capacity: 1, bounds: bounds)
    let operation = { @Sendable (deadline: ContinuousClock.Instant?) in
      SQLiteOperation(name: "any", isInterruptible: false, deadline: deadline) { (_: SQLiteConnection) in }
    }
    let (door, other) = (CallGate(), CallGate())
    let waits = Task { try await operation(nil).perform(in: queue) }
    while queue.count < 1 { try await Task.sleep(for: .milliseconds(1)) }
    await CallPlace.$current.withValue(CallPlace(gate: other)) {
      await #expect(throws: StorageError.self) { try await operation(.now).perform(in: queue) }
    }
    #expect(!other.isShut && !door.isShut)
    await CallPlace.$current.withValue(CallPlace(gate: door)) {
      await #expect(throws: StorageError.self) { try await operation(nil).perform(in: queue) }
    }
    #expect(door.isShut && !other.isShut)
    for operation in queue.popAvailable(upTo: 1) { operation.finish(StorageError(.closed, operation: "any")) }
    #expect(!door.isShut)
    await #expect(throws: StorageError.self) { try await waits.value }
  }

  @Test(
    "R46: what ends a call that was let in is taken however much waits, and the next call is not",
    .timeLimit(.minutes(1)))
  func owed() async throws {
    let bounds = WaitingRule.Bounds(
      longestWait: .milliseconds(250), shortWait: .milliseconds(50), calm: .seconds(2))
    let queue = BlockingQueue<any QueuedOperation>(capacity: 1, bounds: bounds)
    let operation = { @Sendable () async throws(StorageError) in
      try await SQLiteOperation(name: "any", isInterruptible: false) { (_: SQLiteConnection) in }.perform(in: queue)
    }
    let door = CallGate()
    let first = Task { try await operation() }
    while queue.count < 1 { try await Task.sleep(for: .milliseconds(1)) }
    let owed = Task {
      try await CallPlace.$current.withValue(CallPlace(gate: door)) { try await CallDeadline.outliving(operation) }
    }
    while queue.count < 2 { try await Task.sleep(for: .milliseconds(1)) }
    await CallPlace.$current.withValue(CallPlace(gate: door)) {
      _ = await #expect(throws: StorageError.self) { try await operation() }
    }
    #expect(door.isShut)
    let waiting = queue.popAvailable(upTo: 2)
    #expect(waiting.count == 2)
    for operation in waiting { operation.finish(StorageError(.closed, operation: "any")) }
    await #expect(throws: StorageError.self) { try await first.value }
    await #expect(throws: StorageError(.closed, operation: "any")) { try await owed.value }
  }

  @Test("R50: what one source has waiting keeps no other from its few, which are served by turns with it")
  func shares() throws {
    let bounds = WaitingRule.Bounds(
      longestWait: .milliseconds(250), shortWait: .milliseconds(50), calm: .seconds(2))
    let queue = BlockingQueue<Int>(capacity: 1000, bounds: bounds)
    let sources = (0..<100).map { NetworkAddress("192.0.2.\($0)") }
    func push(_ number: Int, of source: Int, after time: Duration) -> BlockingQueue<Int>.Admission {
      queue.push(number, of: sources[source], at: start + time)
    }
    let start = ContinuousClock.now
    for number in 0..<20 { #expect(push(number, of: 0, after: .zero) == .accepted) }
    #expect(push(20, of: 1, after: .milliseconds(250)) == .accepted)
    // From here on what came first has waited for too long.
    #expect(push(21, of: 0, after: .milliseconds(251)) == .full)
    #expect(queue.backlog.isLong && queue.backlog.takes(sources[1]) && !queue.backlog.takes(sources[0]))
    let few = (100..<105).map { push($0, of: 1, after: .milliseconds(251)) }
    #expect(few == [.accepted, .accepted, .accepted, .accepted, .full])
    #expect(queue.popAvailable(upTo: 4) == [100, 0, 101, 1] && queue.count == 21)
    // There is an end to that as well.
    for source in 2..<100 {
      let isTaken = push(source + 1000, of: source, after: .milliseconds(251)) == .accepted
      #expect(isTaken == (source < 2 + 63 - 2))
    }
    #expect(queue.backlog.isLong && !queue.backlog.takes(sources[99]))
    let rest = queue.popAvailable(upTo: 1000)
    #expect(rest.count == 19 + 63 && rest.prefix(4) == [102, 2, 103, 3] && queue.count == 0)
  }

  @Test("Where all sources have a little waiting none is let in beyond the rule")
  func alike() throws {
    let bounds = WaitingRule.Bounds(
      longestWait: .milliseconds(250), shortWait: .milliseconds(50), calm: .seconds(2))
    let queue = BlockingQueue<Int>(capacity: 1000, bounds: bounds)
    let sources = (0..<100).map { NetworkAddress("192.0.2.\($0)") }
    let start = ContinuousClock.now
    for number in 0..<100 { _ = queue.push(number, of: sources[number / 3], at: start) }
    let admission = queue.push(100, of: sources[99], at: start + .milliseconds(251))
    #expect(admission == .full)
  }

  @Test("however its connections close, the last one folds the log into the file")
  func foldedLog() async throws {
    for number in 0..<100 {
      let path = path + "-\(number)"
      let database = try SQLiteDatabase.open(path: path, schema: schema)
      try await insert(database, "kept")
      await database.close()
      #expect(unsafe access(path + "-wal", F_OK) != 0)
    }
  }

  @Test("closing finishes what waits and refuses what comes after")
  func closing() async throws {
    let database = try SQLiteDatabase.open(path: path, schema: schema)
    let gate = Gate()
    async let first: Void = database.write { _ in gate.wait() }
    await gate.entered()
    async let second: Void = insert(database, "waited")
    while database.waitingWrites < 1 { try await Task.sleep(for: .milliseconds(1)) }
    let closing = Task { await database.close() }
    while !database.isClosed { try await Task.sleep(for: .milliseconds(1)) }
    await #expect(throws: StorageError(.closed, operation: "insert(_:_:)")) { try await insert(database, "late") }
    gate.open()
    try await first
    try await second
    await closing.value
    // Closed for good: the log is folded in and gone, and the row is in the file.
    #expect(unsafe access(path + "-wal", F_OK) != 0)
    let again = try SQLiteDatabase.open(path: path, schema: schema)
    #expect(try await names(again) == ["waited"])
    await again.close()
  }

  @Test("a process that is killed loses nothing that was acknowledged")
  func killed() async throws {
    let acknowledged = folder.file("acknowledged")
    await #expect(processExitsWith: .signal(SIGKILL)) {
      [path = path as String, acknowledged = acknowledged as String] in
      let database = try SQLiteDatabase.open(path: path, schema: schema, isPatient: true)
      // The path lives through the call.
      let log = unsafe open(acknowledged, O_CREAT | O_WRONLY | O_APPEND, 0o600)
      await withTaskGroup(of: Void.self) { group in
        for writer in 0..<16 {
          group.addTask {
            for index in 0... {
              let name = "\(writer)/\(index)"
              do throws(StorageError) {
                try await database.write { db throws(StorageError) in
                  _ = try db.execute("INSERT INTO items (name) VALUES (?)", .text(name))
                }
              } catch {
                continue
              }
              let line = Array("\(name)\n".utf8)
              // Writes the array's own bytes, in one call, at the end of the file.
              unsafe write(log, line, line.count)
              if index == 100 { kill(getpid(), SIGKILL) }
            }
          }
        }
      }
    }
    let lines = String(decoding: FileLook.contents(of: acknowledged), as: UTF8.self).split(separator: "\n").map(
      String.init)
    #expect(lines.count > 100)
    let database = try SQLiteDatabase.open(path: path, schema: schema)
    let stored = Set(try await names(database))
    #expect(Set(lines).subtracting(stored) == [])
    let verdict = try await database.read { db throws(StorageError) in
      try db.first("PRAGMA integrity_check") { $0.text(0) }
    }
    #expect(verdict == "ok")
    await database.close()
  }

  @Test("the same statement may be used inside its own loop")
  func nestedStatements() async throws {
    let database = try SQLiteDatabase.open(path: path, schema: schema)
    for name in ["a", "b", "c"] { try await insert(database, name) }
    let pairs = try await database.read { db throws(StorageError) in
      let sql = "SELECT name FROM items ORDER BY id"
      var pairs: [String] = []
      try db.forEach(sql) { outer throws(StorageError) in
        let left = outer.text(0)
        pairs += try db.all(sql) { left + $0.text(0) }
        return true
      }
      return pairs
    }
    #expect(pairs == ["aa", "ab", "ac", "ba", "bb", "bc", "ca", "cb", "cc"])
    await database.close()
  }

  /// Frames of the write-ahead log that end a transaction. Source: https://www.sqlite.org/fileformat2.html#walformat
  private func commitFrames() -> Int {
    let log = FileLook.contents(of: path + "-wal")
    guard log.count >= 32 else { return 0 }
    let pageSize = log[8..<12].reduce(0) { $0 << 8 | Int($1) }
    let salt = Array(log[16..<24])
    var commits = 0
    var offset = 32
    while offset + 24 + pageSize <= log.count, Array(log[(offset + 8)..<(offset + 16)]) == salt {
      if log[(offset + 4)..<(offset + 8)].contains(where: { $0 != 0 }) { commits += 1 }
      offset += 24 + pageSize
    }
    return commits
  }
}

/// Holds a thread of the engine until the test says go.
private final class Gate: Sendable {
  private let hasEntered = Atomic(false)
  private let opened = Atomic(false)

  var isOpen: Bool { opened.load(ordering: .acquiring) }

  func open() { opened.store(true, ordering: .releasing) }

  func wait() {
    hasEntered.store(true, ordering: .releasing)
    while !isOpen { usleep(200) }
  }

  /// Returns once the thread stands at the gate.
  func entered() async {
    while !hasEntered.load(ordering: .acquiring) { try? await Task.sleep(for: .milliseconds(1)) }
  }
}
