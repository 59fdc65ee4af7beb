import LatchkeyModel
import Storage

/// Statements and mapping of the table `transfers`.
struct TransferRow {
  struct Redeemed {
    var session: SessionID
    var challengeHash: [UInt8]
    var previousSubject: SubjectID?
    var sessionsEnded: Int
  }

  var offer: TransferOffer
  var subject: SubjectID
  var session: SessionID
  var triesLeft: Int64
  var redeemed: Redeemed?

  /// By the hash of the code or of the reference.
  static func find(
    _ secretHash: [UInt8],
    at now: Timestamp,
    in db: SQLiteConnection
  ) throws(StorageError) -> TransferRow? {
    try db.first(
      """
      SELECT transfer_id, code_hash, reference_hash, sub, sid, consent, address, same_network, tries_left, created_at,
        expires_at, redeemed_sid, challenge_hash, previous_sub, sessions_ended
      FROM transfers WHERE (code_hash = ?1 OR reference_hash = ?1) AND expires_at > ?2
      """,
      .blob(secretHash),
      .time(now)
    ) { row throws(StorageError) in
      guard let consent = OldDeviceConsent(rawValue: row.integer(5)) else {
        throw StorageError(.corrupt, operation: "read a transfer", detail: "unknown consent")
      }
      var redeemed: Redeemed?
      if let session = try row.optionalID(11) as SessionID? {
        redeemed = Redeemed(
          session: session,
          challengeHash: row.blob(12),
          previousSubject: try row.optionalID(13),
          sessionsEnded: Int(row.integer(14))
        )
      }
      return TransferRow(
        offer: TransferOffer(
          id: try row.id(0),
          codeHash: row.blob(1),
          referenceHash: row.blob(2),
          consent: consent,
          address: row.text(6),
          needsSameNetwork: row.boolean(7),
          createdAt: row.timestamp(9),
          expiry: row.timestamp(10)
        ),
        subject: try row.id(3),
        session: try row.id(4),
        triesLeft: row.integer(8),
        redeemed: redeemed
      )
    }
  }

  /// The offer with whom it moves; nil when they or the session that offers them are gone.
  func standing(at now: Timestamp, in db: SQLiteConnection) throws(StorageError) -> StoredTransfer? {
    guard let from = try db.sessions.live(session, at: now),
      let found = try db.subjects.find(subject), found.isUsable
    else { return nil }
    return StoredTransfer(offer: offer, subject: subject, isGuest: found.isGuest, from: from)
  }

  func countTry(in db: SQLiteConnection) throws(StorageError) {
    if triesLeft > 1 {
      try db.execute("UPDATE transfers SET tries_left = tries_left - 1 WHERE transfer_id = ?", .id(offer.id))
    } else {
      try db.execute("DELETE FROM transfers WHERE transfer_id = ?", .id(offer.id))
    }
  }

  func redeemed(
    by moved: MovedSubject,
    challengeHash: [UInt8],
    in db: SQLiteConnection
  ) throws(StorageError) {
    try db.execute(
      """
      UPDATE transfers SET redeemed_sid = ?, challenge_hash = ?, previous_sub = ?, sessions_ended = ?
      WHERE transfer_id = ?
      """,
      .id(moved.session.id),
      .blob(challengeHash),
      .optional(moved.previousSubject?.bytes),
      .integer(moved.sessionsEnded),
      .id(offer.id)
    )
  }
}
