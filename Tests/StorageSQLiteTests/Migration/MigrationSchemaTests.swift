import LatchkeyModel
import Storage
import TestSupport
import Testing

@testable import StorageSQLite

@Suite("The schema of migrator.db")
struct MigrationSchemaTests {
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
          "INSERT INTO subjects (sub, version\(usage.0)) VALUES (?, 9\(usage.1))", .id(MigrationScenario.guest))
        try db.execute(
          "INSERT INTO collections (sub, name, records) VALUES (?, 'cart', 2)", .id(MigrationScenario.guest))
        // A key of two bytes in one character: bytes are counted.
        for (key, value) in [("a", [UInt8](repeating: 1, count: 7)), ("é", [1, 2, 3])] {
          try db.execute(
            """
            INSERT INTO records (sub, collection, key, value, number, updated_at, revision)
            VALUES (?, 'cart', ?, ?, 0, 1, 1)
            """,
            .id(MigrationScenario.guest), .text(key), .blob(value))
        }
        try db.execute("INSERT INTO plans VALUES (zeroblob(16), zeroblob(16), x'02', x'03', 1, 1, 9, 1)")
        try db.execute(
          """
          INSERT INTO migrations (id, plan, idempotency_key, guest, target, phase, done, total, created_at, finished_at,
            run_at)
          VALUES (zeroblob(16), zeroblob(16), 'k', zeroblob(16), ?, 'done', 1, 1, 5, 6, 5)
          """, .id(MigrationScenario.account))
        _ = try db.execute(
          """
          INSERT INTO migration_collections (migration, name, policy, source_count, moved)
          VALUES (zeroblob(16), 'cart', 'SUM', 1, 1)
          """)
      }
      await old.close()
      let stores = try StorageEngine.sqlite.openMigrator(at: path)
      let listed = try await stores.migrations.migrations(into: MigrationScenario.account, beyond: nil, count: 10)
      #expect(listed.migrations.map(\.state) == [.done(at: Timestamp(millisecondsSinceEpoch: 6))], comment)
      let id = try #require(listed.migrations.first).id
      // What was done before it could be taken back cannot be.
      #expect(try await stores.migrations.undo(id, at: MigrationScenario.now) == .expired, comment)
      #expect(try await stores.migrations.migration(id)?.collections.map(\.report.counts) == [[.moved: 1]], comment)
      // 2 records and 21 bytes are there already, and one of 6 comes.
      let draft = RecordDraft(
        name: RecordName(collection: try #require(CollectionName("cart")), key: try #require(RecordKey("b"))),
        content: RecordContent(value: [1], number: 0, updatedAt: MigrationScenario.now))
      func put(records: Int, bytes: Int) async throws -> WriteOutcome<Int> {
        try await stores.records.put(
          [draft], of: MigrationScenario.guest,
          within: RecordBounds(records: records, bytes: bytes, collections: 1))
      }
      #expect(try await put(records: 2, bytes: 1000) == .full(.records), comment)
      #expect(try await put(records: 3, bytes: 26) == .full(.bytes), comment)
      #expect(try await put(records: 3, bytes: 27) == .done(1), comment)
      await stores.close()
    }
  }
}
