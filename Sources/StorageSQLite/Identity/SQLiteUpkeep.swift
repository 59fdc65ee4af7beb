import LatchkeyModel
import Storage

/// The table `upkeep`.
struct SQLiteUpkeep: UpkeepRows {
  let db: SQLiteConnection

  func lock(_ chore: String) throws(StorageError) -> UpkeepClaim? {
    try db.first("SELECT holder, until FROM upkeep WHERE chore = ?", .text(chore)) { row throws(StorageError) in
      guard let holder = OpaqueIDValue(bytes: row.blob(0), in: row.cell) else {
        throw StorageError(.corrupt, operation: "read a row", detail: "no valid holder in its column")
      }
      return UpkeepClaim(holder: holder, until: row.timestamp(1))
    }
  }

  func put(_ claim: UpkeepClaim, _ chore: String) throws(StorageError) {
    try db.execute(
      "INSERT OR REPLACE INTO upkeep (chore, holder, until) VALUES (?, ?, ?)", .text(chore),
      .blob(claim.holder.bytes), .time(claim.until))
  }

  func remove(_ chore: String) throws(StorageError) {
    try db.execute("DELETE FROM upkeep WHERE chore = ?", .text(chore))
  }
}
