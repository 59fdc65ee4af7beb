import LatchkeyModel
import Storage
import StoragePostgreSQL
import Synchronization
import TestSupport
import Testing

@Suite("Ended sessions, told to everybody who has the rows")
struct SharedEndingsTests {
  /// The rows as one of several processes has them.
  private struct Instance {
    let storage: PostgreSQLIdentityStorage

    init(_ url: String) async throws {
      storage = PostgreSQLIdentityStorage(
        try await PostgreSQLDatabase.open(url: PostgreSQLURL(url), schema: .identity, connections: 2))
    }

    func begin(_ numbers: ClosedRange<UInt8>) async throws {
      let sessions = try numbers.map { try Sample.session($0) }
      try await storage.write(
        Work { rows throws(StorageError) in
          for session in sessions { try await rows.sessions.insert(session) }
        })
    }

    func end(_ number: UInt8, holding: @escaping @Sendable () -> Void = {}) async throws(StorageError) {
      try await storage.write(
        Work { rows throws(StorageError) in
          _ = try await rows.sessions.end(Sample.id(number), because: .revoked, at: Sample.now)
          holding()
        })
    }

    func end(_ numbers: ClosedRange<UInt8>) async throws(StorageError) {
      try await storage.write(
        Work { rows throws(StorageError) in
          for number in numbers {
            _ = try await rows.sessions.end(Sample.id(number), because: .revoked, at: Sample.now)
          }
        })
    }

    func news(
      after mark: EndingsMark? = nil, since time: Timestamp = Sample.now, limit: Int = 100
    ) async throws -> EndingsNews {
      try await #require(storage.sharedEndings).ended(after: mark, since: time, limit: limit)
    }
  }

  /// Waited for without a thread.
  private final class Flag: Sendable {
    private let state = Mutex(false)

    var isSet: Bool { state.withLock { $0 } }

    func set() { state.withLock { $0 = true } }
  }

  private struct Work<Value: Sendable>: IdentityOperation {
    static var name: String { "test" }

    let body: @Sendable (any IdentityTransaction) async throws(StorageError) -> Value

    init(_ body: @escaping @Sendable (any IdentityTransaction) async throws(StorageError) -> Value) { self.body = body }

    func run(in rows: some IdentityTransaction) async throws(StorageError) -> Value { try await body(rows) }
  }

  private func ids(_ news: EndingsNews) -> [SessionID] { news.sessions.map(\.id) }

  @Test("only an engine whose rows others have too tells of ends", arguments: Engine.allCases)
  func engines(_ engine: Engine) async throws {
    let store = try await Store(engine)
    #expect((store.storage.sharedEndings != nil) == (engine == .postgresql))
  }

  @Test("each end is told once to every instance, whichever made it, and without a mark from a time on")
  func everybody() async throws {
    let url = try PostgreSQLServer.shared().database()
    let (one, other) = (try await Instance(url), try await Instance(url))
    try await one.begin(1...5)
    try await one.end(1)
    let start = try await other.news()
    #expect(ids(start) == [Sample.id(1)])
    #expect(ids(try await other.news(since: Sample.now + .milliseconds(1))).isEmpty)
    try await one.end(2)
    try await other.end(3)
    let next = try await other.news(after: start.mark, since: Sample.now + .seconds(9))
    #expect(Set(ids(next)) == [Sample.id(2), Sample.id(3)])
    #expect(next.sessions.allSatisfy { $0.subject == Sample.id(1) && $0.why == .revoked && $0.at == Sample.now })
    #expect(ids(try await other.news(after: next.mark)).isEmpty)
    #expect(Set(ids(try await one.news(after: start.mark))) == [Sample.id(2), Sample.id(3)])
    // As of another server, which may have given these numbers to other transactions.
    let elsewhere = EndingsMark(server: "another", state: next.mark.state)
    #expect(Set(ids(try await one.news(after: elsewhere))) == [Sample.id(1), Sample.id(2), Sample.id(3)])
  }

  @Test("C6: an end that began before others and is committed after them is told when it is there, and they once")
  func slowCommit() async throws {
    let url = try PostgreSQLServer.shared().database()
    let (one, other) = (try await Instance(url), try await Instance(url))
    try await one.begin(1...3)
    let start = try await other.news()
    let (entered, gate) = (Flag(), ThreadGate())
    let slow = Task {
      try await one.end(1) {
        entered.set()
        gate.wait()
      }
    }
    while !entered.isSet { await Task.yield() }
    try await one.end(2)
    let early = try await other.news(after: start.mark)
    #expect(ids(early) == [Sample.id(2)])
    try await one.end(3)
    let later = try await other.news(after: early.mark)
    #expect(ids(later) == [Sample.id(3)])
    gate.open()
    try await slow.value
    let last = try await other.news(after: later.mark)
    #expect(ids(last) == [Sample.id(1)])
    #expect(ids(try await other.news(after: last.mark)).isEmpty)
  }

