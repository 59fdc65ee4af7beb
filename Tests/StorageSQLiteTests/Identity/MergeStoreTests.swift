import LatchkeyModel
import Storage
import TestSupport
import Testing

@testable import StorageSQLite

@Suite("Pending merges in SQLite")
struct MergeStoreTests {
  private let folder: TemporaryFolder
  private let database: SQLiteDatabase
  private let merges: SQLiteMergeStore
  private let start = Timestamp(secondsSinceEpoch: 1_000_000)

  init() throws {
    folder = try TemporaryFolder()
    database = try SQLiteDatabase.open(path: folder.file("test.db"), schema: .identity)
    merges = SQLiteMergeStore(IdentityDatabase(database, audit: .plain))
  }

  private func id<ID: OpaqueID>(_ byte: UInt8) -> ID {
    ID(value: OpaqueIDValue(from: RandomSource { [UInt8](repeating: byte, count: $0) }))
  }

  private func want(_ number: UInt8, dueAfter seconds: Int) async throws -> PendingMerge {
    let wanted = PendingMerge(
      id: id(number), guest: id(100 + number), guestSession: id(1), target: id(200), targetSession: id(2),
      isFirstLoginOnDevice: true, createdAt: start)
    let (now, due) = (start, start + .seconds(seconds))
    return try await database.write { db throws(StorageError) in
      try SQLiteMerges(db: db).insert(wanted, dueAt: due, at: now)
      return wanted
    }
  }

  @Test("Merges are due in the order of their times, and not before")
  func due() async throws {
    let late = try await want(1, dueAfter: 20)
    let early = try await want(2, dueAfter: 10)
    #expect(try await merges.due(at: start + .seconds(9), limit: 10).isEmpty)
    #expect(try await merges.due(at: start + .seconds(10), limit: 10) == [early])
    #expect(try await merges.due(at: start + .seconds(20), limit: 10) == [early, late])
    #expect(try await merges.due(at: start + .seconds(20), limit: 1) == [early])
  }

  @Test("A failure postpones a merge and counts; its plan is kept; started, it is due no more")
  func progress() async throws {
    let merge = try await want(1, dueAfter: 0)
    try await merges.notePlan(PendingMerge.Plan(id: "plan", digest: "digest"), of: merge.id)
    try await merges.noteFailure(merge.id, reason: "down", next: start + .seconds(5))
    #expect(try await merges.due(at: start + .seconds(4), limit: 10).isEmpty)
    let again = try await merges.due(at: start + .seconds(5), limit: 10)
    #expect(again.map(\.attempts) == [1])
    #expect(again.first?.plan == PendingMerge.Plan(id: "plan", digest: "digest"))
    try await merges.noteStarted(merge.id, migration: "migration", at: start)
    #expect(try await merges.due(at: start + .seconds(3600), limit: 10).isEmpty)
    #expect(try await merges.merge(merge.id)?.migration == "migration")
  }

  @Test("An abandoned merge is open no more, and makes room for another of the same guest")
  func abandoned() async throws {
    let first = try await want(1, dueAfter: 0)
    try await merges.abandon(first.id, reason: "gone", at: start)
    #expect(try await merges.due(at: start, limit: 10).isEmpty)
    let (now, again) = (
      start,
      PendingMerge(
        id: id(9), guest: first.guest, guestSession: id(3), target: first.target, targetSession: id(4),
        isFirstLoginOnDevice: false)
    )
    let open = try await database.write { db throws(StorageError) in
      let rows = SQLiteMerges(db: db)
      try rows.insert(again, dueAt: now, at: now)
      return try rows.open(of: again.guest)
    }
    #expect(open?.id == again.id)
  }
}
