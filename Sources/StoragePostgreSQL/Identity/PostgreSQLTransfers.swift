import LatchkeyModel
import Storage

/// The table `transfers`.
struct PostgreSQLTransfers: TransferRows {
  let db: PostgreSQLConnection

  private static let select = """
    SELECT transfer_id, code_hash, reference_hash, sub, sid, consent, address, same_network, tries_left, created_at,
      expires_at, redeemed_sid, challenge_hash, previous_sub, sessions_ended
    FROM transfers
    """

  func find(_ secretHash: [UInt8]) async throws(StorageError) -> TransferRecord? {
    try await db.first(Self.selectBySecret, .bytes(secretHash), map: Self.map)
  }

  private static let selectBySecret = "\(select) WHERE code_hash = $1 OR reference_hash = $1"

  /// Codes are made of chance, so nobody makes the row of one that is not there.
  func lock(_ secretHash: [UInt8]) async throws(StorageError) -> TransferRecord? {
    try await db.first("\(Self.selectBySecret) FOR UPDATE", .bytes(secretHash), map: Self.map)
  }

  func lock(_ id: TransferID) async throws(StorageError) -> TransferRecord? {
    try await db.first("\(Self.select) WHERE transfer_id = $1 FOR UPDATE", .id(id), map: Self.map)
  }

  func put(_ record: TransferRecord) async throws(StorageError) {
    let offer = record.offer
    try await db.execute(
      """
      INSERT INTO transfers (transfer_id, code_hash, reference_hash, sub, sid, consent, address, same_network,
        tries_left, created_at, expires_at)
      VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
      ON CONFLICT (sid) DO UPDATE SET transfer_id = excluded.transfer_id, code_hash = excluded.code_hash,
        reference_hash = excluded.reference_hash, sub = excluded.sub, consent = excluded.consent,
        address = excluded.address, same_network = excluded.same_network, tries_left = excluded.tries_left,
        created_at = excluded.created_at, expires_at = excluded.expires_at, redeemed_sid = NULL,
        challenge_hash = NULL, previous_sub = NULL, sessions_ended = NULL
      """,
      .id(offer.id), .bytes(offer.codeHash), .bytes(offer.referenceHash), .id(record.subject), .id(record.session),
      .integer(offer.consent.rawValue), .text(offer.address), .boolean(offer.needsSameNetwork),
      .integer(record.triesLeft), .time(offer.createdAt), .time(offer.expiry)
    )
  }

  func change(_ id: TransferID, triesLeft: Int64) async throws(StorageError) {
    try await db.execute("UPDATE transfers SET tries_left = $1 WHERE transfer_id = $2", .integer(triesLeft), .id(id))
  }

  func change(_ id: TransferID, redeemed: TransferRecord.Redeemed) async throws(StorageError) {
    try await db.execute(
      """
      UPDATE transfers SET redeemed_sid = $1, challenge_hash = $2, previous_sub = $3, sessions_ended = $4
      WHERE transfer_id = $5
      """,
      .id(redeemed.session), .bytes(redeemed.challengeHash), .optional(redeemed.previousSubject?.bytes),
      .integer(redeemed.sessionsEnded), .id(id)
    )
  }

  func remove(_ id: TransferID) async throws(StorageError) {
    try await db.execute("DELETE FROM transfers WHERE transfer_id = $1", .id(id))
  }

  func remove(of subject: SubjectID) async throws(StorageError) {
    try await db.execute("DELETE FROM transfers WHERE sub = $1", .id(subject))
  }

  func remove(offerOf session: SessionID) async throws(StorageError) {
    try await db.execute("DELETE FROM transfers WHERE sid = $1 AND redeemed_sid IS NULL", .id(session))
  }

  private static func map(_ row: PostgreSQLRow) throws(StorageError) -> TransferRecord {
    guard let consent = OldDeviceConsent(rawValue: row.integer(5)) else {
      throw StorageError(.corrupt, operation: "read a transfer", detail: "unknown consent")
    }
    var redeemed: TransferRecord.Redeemed?
    if let session = try row.optionalID(11) as SessionID? {
      redeemed = TransferRecord.Redeemed(
        session: session, challengeHash: row.bytes(12), previousSubject: try row.optionalID(13),
        sessionsEnded: Int(row.integer(14)))
    }
    let offer = TransferOffer(
      id: try row.id(0), codeHash: row.bytes(1), referenceHash: row.bytes(2), consent: consent, address: row.text(6),
      needsSameNetwork: row.boolean(7), createdAt: row.timestamp(9), expiry: row.timestamp(10))
    return TransferRecord(
      offer: offer, subject: try row.id(3), session: try row.id(4), triesLeft: row.integer(8), redeemed: redeemed)
  }

  static let removeExpired = """
    WITH old AS MATERIALIZED (
      SELECT transfer_id FROM transfers WHERE expires_at < $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)
    DELETE FROM transfers USING old WHERE transfers.transfer_id = old.transfer_id
    """

  func remove(expiredBefore time: Timestamp, limit: Int) async throws(StorageError) -> Int {
    try await db.change(Self.removeExpired, .time(time), .integer(limit))
  }
}
