import LatchkeyModel
import Storage
import TestSupport
import Testing

@testable import StorageSQLite

@Suite("The schema of identity.db")
struct IdentitySchemaTests {
  private let folder: TemporaryFolder

  init() throws {
    folder = try TemporaryFolder()
  }

  @Test("Notices that only a newer release can read hold up nobody, and go when they are too old")
  func newerNotices() async throws {
    let database = try SQLiteDatabase.open(path: folder.file("notices.db"), schema: .identity)
    let (now, ada) = (Timestamp(secondsSinceEpoch: 1000), try #require(AccountIdentifier("ada@example.com")))
    let known = OwnerNotice(key: "known", .recovered, to: ada, locale: nil, at: now)
    let (due, removed) = try await database.write { db throws(StorageError) in
      for number in 0..<3 {
        try db.execute(
          "INSERT INTO notices (key, notice, recipient, at, attempts, due_at) VALUES (?, 'newer', ?, 1, 0, 1)",
          .text("newer \(number)"), .text(ada.canonical))
      }
      let notices = SQLiteNotices(db: db)
      try notices.insert(known, dueAt: now)
      return (try notices.lockDue(on: .mail, at: now, limit: 2), try notices.remove(before: now, limit: 9))
    }
    #expect(due == [known] && removed == 3)
  }

  @Test("A file of each earlier version opens with what it held")
  func upgrades() async throws {
    for version in 1...SQLiteSchema.identity.latest {
      let folder = try TemporaryFolder()
      let earlier = SQLiteSchema(versions: Array(SQLiteSchema.identity.versions.prefix(version)))
      let old = try SQLiteDatabase.open(path: folder.file("test.db"), schema: earlier)
      try await old.write { db throws(StorageError) in
        _ = try db.execute(
          """
          INSERT INTO sessions (sid, sub, is_guest, client_id, scope, method, refresh_seed, authenticated_at,
            generation, rotated_at, idle_expires_at, absolute_expires_at)
          VALUES (zeroblob(16), zeroblob(16), 1, 'app', 'basic', 'guest', x'00', 1, 3, 1, 1000, 1000)
          """
        )
        _ = try db.execute(
          """
          INSERT INTO devices (key_thumbprint, public_key_x, public_key_y, device_id, guest_sub, last_login_method,
            last_login_mask, last_login_at, created_at, last_seen_at)
          VALUES ('key', x'00', x'00', 'device', zeroblob(16), 'password', 'a***', 7, 1, 1)
          """
        )
        _ = try db.execute("INSERT INTO used_challenges (hash, expires_at) VALUES (x'07', 9)")
      }
      await old.close()
      let database = try SQLiteDatabase.open(path: folder.file("test.db"), schema: .identity)
      let id = try #require(SessionID(bytes: [UInt8](repeating: 0, count: 16), in: .first))
      let session = try await database.read { db throws(StorageError) in try SQLiteSessions(db: db).find(id) }
      #expect(session?.family.generation == 3 && session?.confirmedAt == nil)
      let device = try await database.read { db throws(StorageError) in try SQLiteDevices(db: db).find("key") }
      #expect(device?.guest?.bytes == [UInt8](repeating: 0, count: 16) && device?.lastLogin?.accountMask == "a***")
      let isSpentAgain = try await database.write { db throws(StorageError) in
        try SQLiteChallenges(db: db).insert(
          UsedChallenge(hash: [7], expiry: Timestamp(millisecondsSinceEpoch: 9)))
      }
      #expect(!isSpentAgain)
      await database.close()
    }
  }

  @Test("what a sign-in, a replaced key and a deleted account ask for is found without reading a table")
  func searches() async throws {
    let database = try SQLiteDatabase.open(path: folder.file("test.db"), schema: .identity)
    let statements =
      [
        SQLiteSessions.selectOnDevice, SQLiteUnlocks.move, SQLiteIdentities.removeAll, SQLiteIdentities.removePassword,
        SQLiteGuides.remove, SQLiteUnlocks.removeElsewhere, SQLiteSources.removeOldest,
      ] + SQLiteDevices.removeUses
    let plans = try await database.read { db throws(StorageError) in
      try statements.map { statement throws(StorageError) in
        try db.all("EXPLAIN QUERY PLAN \(statement)") { $0.text(3) }.joined(separator: "; ")
      }
    }
    for (statement, plan) in zip(statements, plans) {
      #expect(plan.hasPrefix("SEARCH") && !plan.contains("SCAN"), "\(statement): \(plan)")
    }
    await database.close()
  }

  @Test("what is over is found by its time, or by the session that it came from, without reading a table")
  func purges() async throws {
    let database = try SQLiteDatabase.open(path: folder.file("test.db"), schema: .identity)
    let statements =
      SQLiteSessions.removeOver + [
        SQLiteGrants.removeEmpty, SQLiteChallenges.removeExpired, SQLiteTickets.removeExpired,
        SQLiteTransfers.removeExpired, SQLiteAttempts.removeOld, SQLiteMerges.removeOver, SQLiteMergedGuests.removeOld,
      ]
    let plans = try await database.read { db throws(StorageError) in
      try statements.map { statement throws(StorageError) in
        try db.all("EXPLAIN QUERY PLAN \(statement)") { $0.text(3) }.joined(separator: "; ")
      }
    }
    for (statement, plan) in zip(statements, plans) {
      #expect(plan.hasPrefix("SEARCH") && !plan.contains("SCAN"), "\(statement): \(plan)")
    }
    await database.close()
  }

  @Test(
    "S19: the device that a revoked code's guest goes back to is found by when it left, without reading all sessions")
  func leftDevice() async throws {
    let database = try SQLiteDatabase.open(path: folder.file("test.db"), schema: .identity)
    let plan = try await database.read { db throws(StorageError) in
      try db.all("EXPLAIN QUERY PLAN \(SQLiteSessions.selectLeftDevice)") { $0.text(3) }
    }
    #expect(plan.first?.hasSuffix("USING INDEX sessions_ended (ended_at=?)") == true, "\(plan)")
    #expect(plan.count == 1, "\(plan)")
    await database.close()
  }

  @Test("R23: a used challenge is found among all others without reading them")
  func usedChallenge() async throws {
    let database = try SQLiteDatabase.open(path: folder.file("test.db"), schema: .identity)
    let plan = try await database.read { db throws(StorageError) in
      try db.all("EXPLAIN QUERY PLAN \(SQLiteChallenges.selectUsed)") { $0.text(3) }
    }
    #expect(plan.count == 1 && plan[0].hasPrefix("SEARCH"), "\(plan)")
    #expect(plan.first?.hasSuffix("(expires_at=? AND hash=?)") == true, "\(plan)")
    let expiry = Timestamp(millisecondsSinceEpoch: 9)
    let found = try await database.write { db throws(StorageError) in
      let challenges = SQLiteChallenges(db: db)
      _ = try challenges.insert(UsedChallenge(hash: [7], expiry: expiry))
      return try [[7], [8]].map { (hash: [UInt8]) throws(StorageError) in
        try challenges.isUsed(UsedChallenge(hash: hash, expiry: expiry))
      }
    }
    #expect(found == [true, false])
    await database.close()
  }

  @Test("G2: the schema itself allows one guest for a key")
  func oneGuestForAKey() async throws {
    let database = try SQLiteDatabase.open(path: folder.file("test.db"), schema: .identity)
    func insert(_ key: String) async throws {
      try await database.write { db throws(StorageError) in
        _ = try db.execute(
          """
          INSERT INTO devices (key_thumbprint, public_key_x, public_key_y, device_id, guest_sub, created_at, last_seen_at)
          VALUES (?, x'00', x'00', 'device', zeroblob(16), 1, 1)
          """,
          .text(key)
        )
      }
    }
    try await insert("key 1")
    let error = await #expect(throws: StorageError.self) { try await insert("key 1") }
    #expect(error?.isUniqueViolation == true)
    await database.close()
  }
}
