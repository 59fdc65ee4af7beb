import Glibc
import Storage
import TestSupport
import Testing

@testable import StorageSQLite

private let schema = SQLiteSchema(versions: [
  """
  CREATE TABLE items (name TEXT PRIMARY KEY, data BLOB) STRICT, WITHOUT ROWID;
  CREATE TABLE notes (item TEXT NOT NULL REFERENCES items (name), number INTEGER NOT NULL) STRICT;
  CREATE TABLE totals (id INTEGER PRIMARY KEY, bytes INTEGER NOT NULL) STRICT;
  INSERT INTO totals (id, bytes) VALUES (0, 0);
  CREATE TRIGGER counted AFTER INSERT ON notes BEGIN UPDATE totals SET bytes = bytes + 1; END;
  """,
  "ALTER TABLE items ADD COLUMN kind INTEGER NOT NULL DEFAULT 7;",
])

@Suite struct CopyTests {
  let folder: TemporaryFolder
  let path: String

  init() throws {
    folder = try TemporaryFolder()
    path = folder.file("test.db")
  }

  private func insert(_ database: SQLiteDatabase, _ name: String) async throws(StorageError) {
    try await database.write { db throws(StorageError) in
      _ = try db.execute("INSERT INTO items (name, data) VALUES (?, ?)", .text(name), .blob(Array(name.utf8)))
      _ = try db.execute("INSERT INTO notes (item, number) VALUES (?, ?)", .text(name), .integer(Int64.min))
    }
  }

  private func names(_ snapshot: SQLiteSnapshot) throws -> [String] {
    var names: [String] = []
    try snapshot.forEachRow(of: try #require(snapshot.tables.first { $0.name == "items" })) { values in
      if case .text(let name) = values[0] { names.append(name) }
    }
    return names
  }

  @Test("C11: a snapshot, and a copy of it, know nothing of what is written after it began")
  func snapshot() async throws {
    let database = try SQLiteDatabase.open(path: path, schema: schema)
    try await insert(database, "b")
    let snapshot = try SQLiteSnapshot(path: path)
    try await insert(database, "a")
    #expect(try names(snapshot) == ["b"])
    var told: [Int64] = []
    try snapshot.copy(to: folder.file("copy.db")) { done, all in told += [done, all] }
    #expect(told.count >= 2 && told.suffix(2).first == told.last)
    #expect(try names(try SQLiteSnapshot(path: folder.file("copy.db"))) == ["b"])
    #expect(try names(try SQLiteSnapshot(path: path)) == ["a", "b"])
    await database.close()
  }

  @Test("C11: rows of an earlier release make a database of that release, which this one brings forward")
  func rebuild() async throws {
    do {
      let rebuild = try SQLiteRebuild(path: path, schema: schema, version: 1)
      #expect(
        rebuild.tables.map { $0.columns.map(\.name) } == [["name", "data"], ["item", "number"], ["id", "bytes"]])
      // What refers to a row may come before it.
      try rebuild.insert([[.text("a"), .integer(3)]], into: rebuild.tables[1])
      try rebuild.insert([[.text("a"), .blob([])], [.text("b"), .null]], into: rebuild.tables[0])
      try rebuild.insert([[.integer(0), .integer(9)]], into: rebuild.tables[2])
      try rebuild.finish()
    }
    let database = try SQLiteDatabase.open(path: path, schema: schema)
    let kinds = try await database.read { db throws(StorageError) in
      try db.all("SELECT kind FROM items") { $0.integer(0) }
    }
    #expect(kinds == [7, 7])
    await database.close()
  }

  @Test("C11: a row that refers to none, and a schema of a later release, are refused")
  func refused() throws {
    let rebuild = try SQLiteRebuild(path: path, schema: schema, version: 2)
    try rebuild.insert([[.text("gone"), .integer(3)]], into: rebuild.tables[1])
    #expect { try rebuild.finish() } throws: { ($0 as? StorageError)?.fault == .corrupt }
    #expect {
      _ = try SQLiteRebuild(path: folder.file("other.db"), schema: schema, version: 3)
    } throws: { ($0 as? StorageError)?.fault == .newerSchema(found: 3, known: 2) }
  }

  @Test("C11: a text that is not UTF-8 is said to be damaged, and not repaired in silence")
  func notText() async throws {
    let database = try SQLiteDatabase.open(path: path, schema: schema)
    try await database.write { db throws(StorageError) in
      _ = try db.execute("INSERT INTO items (name) VALUES (CAST(x'61ff' AS TEXT))")
    }
    let snapshot = try SQLiteSnapshot(path: path)
    #expect { try names(snapshot) } throws: { ($0 as? StorageError)?.fault == .corrupt }
    await database.close()
  }
}
