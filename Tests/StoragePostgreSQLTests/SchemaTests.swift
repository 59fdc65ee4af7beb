import LatchkeyModel
import Storage
import Synchronization
import TestSupport
import Testing

@testable import StoragePostgreSQL

@Suite("Releases side by side over one PostgreSQL")
struct SchemaTests {
  /// Three releases of one part. The second adds a column and fills it, the third takes the old one away.
  private static let first: [SchemaStep] = [
    .expand(
      "people and members",
      ["CREATE TABLE people (id bigint PRIMARY KEY, name text NOT NULL DEFAULT '')"] + PostgreSQLMembers.statements
        + CommitLane.statements)
  ]
  private static let second =
    first + [
      .expand("the folded name", ["ALTER TABLE people ADD COLUMN folded text"]),
      .fill(
        "fold the names",
        batch: """
          WITH batch AS (SELECT id FROM people WHERE id > coalesce($1::text::bigint, 0) ORDER BY id LIMIT 100),
            filled AS (UPDATE people SET folded = lower(name) FROM batch WHERE people.id = batch.id)
          SELECT max(id)::text FROM batch HAVING count(*) > 0
          """),
      .index("people_by_folded", "ON people (folded)"),
      .expand("notes", ["CREATE TABLE notes (id bigint PRIMARY KEY)", "CREATE INDEX notes_by_id ON notes (id)"]),
    ]
  private static let third = second + [.contract("take the name away", ["ALTER TABLE people DROP COLUMN name"])]

  private static func schema(_ steps: [SchemaStep]) -> PostgreSQLSchema { PostgreSQLSchema(part: "test", steps: steps) }

  /// A database as the first release leaves it, with a thousand people.
  private struct Place {
    let server: PostgreSQLServer
    let text: String
    let url: PostgreSQLURL

    init() async throws {
      server = try .shared()
      text = try server.database()
      url = try PostgreSQLURL(text)
      try await begin()
    }

    /// As it was in the beginning.
    func begin() async throws {
      try run("SET client_min_messages = warning; DROP SCHEMA IF EXISTS test CASCADE")
      try await work(SchemaTests.first).apply()
      try run("INSERT INTO test.people SELECT n, 'Name ' || n FROM generate_series(1, 1000) AS n")
    }

    func work(_ steps: [SchemaStep], standstill: Duration = .seconds(60)) -> PostgreSQLSchemaWork {
      var work = PostgreSQLSchemaWork(url: url, schema: SchemaTests.schema(steps))
      work.patience.lockMilliseconds = 50
      work.patience.pauseMilliseconds = 1...5
      work.patience.standstill = standstill
      work.patience.signMilliseconds = 1
      return work
    }

    func open(
      _ steps: [SchemaStep], _ preparation: PostgreSQLDatabase.Preparation = .expect
    ) async throws(StorageError) -> PostgreSQLDatabase {
      try await PostgreSQLDatabase.open(
        url: url, schema: SchemaTests.schema(steps), preparation: preparation, connections: 2)
    }

    func run(_ sql: String) throws { try server.run(sql: sql, in: text) }

    /// Ends every connection of the database but psql's own.
    func cut() throws {
      try run(
        """
        SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()
        """)
    }

    /// Whether the steps of the second release are made, each once and whole.
    func expectSecond() async throws {
      let state = try await work(SchemaTests.second).state()
      #expect(state.isUsable && state.records.map(\.number) == [1, 2, 3, 4, 5])
      try run(
        """
        DO $$ BEGIN
          ASSERT (SELECT count(*) = 1000 AND bool_and(folded = lower(name)) FROM test.people);
          ASSERT (SELECT indisvalid FROM pg_index WHERE indexrelid = 'test.people_by_folded'::regclass);
          ASSERT (SELECT count(*) = 0 FROM test.notes);
        END $$
        """)
    }
  }