  @Test("C6: an end whose commit was not answered is told to whoever made it as well")
  func unansweredCommit() async throws {
    let server = try PostgreSQLServer()
    let url = try server.database()
    let one = try await Instance(url)
    try await one.begin(1...40)
    var mark = try await one.news().mark
    try server.set("synchronous_standby_names = 'nobody'")
    let observer = try await PostgreSQLDatabase.open(url: PostgreSQLURL(url), schema: .identity, connections: 1)
    // The setting is in force some time after it is made: an end before that is answered.
    var isLost = false
    for number in UInt8(1)...40 where !isLost {
      let isOver = Flag()
      let ending = Task {
        defer { isOver.set() }
        try await one.end(number)
      }
      while !isOver.isSet, !isLost { isLost = try await observer.find(Self.waitingCommits, []) { _ in true } ?? false }
      if isLost {
        try server.run(sql: Self.terminateWaitingCommits, in: url)
        try server.set("synchronous_standby_names = ''")
      }
      try await ending.value
      let news = try await one.news(after: mark)
      // Asked by a connection that was made after the mark, it tells those before as well.
      let all: [SessionID] = (1...number).map { Sample.id($0) }
      #expect(ids(news) == [Sample.id(number)] || ids(news) == all)
      mark = news.mark
    }
    #expect(isLost)
  }

  @Test("C6: after a crash of the server, which may give numbers again that were lost by it, all is told anew")
  func crash() async throws {
    let server = try PostgreSQLServer()
    let url = try server.database()
    let one = try await Instance(url)
    try await one.begin(1...1)
    try await one.end(1)
    let mark = try await one.news().mark
    #expect(ids(try await one.news(after: mark)).isEmpty)
    // A backend that dies of itself: the server has all others end too, and goes on as the same. This one cannot answer.
    try? server.run(sql: "COPY (SELECT 1) TO PROGRAM 'kill -9 $PPID'", in: url)
    var news: [SessionID] = []
    let deadline = ContinuousClock.now + .seconds(60)
    while news.isEmpty, .now < deadline {
      try await Task.sleep(for: .milliseconds(20))
      do { news = ids(try await one.news(after: mark)) } catch { continue }
    }
    #expect(news == [Sample.id(1)])
  }

  @Test("ends that were read in with the numbers of another server are no news, and those after them are")
  func dump() async throws {
    let server = try PostgreSQLServer.shared()
    let url = try server.database()
    let one = try await Instance(url)
    try await one.begin(1...2)
    try await one.end(1)
    let mark = try await one.news().mark
    try server.run(
      sql: "UPDATE identity.sessions SET ended_in = ended_in + 1000000000 WHERE ended_in IS NOT NULL", in: url)
    #expect(ids(try await one.news(after: mark)).isEmpty)
    try await one.end(2)
    #expect(ids(try await one.news(after: mark)) == [Sample.id(2)])
    #expect(Set(ids(try await one.news())) == [Sample.id(1), Sample.id(2)])
  }

  @Test("C6: what ended while nobody looked is read in pages, each end once, up to when the first was read")
  func pages() async throws {
    let url = try PostgreSQLServer.shared().database()
    let (one, other) = (try await Instance(url), try await Instance(url))
    try await one.begin(1...30)
    var mark = try await other.news().mark
    // Some of one transaction, so that a page ends in its midst.
    for number in UInt8(1)...9 { try await one.end(number) }
    try await one.end(10...21)
    var pages: [[SessionID]] = []
    repeat {
      let news = try await other.news(after: mark, limit: 7)
      pages.append(ids(news))
      mark = news.mark
      // What watchers want to know comes with the last page, and there it is all of it.
      #expect(news.news?.isEmpty == true)
      // Between two pages: it comes after the last.
      if pages.count == 2 { try await one.end(30) }
    } while mark.place != nil
    #expect(pages.map(\.count) == [7, 7, 7, 0])
    #expect(Set(pages.joined()) == Set((UInt8(1)...21).map { Sample.id($0) }))
    let last = try await other.news(after: mark, limit: 7)
    #expect(ids(last) == [Sample.id(30)] && last.mark.place == nil)
    #expect(ids(try await other.news(after: last.mark, limit: 7)).isEmpty)
  }

  @Test("C6: without a mark all from a time on is read in pages; what is committed meanwhile is told after the last")
  func firstPages() async throws {
    let url = try PostgreSQLServer.shared().database()
    let (one, other) = (try await Instance(url), try await Instance(url))
    try await one.begin(1...30)
    try await one.end(2...21)
    var (mark, pages): (EndingsMark?, [[SessionID]]) = (nil, [])
    repeat {
      let news = try await other.news(after: mark, limit: 7)
      pages.append(ids(news))
      // More than that may have happened, and that is said once.
      #expect((news.news == nil) == (news.mark.place == nil))
      mark = news.mark
      // Behind what was read already.
      if pages.count == 2 { try await one.end(1) }
    } while mark?.place != nil
    #expect(pages.map(\.count) == [7, 7, 6])
    #expect(Set(pages.joined()) == Set((UInt8(2)...21).map { Sample.id($0) }))
    #expect(ids(try await other.news(after: mark, limit: 7)) == [Sample.id(1)])
  }

  /// Committed, and not answered.
  private static let terminateWaitingCommits =
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
  private static let waitingCommits = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
}
