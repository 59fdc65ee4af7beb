import LatchkeyModel
import Storage
import StoragePostgreSQL
import Synchronization
import TestSupport
import Testing

@Suite("C2: changes of QR sessions in PostgreSQL, in whatever order they are committed")
struct SlowQRChangesTests {
  private let database: PostgreSQLDatabase
  private let store: PostgreSQLQRSessionStore

  init() async throws {
    let url = try PostgreSQLServer.shared().database()
    database = try await PostgreSQLDatabase.open(url: PostgreSQLURL(url), schema: .qr, connections: 3, isPatient: true)
    store = PostgreSQLQRSessionStore(database: database)
  }

  /// The versions that are told after `mark`, and the mark after them.
  private func look(_ mark: QRChangeMark) async throws -> (versions: Set<Int64>, mark: QRChangeMark) {
    let read = try await store.changes(since: mark, orOfLast: .seconds(600), limit: 7)
    let versions = Set(read.changes.map(\.version))
    #expect(versions.count == read.changes.count)
    return (versions, read.mark)
  }

  private func change(
    _ version: Int64, holding: @escaping @Sendable () -> Void = {}
  ) async throws(StorageError) {
    try await database.write("test") { db throws(StorageError) in
      // Its answer is waited for: before that the server may have heard of nothing.
      _ = try await db.change(
        """
        INSERT INTO qr_changes (poll_hash, version, state, issued_at, expires_at)
        VALUES (decode(repeat('07', 32), 'hex'), $1, 1, 0, 0)
        """, .integer(version))
      holding()
    }
  }

  @Test("a change that began before others and is committed after them is told when it is there, and they once")
  func slowCommit() async throws {
    let (isWritten, mayEnd) = (Flag(), ThreadGate())
    var mark = try await store.changeMark()
    let slow = Task { [self] in
      try await change(1) {
        isWritten.set()
        mayEnd.wait()
      }
    }
    await isWritten.wait()
    for version in 2...4 as ClosedRange<Int64> {
      try await change(version)
      let read = try await look(mark)
      #expect(read.versions == [version])
      mark = read.mark
    }
    mayEnd.open()
    try await slow.value
    let last = try await look(mark)
    #expect(last.versions == [1])
    #expect(try await look(last.mark).versions.isEmpty)
    await database.close()
  }

  @Test("rows of a dump, whose transactions the server has not come to, are not told, and are forgotten")
  func restoredDump() async throws {
    var mark = try await store.changeMark()
    _ = try await database.write("test") { db throws(StorageError) in
      try await db.execute(
        """
        INSERT INTO qr_changes (xid, poll_hash, version, state, issued_at, expires_at)
        SELECT (9000000000 + n)::text::xid8, decode(repeat('07', 32), 'hex'), n, 1, 0, 0 FROM generate_series(1, 50) AS n
        """)
    }
    for version in 101...103 as ClosedRange<Int64> {
      try await change(version)
      let read = try await look(mark)
      #expect(read.versions == [version])
      mark = read.mark
    }
    #expect(try await store.forgetChanges(olderThan: .seconds(600), limit: 100) == 0)
    #expect(try await store.forgetChanges(olderThan: .seconds(-60), limit: 100) == 53)
    await database.close()
  }

  private final class Flag: Sendable {
    private let state = Mutex(false)

    func set() { state.withLock { $0 = true } }

    func wait() async {
      while !state.withLock({ $0 }) { await Task.yield() }
    }
  }
}
