import LatchkeyModel
import Storage

/// The ends of codes whose instance is gone. An instance says when the time of its own codes ends; for one that lives no more
/// the lowest living one does. How far that has come is a row: it goes on where it was, whoever dies meanwhile.
extension PostgreSQLQRSessionStore {
  private static let now = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
  /// Nothing for whoever is not the lowest or is silent itself, and while everybody lives. One who left said good-bye when it was as old as one
  /// that is silent for too long. One that was silent before told of its own codes since, while it gave signs of life.
  private static let selectGone = """
    SELECT m.instance, m.boot, greatest(t.told, m.heartbeat + CASE WHEN m.has_left THEN $3::bigint ELSE 0 END)
    FROM members m LEFT JOIN qr_expiries t ON t.instance = m.instance AND t.boot = m.boot
    WHERE m.heartbeat <= $2::bigint - $3::bigint AND coalesce(t.told, 0) < m.heartbeat + $4::bigint
      AND $1 = (SELECT min(living.instance) FROM members living WHERE living.heartbeat > $2::bigint - $3::bigint)
    ORDER BY m.instance
    """
  /// In milliseconds after an instance's last sign of life: none of its codes lives longer. With a minute for what it had in
  /// hand, and for what clocks differ.
  private static let lastEnd = (QRLimits.maximumLifetime + QRLimits.redeemWindow + .seconds(60)).wholeMilliseconds
  /// An id begins with its cell and the number of its instance. With those of the last moment, so that none of it is left out.
  private static let selectExpired = """
    SELECT id, expires_at FROM qr_sessions
    WHERE id BETWEEN $1 AND $2 AND expires_at > $3 AND expires_at <= $4 AND state IN (\(unfinished))
      AND expires_hour BETWEEN $3::bigint / 3600000 AND $4::bigint / 3600000
    ORDER BY expires_at FETCH FIRST $5 ROWS WITH TIES
    """
  private static let unfinished =
    [QRSessionState.pending, .scanned, .confirmed].map { String($0.rawValue) }.joined(separator: ", ")
  /// Never back for the same start, though the database's clock be set back or another server's be behind.
  private static let note = """
    INSERT INTO qr_expiries AS before (instance, boot, told) VALUES ($1, $2, $3)
    ON CONFLICT (instance) DO UPDATE SET boot = excluded.boot,
      told = CASE WHEN before.boot = excluded.boot THEN greatest(before.told, excluded.told) ELSE excluded.told END
    """
  private static let forget = """
    DELETE FROM qr_expiries t
    WHERE NOT EXISTS (SELECT 1 FROM members m WHERE m.instance = t.instance AND m.boot = t.boot)
    """

  package func takeExpired(by member: UInt16, limit: Int) async throws(StorageError) -> [QRSessionID] {
    try await database.write("find the ended codes of others") { db throws(StorageError) in
      try await db.planFreely()
      // Whoever waits here sees what the one before has noted.
      try await db.lock("qr_expiries")
      let now = try await db.first("SELECT \(Self.now)") { $0.integer(0) } ?? 0
      let gone = try await db.all(
        Self.selectGone, .integer(Int64(member)), .integer(now), .integer(Limits.memberSilenceMilliseconds),
        .integer(Self.lastEnd)
      ) { row in (instance: row.integer(0), boot: row.bytes(1), told: row.integer(2)) }
      var ids: [QRSessionID] = []
      for one in gone {
        let (first, last) = Self.ids(of: UInt16(clamping: one.instance), in: db.cells.own)
        let expired = try await db.all(
          Self.selectExpired, .bytes(first), .bytes(last), .integer(one.told), .integer(now), .integer(limit)
        ) { row in (id: QRSessionID(bytes: row.bytes(0)), time: row.integer(1)) }
        ids += expired.compactMap(\.id)
        let told = expired.count < limit ? now : expired.last?.time ?? now
        try await db.execute(Self.note, .integer(one.instance), .bytes(one.boot), .integer(told))
      }
      if !gone.isEmpty { try await db.execute(Self.forget) }
      return ids
    }
  }

  /// The lowest id that an instance may have issued, and the highest.
  private static func ids(of instance: UInt16, in cell: Cell) -> (first: [UInt8], last: [UInt8]) {
    let number = cell.bytes + [UInt8(instance >> 8), UInt8(instance & 0xFF)]
    return (number + [UInt8](repeating: 0, count: 12), number + [UInt8](repeating: 0xFF, count: 12))
  }
}
