import LatchkeyModel
import Storage

extension PostgreSQLQRSessionStore: SharedQRSessionStore {
  package func sharedSecret(proposing secret: [UInt8]) async throws(StorageError) -> [UInt8] {
    let stored = try await database.write { db throws(StorageError) in
      try await db.execute(
        "INSERT INTO qr_secrets (name, value) VALUES ('device codes', $1) ON CONFLICT DO NOTHING", .bytes(secret))
      return try await db.first("SELECT value FROM qr_secrets WHERE name = 'device codes'") { $0.bytes(0) }
    }
    guard let stored else {
      throw StorageError(.corrupt, operation: "qr_secrets", detail: "a row that was there is gone")
    }
    return stored
  }

  // MARK: Redemptions

  package func redemption(of id: QRSessionID) async throws(StorageError) -> QRRedemption? {
    try await database.find(
      "SELECT holder, held_until, answer FROM qr_redemptions WHERE id = $1", [.bytes(id.bytes)]
    ) { QRRedemption(holder: $0.bytes(0), until: $0.timestamp(1), answer: $0.optionalBytes(2)) }
  }

  /// The clock is read when the row is locked: who waits for another one's commit waits no turn away.
  package func takeRedemption(
    of id: QRSessionID, by holder: [UInt8], for turn: Duration
  ) async throws(StorageError) -> Int64? {
    try await database.change(
      Self.take, [.bytes(id.bytes), .bytes(holder), .integer(turn.wholeMilliseconds)], about: Self.rows(of: id)
    ) { $0.integer(0) }
  }

  package func giveUpRedemption(of id: QRSessionID, by holder: [UInt8]) async throws(StorageError) {
    _ = try await database.change(
      "UPDATE qr_redemptions SET held_until = \(Self.now) WHERE id = $1 AND holder = $2 AND answer IS NULL",
      [.bytes(id.bytes), .bytes(holder)], about: Self.rows(of: id))
  }

  private static let take = """
    INSERT INTO qr_redemptions AS held (id, holder, held_until, turn)
    VALUES ($1, $2, \(now) + $3::bigint, \(now))
    ON CONFLICT (id) DO UPDATE SET
      holder = $2, held_until = \(now) + $3::bigint, turn = greatest(held.turn + 1, \(now))
    WHERE held.answer IS NULL AND (held.held_until <= \(now) OR held.holder = $2)
    RETURNING turn
    """
  private static let now = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"

  /// The redemption's row is locked before the session's: whoever takes it over finds the one or the other stored.
  package func redeem(
    _ before: QRSession, for session: QRSession, handingOver redemption: QRRedemption, at now: Timestamp
  ) async throws(StorageError) -> QRRedemption.Outcome {
    let values = Self.exchangeValues(before, session, now)
    return try await database.write(about: Self.rows(of: before.id)) { db throws(StorageError) in
      let held = try await db.first(
        "SELECT 1::bigint FROM qr_redemptions WHERE id = $1 AND holder = $2 AND answer IS NULL FOR UPDATE",
        .bytes(before.id.bytes), .bytes(redemption.holder)
      ) { $0.integer(0) }
      guard held != nil else { return .superseded }
      if session.version != before.version {
        guard try await db.change(PostgreSQLQRSessionRow.exchange.one, values) == 1 else { return .changed }
      }
      try await db.execute(
        "UPDATE qr_redemptions SET answer = $2, held_until = $3 WHERE id = $1", .bytes(before.id.bytes),
        .optional(redemption.answer), .time(redemption.until))
      return .done
    }
  }

  package func forgetRedemptions(endedBefore time: Timestamp, limit: Int) async throws(StorageError) -> Int {
    try await database.write { db throws(StorageError) in
      try await db.planFreely()
      return try await db.change(
        """
        DELETE FROM qr_redemptions WHERE id IN (
          SELECT id FROM qr_redemptions WHERE held_until < $1 LIMIT $2 FOR UPDATE SKIP LOCKED)
        """, .time(time), .integer(limit))
    }
  }
}
