import LatchkeyModel
import Storage

/// The table `lineage`.
struct PostgreSQLLineage: LineageRows {
  let db: PostgreSQLConnection

  static let selectAncestors = "SELECT ancestor FROM lineage WHERE descendant = $1"
  static let selectDescendants = "SELECT descendant FROM lineage WHERE ancestor = $1"

  func ancestors(of member: LineageMember) async throws(StorageError) -> [LineageMember] {
    try await db.all(Self.selectAncestors, .bytes(member.bytes), map: Self.map)
  }

  func descendants(of member: LineageMember) async throws(StorageError) -> [LineageMember] {
    try await db.all(Self.selectDescendants, .bytes(member.bytes), map: Self.map)
  }

  func insert(_ member: LineageMember, cameOf ancestor: LineageMember) async throws(StorageError) {
    try await db.execute(
      "INSERT INTO lineage (ancestor, descendant) VALUES ($1, $2) ON CONFLICT DO NOTHING",
      .bytes(ancestor.bytes), .bytes(member.bytes))
  }

  func insert(_ member: LineageMember, cameOfAncestorsOf source: LineageMember) async throws(StorageError) {
    try await db.execute(
      """
      INSERT INTO lineage (ancestor, descendant) SELECT ancestor, $2::bytea FROM lineage WHERE descendant = $1
      ON CONFLICT DO NOTHING
      """,
      .bytes(source.bytes), .bytes(member.bytes))
  }

  func insert(descendantsOf earlier: LineageMember, cameOf member: LineageMember) async throws(StorageError) {
    try await db.execute(
      """
      INSERT INTO lineage (ancestor, descendant) SELECT $2::bytea, descendant FROM lineage WHERE ancestor = $1
      ON CONFLICT DO NOTHING
      """,
      .bytes(earlier.bytes), .bytes(member.bytes))
  }

  func remove(ancestorsOf member: LineageMember) async throws(StorageError) {
    try await db.execute("DELETE FROM lineage WHERE descendant = $1", .bytes(member.bytes))
  }

  private static func map(_ row: PostgreSQLRow) throws(StorageError) -> LineageMember {
    guard let member = LineageMember(bytes: row.bytes(0), in: row.cell) else {
      throw StorageError(.corrupt, operation: "read a lineage", detail: "unknown member")
    }
    return member
  }
}
