import LatchkeyModel
import Storage

/// The table `transfers`.
struct SQLiteTransfers: TransferRows {
  let db: SQLiteConnection

  private static let select = """
    SELECT transfer_id, code_hash, reference_hash, sub, sid, consent, address, same_network, tries_left, created_at,
      expires_at, redeemed_sid, challenge_hash, previous_sub, sessions_ended
    FROM transfers
    """

  func find(_ secretHash: [UInt8]) throws(StorageError) -> TransferRecord? {
    try db.first("\(Self.select) WHERE code_hash = ?1 OR reference_hash = ?1", .blob(secretHash), map: Self.map)
  }

  func lock(_ secretHash: [UInt8]) throws(StorageError) -> TransferRecord? { try find(secretHash) }

  func lock(_ id: TransferID) throws(StorageError) -> TransferRecord? {
    try db.first("\(Self.select) WHERE transfer_id = ?", .id(id), map: Self.map)
  }

  func put(_ record: TransferRecord) throws(StorageError) {
    let offer = record.offer
    try db.execute("DELETE FROM transfers WHERE sid = ?", .id(record.session))
    try db.execute(
      """
      INSERT INTO transfers (transfer_id, code_hash, reference_hash, sub, sid, consent, address, same_network,
        tries_left, created_at, expires_at)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
      """,
      .id(offer.id), .blob(offer.codeHash), .blob(offer.referenceHash), .id(record.subject), .id(record.session),
      .integer(offer.consent.rawValue), .text(offer.address), .boolean(offer.needsSameNetwork),
      .integer(record.triesLeft), .time(offer.createdAt), .time(offer.expiry)
    )
  }

  func change(_ id: TransferID, triesLeft: Int64) throws(StorageError) {
    try db.execute("UPDATE transfers SET tries_left = ? WHERE transfer_id = ?", .integer(triesLeft), .id(id))
  }

  func change(_ id: TransferID, redeemed: TransferRecord.Redeemed) throws(StorageError) {
    try db.execute(
      """
      UPDATE transfers SET redeemed_sid = ?, challenge_hash = ?, previous_sub = ?, sessions_ended = ?
      WHERE transfer_id = ?
      """,
      .id(redeemed.session), .blob(redeemed.challengeHash), .optional(redeemed.previousSubject?.bytes),
      .integer(redeemed.sessionsEnded), .id(id)
    )
  }

  func remove(_ id: TransferID) throws(StorageError) {
    try db.execute("DELETE FROM transfers WHERE transfer_id = ?", .id(id))
  }

  func remove(of subject: SubjectID) throws(StorageError) {
    try db.execute("DELETE FROM transfers WHERE sub = ?", .id(subject))
  }

  func remove(offerOf session: SessionID) throws(StorageError) {
    try db.execute("DELETE FROM transfers WHERE sid = ? AND redeemed_sid IS NULL", .id(session))
  }

  private static func map(_ row: SQLiteRow) throws(StorageError) -> TransferRecord {
    guard let consent = OldDeviceConsent(rawValue: row.integer(5)) else {
      throw StorageError(.corrupt, operation: "read a transfer", detail: "unknown consent")
    }
    var redeemed: TransferRecord.Redeemed?
    if let session = try row.optionalID(11) as SessionID? {
      redeemed = TransferRecord.Redeemed(
        session: session, challengeHash: row.blob(12), previousSubject: try row.optionalID(13),
        sessionsEnded: Int(row.integer(14)))
    }
    let offer = TransferOffer(
      id: try row.id(0), codeHash: row.blob(1), referenceHash: row.blob(2), consent: consent, address: row.text(6),
      needsSameNetwork: row.boolean(7), createdAt: row.timestamp(9), expiry: row.timestamp(10))
    return TransferRecord(
      offer: offer, subject: try row.id(3), session: try row.id(4), triesLeft: row.integer(8), redeemed: redeemed)
  }

  static let removeExpired = """
    DELETE FROM transfers WHERE transfer_id IN
      (SELECT transfer_id FROM transfers WHERE expires_at < ? ORDER BY expires_at LIMIT ?)
    """

  func remove(expiredBefore time: Timestamp, limit: Int) throws(StorageError) -> Int {
    try db.execute(Self.removeExpired, .time(time), .integer(limit))
  }
}
