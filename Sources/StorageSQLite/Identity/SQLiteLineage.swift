import LatchkeyModel
import Storage

/// The table `lineage`.
struct SQLiteLineage: LineageRows {
  let db: SQLiteConnection

  static let selectAncestors = "SELECT ancestor FROM lineage WHERE descendant = ?"
  static let selectDescendants = "SELECT descendant FROM lineage WHERE ancestor = ?"

  func ancestors(of member: LineageMember) throws(StorageError) -> [LineageMember] {
    try db.all(Self.selectAncestors, .blob(member.bytes), map: Self.map)
  }

  func descendants(of member: LineageMember) throws(StorageError) -> [LineageMember] {
    try db.all(Self.selectDescendants, .blob(member.bytes), map: Self.map)
  }

  func insert(_ member: LineageMember, cameOf ancestor: LineageMember) throws(StorageError) {
    try db.execute(
      "INSERT OR IGNORE INTO lineage (ancestor, descendant) VALUES (?, ?)", .blob(ancestor.bytes), .blob(member.bytes))
  }

  func insert(_ member: LineageMember, cameOfAncestorsOf source: LineageMember) throws(StorageError) {
    try db.execute(
      "INSERT OR IGNORE INTO lineage (ancestor, descendant) SELECT ancestor, ?2 FROM lineage WHERE descendant = ?1",
      .blob(source.bytes), .blob(member.bytes))
  }

  func insert(descendantsOf earlier: LineageMember, cameOf member: LineageMember) throws(StorageError) {
    try db.execute(
      "INSERT OR IGNORE INTO lineage (ancestor, descendant) SELECT ?2, descendant FROM lineage WHERE ancestor = ?1",
      .blob(earlier.bytes), .blob(member.bytes))
  }

  func remove(ancestorsOf member: LineageMember) throws(StorageError) {
    try db.execute("DELETE FROM lineage WHERE descendant = ?", .blob(member.bytes))
  }

  private static func map(_ row: SQLiteRow) throws(StorageError) -> LineageMember {
    guard let member = LineageMember(bytes: row.blob(0), in: row.cell) else {
      throw StorageError(.corrupt, operation: "read a lineage", detail: "unknown member")
    }
    return member
  }
}
