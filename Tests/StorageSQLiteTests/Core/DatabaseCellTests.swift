import LatchkeyModel
import Storage
import TestSupport
import Testing

@testable import StorageSQLite

private let schema = SQLiteSchema(versions: ["CREATE TABLE items (id BLOB PRIMARY KEY) STRICT;"])

@Suite struct DatabaseCellTests {
  let folder: TemporaryFolder
  let path: String

  init() throws {
    folder = try TemporaryFolder()
    path = folder.file("test.db")
  }

  private func open(_ own: UInt16, identity: UInt16? = nil, _ schema: SQLiteSchema = schema) throws -> SQLiteDatabase {
    try SQLiteDatabase.open(
      path: path, schema: schema, cells: Cells(own: Cell(own), identity: identity.map { Cell($0) }))
  }

  private func expectRefusal(_ expected: UInt16, found: UInt16) {
    let refusal = StorageError(.otherCell(found: Cell(found), expected: Cell(expected)), operation: "open \(path)")
    // Also by a release with a newer schema, which leaves the old one as it is.
    let next = SQLiteSchema(versions: schema.versions + ["CREATE TABLE more (id BLOB) STRICT;"])
    for schema in [schema, next] { #expect(throws: refusal) { try open(expected, schema) } }
  }

  @Test("C16: a file belongs to the cell that it was made in, and to no other", arguments: [0, 3, 65_535])
  func belongs(cell: UInt16) async throws {
    await (try open(cell)).close()
    for other in [UInt16(0), 3, 4, 65_535] where other != cell { expectRefusal(other, found: cell) }
    #expect(try SQLiteSnapshot(path: path).cell == Cell(cell))
    await (try open(cell)).close()
  }

  @Test("C16: a file of before there were cells is cell 0's, and one of another application is nobody's")
  func before() async throws {
    let made = try open(0)
    try await made.write { db throws(StorageError) in try db.run("PRAGMA application_id = 0") }
    await made.close()
    expectRefusal(3, found: 0)
    let again = try open(0)
    try await again.write { db throws(StorageError) in try db.run("PRAGMA application_id = 7") }
    await again.close()
    #expect { try open(0) } throws: { ($0 as? StorageError)?.fault == .corrupt }
  }

  @Test("C16: ids come back as those of identity's cell, and what is none of its is damage")
  func ids() async throws {
    let database = try open(5, identity: 3)
    let id = SubjectID(from: RandomSource(in: Cell(3)) { [UInt8](repeating: 9, count: $0) })
    try await database.write { db throws(StorageError) in
      _ = try db.execute("INSERT INTO items (id) VALUES (?)", .id(id))
    }
    let read: SubjectID? = try await database.read { db throws(StorageError) in
      try db.first("SELECT id FROM items") { row throws(StorageError) in try row.id(0) }
    }
    #expect(read == id)
    await database.close()
    let confused = try open(5, identity: 4)
    await #expect { () async throws -> Void in
      let _: SubjectID? = try await confused.read { db throws(StorageError) in
        try db.first("SELECT id FROM items") { row throws(StorageError) in try row.id(0) }
      }
    } throws: { ($0 as? StorageError)?.fault == .corrupt }
    await confused.close()
  }
}
