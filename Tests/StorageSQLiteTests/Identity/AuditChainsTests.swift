import LatchkeyModel
import Storage
import TestSupport
import Testing

@testable import StorageSQLite

@Suite("C11: the audit log of a file that came from an engine with several chains")
struct AuditChainsTests {
  private static let now = Timestamp(secondsSinceEpoch: 1_800_000_000)
  private let folder: TemporaryFolder
  private let chain = AuditChain { Array(([UInt8](repeating: 0, count: 32) + $0).suffix(32)) }

  init() throws {
    folder = try TemporaryFolder()
  }

  /// What chain and number each place has.
  private struct Event: Equatable {
    let place: Int64
    let chain: Int64
    let number: Int64

    init(_ place: Int64, _ chain: Int64, _ number: Int64) {
      (self.place, self.chain, self.number) = (place, chain, number)
    }

    init(_ event: AuditEvent) { self.init(event.sequence, event.chain, event.number) }
  }

  /// A file with the events of its own chain, of 7 and of 9, as they were committed elsewhere.
  private func moved() async throws -> SQLiteDatabase {
    let database = try SQLiteDatabase.open(path: folder.file("identity.db"), schema: .identity)
    let rows: [(Int64, Int64?, Int64?)] = [(1, nil, nil), (2, nil, nil), (5, 7, 1), (6, 9, 1), (8, 7, 2), (9, 9, 2)]
    try await database.write { db throws(StorageError) in
      for (place, chain, number) in rows {
        try db.execute(
          """
          INSERT INTO audit_events (seq, kind, at, address, detail, link, chain, number)
          VALUES (?, 'session_began', 1, '', '', zeroblob(32), ?, ?)
          """, .integer(place), .optional(chain), .optional(number))
      }
    }
    return database
  }

  @Test("it goes on with the chain of its last event, and every chain is found by its numbers and places")
  func goesOn() async throws {
    let database = try await moved()
    let chain = chain
    let (all, own, other, ends) = try await database.write { db throws(StorageError) in
      let rows = SQLiteAudit(db: db)
      try await chain.append(
        [AuditNote(.sessionEnded, at: Self.now), AuditNote(.sessionEnded, at: Self.now)], to: rows)
      try await chain.append([AuditNote(.sessionEnded, at: Self.now)], to: rows)
      return (
        try rows.events(after: 2, of: nil, limit: 9), try rows.events(of: 0, after: 1, limit: 9),
        try rows.events(of: 9, after: 1, limit: 2), try rows.ends()
      )
    }
    let new = [Event(10, 9, 3), Event(11, 9, 4), Event(12, 9, 5)]
    #expect(all.map(Event.init) == [Event(5, 7, 1), Event(6, 9, 1), Event(8, 7, 2), Event(9, 9, 2)] + new)
    #expect(own.map(Event.init) == [Event(2, 0, 2)])
    #expect(other.map(Event.init) == [Event(9, 9, 2), Event(10, 9, 3)])
    #expect(ends.map(\.chain) == [0, 7, 9] && ends.map(\.number) == [2, 2, 5])
    await database.close()
  }

  @Test("C18: the ends of chains that nobody appends to any more are recorded, those of others are not")
  func unsealed() async throws {
    let database = try await moved()
    let (found, later) = try await database.read { db throws(StorageError) in
      (try SQLiteAudit(db: db).unsealed(after: nil), try SQLiteAudit(db: db).unsealed(after: 1))
    }
    #expect(found.map(Event.init) == [Event(8, 7, 2)] && later.isEmpty)
    await database.close()
  }

  @Test("what is forgotten of a chain is of that chain alone, and a log that was forgotten goes on where it ended")
  func forgotten() async throws {
    let database = try await moved()
    let chain = chain
    let (left, checkpoints, end) = try await database.write { db throws(StorageError) in
      let rows = SQLiteAudit(db: db)
      try rows.remove(of: 7, through: 1)
      try rows.remove(of: 0, through: 2)
      let left = try rows.events(after: 0, of: nil, limit: 9)
      try rows.remove(of: 7, through: 2)
      try rows.remove(of: 9, through: 2)
      for (number, end) in [AuditEnd(chain: 7, number: 2), AuditEnd(chain: 9, number: 2)].enumerated() {
        try rows.put(
          AuditCheckpoint(chain: end.chain, number: end.number, link: end.link, seal: chain.seal(end)),
          at: Self.now + .seconds(number))
      }
      let end = try rows.lockEnd()
      try rows.removeCheckpoints(before: Self.now + .seconds(1))
      return (left, try rows.checkpoints(), end)
    }
    #expect(left.map(Event.init) == [Event(6, 9, 1), Event(8, 7, 2), Event(9, 9, 2)])
    #expect(end.chain == 9 && end.number == 2)
    #expect(checkpoints.map(\.chain) == [9])
    await database.close()
  }

  @Test("a file of before there were several chains goes on where its chain ended")
  func upgraded() async throws {
    let earlier = SQLiteSchema(versions: Array(SQLiteSchema.identity.versions.prefix(22)))
    let old = try SQLiteDatabase.open(path: folder.file("old.db"), schema: earlier)
    try await old.write { db throws(StorageError) in
      try db.execute("INSERT INTO audit_checkpoints (seq, link, seal, at) VALUES (3, zeroblob(32), zeroblob(32), 1)")
      try db.execute(
        "INSERT INTO audit_events (seq, kind, at, address, detail, link) VALUES (4, 'session_began', 1, '', '', zeroblob(32))"
      )
    }
    await old.close()
    let database = try SQLiteDatabase.open(path: folder.file("old.db"), schema: .identity)
    let (end, checkpoint) = try await database.read { db throws(StorageError) in
      (try SQLiteAudit(db: db).lockEnd(), try SQLiteAudit(db: db).checkpoint(of: 0))
    }
    #expect(end.chain == 0 && end.number == 4 && checkpoint?.number == 3)
    await database.close()
  }
}