  @Test("C10: a release works on what the next one has expanded, beside it and started anew, both ways")
  func bothWays() async throws {
    let place = try await Place()
    let old = try await place.open(Self.first)
    let insert = "INSERT INTO people (id, name) VALUES ($1, 'X')"
    let before = await #expect(throws: StorageError.self) { try await place.open(Self.second) }
    #expect(before?.fault == .olderSchema(step: 5))
    try await place.work(Self.second).apply()
    try await place.expectSecond()
    let new = try await place.open(Self.second)
    let oldAgain = try await place.open(Self.first)
    for (id, database) in [old, new, oldAgain].enumerated() {
      try await database.write("insert") { db throws(StorageError) in
        try await db.execute(insert, .integer(5000 + id))
      }
    }
    // The old release finds nothing to do where the new one was.
    try await place.work(Self.first).apply()
    let state = try await place.work(Self.first).state()
    #expect(state.isUsable && !state.isTooNew && state.records.count == 5)
  }

  @Test("C10: what an older instance uses is taken away once it lives no more, and it never comes back")
  func contract() async throws {
    let place = try await Place()
    try await place.work(Self.second).apply()
    let old = PostgreSQLMembers(try await place.open(Self.second))
    let member = try await old.join(boot: [UInt8](repeating: 1, count: 16), address: "old:1")
    // What a release needs it makes beside the old one; what it takes away waits for a word, and for the old ones.
    try await place.work(Self.third).apply()
    #expect(try await place.work(Self.third).state().contractions == [6])
    #expect(try await old.beat(member, clock: SystemClock()) != nil)
    // As alive as can be, however long this takes.
    try place.run("UPDATE test.members SET heartbeat = heartbeat + 600000")
    let refused = await #expect(throws: StorageError.self) {
      try await place.work(Self.third).apply(contracting: true)
    }
    #expect(refused?.fault == .oldInstances)
    #expect(refused?.detail.contains("instance 0 at old:1 knows step 5") == true)
    #expect(try await place.work(Self.third).state().users == [.init(instance: 0, address: "old:1", knows: 5)])
    // After a failover nobody was heard of for a while. It is given the time to say that it lives.
    try place.run("UPDATE test.members SET heartbeat = heartbeat - 606000")
    let waits = Mutex<[String]>([])
    let refusedAgain = await #expect(throws: StorageError.self) {
      try await place.work(Self.third).apply(contracting: true) { news in
        guard case .waits(step: 6, let holders) = news else { return }
        waits.withLock { $0 += holders }
        try? place.run("UPDATE test.members SET heartbeat = heartbeat + 606000")
      }
    }
    #expect(refusedAgain?.fault == .oldInstances)
    #expect(waits.withLock { $0 } == ["a sign of instance 0 at old:1"])
    // It stands still, is taken for dead, and wakes again.
    try place.run("UPDATE test.members SET heartbeat = heartbeat - 606000")
    try await place.work(Self.third).apply(contracting: true)
    try place.run(
      "DO $$ BEGIN ASSERT NOT EXISTS (SELECT FROM pg_attribute "
        + "WHERE attrelid = 'test.people'::regclass AND attname = 'name'); END $$")
    for attempt in 0..<3 {
      let failure = await #expect(throws: StorageError.self) {
        switch attempt {
        case 0: _ = try await old.beat(member, clock: SystemClock())
        case 1: _ = try await old.join(boot: [UInt8](repeating: 2, count: 16), address: "old:1")
        default: _ = try await place.open(Self.second, .apply)
        }
      }
      #expect(failure?.fault == .newerSchema(found: 6, known: 5))
    }
    _ = try await place.open(Self.third)
  }

  @Test("C10: where nothing is yet all steps are made at once, those that contract too")
  func new() async throws {
    let server = try PostgreSQLServer.shared()
    let work = PostgreSQLSchemaWork(url: try PostgreSQLURL(server.database()), schema: Self.schema(Self.third))
    try await work.apply()
    #expect(try await work.state().records.map(\.number) == [1, 2, 3, 4, 5, 6])
  }

  @Test("C10: ended at whichever step and batch, the work goes on where it was")
  func endedAtEachStep() async throws {
    let place = try await Place()
    // One place in the work after the other: the news that comes there ends its connection.
    for end in 0... {
      try await place.begin()
      let count = Counter()
      let ended = await Result<Void, any Error>.of {
        try await place.work(Self.second).apply { news in
          guard case .waits = news else {
            if count.value == end { try? place.cut() }
            return count.add()
          }
        }
      }
      guard case .failure(let error) = ended else {
        // It came to its end, or was cut behind it.
        try await place.expectSecond()
        #expect(end > 15)
        return
      }
      #expect((error as? StorageError)?.isRetryable == true)
      let halfway = try await place.work(Self.second).state()
      let news = News()
      try await place.work(Self.second).apply { news.add($0) }
      try await place.expectSecond()
      let again = news.all
      for record in halfway.records where record.finishedAt != nil {
        #expect(!again.contains { $0.step == record.number }, "step \(record.number) was made twice")
      }
      if let filled = halfway.records.first(where: { $0.number == 3 })?.place.flatMap({ Int($0) }) {
        let first = again.lazy.compactMap { if case .came(3, let place) = $0 { Int(place) } else { nil } }.first
        #expect(first.map { $0 > filled } ?? true, "a batch was done twice")
      }
    }
  }

  @Test("C10: ended at any moment, again and again, the work comes to its end")
  func endedAnywhere() async throws {
    let place = try await Place()
    var ends = 0
    while true {
      let cutter = Task.detached {
        try await Task.sleep(for: .milliseconds(Int.random(in: 1...40)))
        try place.cut()
      }
      let result = await Result<Void, any Error>.of { try await place.work(Self.second).apply() }
      _ = await cutter.result
      if case .success = result { break }
      ends += 1
    }
    print("ended \(ends) times")
    try await place.expectSecond()
  }

  @Test("C10: an index that was given up half-way is dropped and built anew")
  func brokenIndex() async throws {
    let place = try await Place()
    try await place.work(Array(Self.second.prefix(3))).apply()
    try place.run("UPDATE test.people SET folded = 'same' WHERE id < 3")
    // A unique one cannot be built on these, and stays behind as one that nobody may use.
    _ = try? place.run("CREATE UNIQUE INDEX CONCURRENTLY people_by_folded ON test.people (folded)")
    try place.run(
      "DO $$ BEGIN ASSERT (SELECT NOT indisvalid FROM pg_index "
        + "WHERE indexrelid = 'test.people_by_folded'::regclass); END $$")
    try place.run("UPDATE test.people SET folded = lower(name)")
    try await place.work(Self.second).apply()
    try await place.expectSecond()
  }

  @Test("C10: four that bring the tables forward at once make each step once, one after the other")
  func atOnce() async throws {
    let place = try await Place()
    let news = News()
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<4 {
        group.addTask {
          try await place.work(Self.second).apply { news.add($0) }
        }
      }
      try await group.waitForAll()
    }
    let finished = news.all.compactMap { if case .finished(let step, _) = $0 { step } else { nil } }
    #expect(finished == [2, 3, 4, 5])
    try await place.expectSecond()
  }

  @Test("C10: a table that another transaction holds: others are served meanwhile, and it is said who holds it")
  func held() async throws {
    let place = try await Place()
    let old = try await place.open(Self.first)
    let (news, reads) = (News(), Counter())
    let failure = try await old.write("hold the table") { db throws(StorageError) -> StorageError? in
      try await db.execute("UPDATE people SET name = 'held' WHERE id = 1")
      // A transaction that is older than a second is one that somebody may want to know of.
      _ = try await db.first("SELECT pg_sleep(1.1)") { _ in }
      let (gate, outcome) = (ThreadGate(), Outcome())
      Task.detached {
        async let reading: Void = Self.read(old, counting: reads, until: outcome)
        await outcome.set(
          .of { try await place.work(Self.second, standstill: .milliseconds(1500)).apply { news.add($0) } })
        do { try await reading } catch { outcome.set(.failure(error)) }
        gate.open()
      }
      gate.wait()
      return outcome.failure as? StorageError
    }
    let waits = news.all.compactMap { if case .waits(2, let holders) = $0 { holders.joined() } else { nil } }
    #expect(!waits.isEmpty && reads.value > 1)
    #expect(waits.allSatisfy { $0.contains("latchkey, user latchkey, in people since") })
    #expect(failure?.fault == .overloaded)
    #expect(failure?.detail.contains("in people since") == true)
    // Nothing is left behind, and nobody has to be told twice.
    #expect(try await place.work(Self.second).state().records.count == 1)
    try await place.work(Self.second).apply()
    try await place.expectSecond()
  }

  /// What waits behind a step waits for a moment, and is done.
  private static func read(_ database: PostgreSQLDatabase, counting reads: Counter, until outcome: Outcome) async throws
  {
    while outcome.isOpen {
      _ = try await database.read("count") { db throws(StorageError) in
        try await db.first("SELECT count(*) FROM people") { $0.integer(0) }
      }
      reads.add()
    }
  }

  @Test("C10: whoever has no right to make tables is told so, and changes nothing")
  func forbidden() async throws {
    let server = try PostgreSQLServer.shared()
    let text = try server.database()
    try server.run(
      sql: "DO $$ BEGIN CREATE ROLE nobody LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$", in: text)
    let url = try PostgreSQLURL(text.replacing("latchkey@", with: "nobody@"))
    let work = PostgreSQLSchemaWork(url: url, schema: Self.schema(Self.first))
    let failure = await #expect(throws: StorageError.self) { try await work.apply() }
    #expect(failure?.fault == .forbidden)
    #expect(failure?.description.contains("permission denied for database") == true)
    // Another one may make them, who lets it use them and nothing else.
    try await PostgreSQLSchemaWork(url: try PostgreSQLURL(text), schema: Self.schema(Self.first)).apply()
    try server.run(
      sql: """
        GRANT USAGE ON SCHEMA test TO nobody;
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA test TO nobody;
        """, in: text)
    let database = try await PostgreSQLDatabase.open(
      url: url, schema: Self.schema(Self.first), preparation: .expect, connections: 1)
    _ = try await PostgreSQLMembers(database).join(boot: [UInt8](repeating: 1, count: 16), address: "one:1")
    let denied = await #expect(throws: StorageError.self) {
      try await PostgreSQLSchemaWork(url: url, schema: Self.schema(Self.second)).apply()
    }
    #expect(denied?.fault == .forbidden)
    await database.close()
  }
}

extension SchemaNews {
  fileprivate var step: Int? {
    switch self {
    case .began(let step, _), .came(let step, _), .finished(let step, _): step
    case .waits: nil
    }
  }
}

/// What was told, from several threads.
private final class News: Sendable {
  private let news = Mutex<[SchemaNews]>([])

  var all: [SchemaNews] { news.withLock { $0 } }

  func add(_ one: SchemaNews) { news.withLock { $0.append(one) } }
}

private final class Outcome: Sendable {
  private let result = Mutex<Result<Void, any Error>?>(nil)

  var isOpen: Bool { result.withLock { $0 == nil } }

  var failure: (any Error)? {
    result.withLock { result in
      if case .failure(let error) = result { error } else { nil }
    }
  }

  func set(_ outcome: Result<Void, any Error>) { result.withLock { $0 = outcome } }
}

extension Result where Failure == any Error {
  fileprivate static func of(_ body: () async throws -> Success) async -> Self {
    do { return .success(try await body()) } catch { return .failure(error) }
  }
}
