import LatchkeyModel
import Storage
import TestSupport
import Testing

@testable import StorageSQLite

@Suite("The schema of migrator.db")
struct MigrationSchemaTests {
  private static let guest = SubjectID(from: RandomSource { [UInt8](repeating: 1, count: $0) })
  private static let kept = MigrationID(from: RandomSource { [UInt8](repeating: 3, count: $0) })
  private static let account = SubjectID(from: RandomSource { [UInt8](repeating: 2, count: $0) })

  @Test("A file of each earlier version opens with what it held, and what a subject stores is counted")
  func upgrades() async throws {
    let versions = MigrationSchema.schema.versions
    for version in 1...versions.count {
      let comment: Comment = "version \(version)"
      let folder = try TemporaryFolder()
      let path = folder.file("test.db")
      let old = try SQLiteDatabase.open(
        path: path, schema: SQLiteSchema(versions: Array(versions.prefix(version))))
      try await old.write { db throws(StorageError) in
        let usage = version >= 3 ? (", records, bytes", ", 2, 21") : ("", "")
        try db.execute(
          "INSERT INTO subjects (sub, version\(usage.0)) VALUES (?, 9\(usage.1))", .id(Self.guest))
        try db.execute(
          "INSERT INTO collections (sub, name, records) VALUES (?, 'cart', 2)", .id(Self.guest))
        // A key of two bytes in one character: bytes are counted.
        for (key, value) in [("a", [UInt8](repeating: 1, count: 7)), ("é", [1, 2, 3])] {
          try db.execute(
            """
            INSERT INTO records (sub, collection, key, value, number, updated_at, revision)
            VALUES (?, 'cart', ?, ?, 0, 1, 1)
            """,
            .id(Self.guest), .text(key), .blob(value))
        }
        try db.execute("INSERT INTO plans VALUES (zeroblob(16), zeroblob(16), x'02', x'03', 1, 1, 9, 1)")
        try db.execute(
          """
          INSERT INTO migrations (id, plan, idempotency_key, guest, target, phase, done, total, created_at, finished_at,
            run_at)
          VALUES (zeroblob(16), zeroblob(16), 'k', zeroblob(16), ?, 'done', 1, 1, 5, 6, 5)
          """, .id(Self.account))
        if version >= 4 {
          try db.execute(
            """
            INSERT INTO plans VALUES (x'0102030405060708090a0b0c0d0e0f10', zeroblob(16), x'02', x'03', 1, 1, 9, 1)
            """)
          try db.execute(
            """
            INSERT INTO migrations (id, plan, idempotency_key, guest, target, phase, done, total, created_at, finished_at,
              run_at, undo_until)
            VALUES (?, x'0102030405060708090a0b0c0d0e0f10', 'l', x'01', ?, 'done', 1, 1, 4, 6, 5, 9)
            """, .id(Self.kept), .id(Self.guest))
          // Bytes are counted, not characters.
          try db.execute("INSERT INTO moved_records VALUES (?, 'cart', 'é', x'010203', 0, 1)", .id(Self.kept))
          try db.execute(
            """
            INSERT INTO migration_records (migration, collection, key, outcome, old_value)
            VALUES (?, 'cart', 'é', 'replaced', x'0102')
            """, .id(Self.kept))
        }
        _ = try db.execute(
          """
          INSERT INTO migration_collections (migration, name, policy, source_count, moved)
          VALUES (zeroblob(16), 'cart', 'SUM', 1, 1)
          """)
      }
      await old.close()
      let database = try SQLiteDatabase.open(path: path, schema: MigrationSchema.schema)
      let cart = try #require(CollectionName("cart"))
      let (account, guest) = (Self.account, Self.guest)
      if version >= 4 {
        let kept = try await database.read { db throws(StorageError) in
          try db.first("SELECT kept_bytes FROM migrations WHERE id = ?", .id(Self.kept)) { $0.integer(0) }
        }
        // From the version that counts on nothing is counted anew.
        let expected: Int64 = version >= 7 ? 0 : 2 * (256 + 4 + 2) + 3 + 2
        #expect(kept == expected, comment)
      }
      try await database.read { db throws(StorageError) in
        let rows = SQLiteMigrationTransaction(db: db)
        let listed = try rows.migrations.page(into: account, beyond: nil, count: 10)
        #expect(listed.map(\.state) == [.done(at: Timestamp(millisecondsSinceEpoch: 6))], comment)
        // What was done before it could be taken back cannot be.
        #expect(listed.map(\.undoUntil) == [nil], comment)
        for migration in listed {
          #expect(try rows.reports.all(of: migration.id).map(\.counts) == [[.moved: 1]], comment)
        }
        let owner = try rows.owners.find(guest)
        #expect(owner?.version == 9 && owner?.records == 2 && owner?.bytes == 21, comment)
        #expect(owner?.migration == nil && owner?.isMigrated == false && owner?.isDeleted == false, comment)
        #expect(try rows.counts.all(of: guest).map(\.count) == [2], comment)
        let page = try rows.records.page(
          cart, of: guest, in: .keys(after: nil), count: 9, bytes: 100)
        #expect(page.records.map(\.revision) == [1, 1], comment)
      }
      await database.close()
    }
  }
}
