import LatchkeyModel
import Storage

/// The table `upkeep`.
struct PostgreSQLUpkeep: UpkeepRows {
  let db: PostgreSQLConnection

  func lock(_ chore: String) async throws(StorageError) -> UpkeepClaim? {
    try await db.lock("upkeep", .text(chore))
    return try await db.first("SELECT holder, until FROM upkeep WHERE chore = $1 FOR UPDATE", .text(chore)) {
      row throws(StorageError) in
      guard let holder = OpaqueIDValue(bytes: row.bytes(0), in: row.cell) else {
        throw StorageError(.corrupt, operation: "read a row", detail: "no valid holder in its column")
      }
      return UpkeepClaim(holder: holder, until: row.timestamp(1))
    }
  }

  func put(_ claim: UpkeepClaim, _ chore: String) async throws(StorageError) {
    try await db.execute(
      """
      INSERT INTO upkeep (chore, holder, until) VALUES ($1, $2, $3)
      ON CONFLICT (chore) DO UPDATE SET holder = excluded.holder, until = excluded.until
      """,
      .text(chore), .bytes(claim.holder.bytes), .time(claim.until))
  }

  func remove(_ chore: String) async throws(StorageError) {
    try await db.execute("DELETE FROM upkeep WHERE chore = $1", .text(chore))
  }
}
