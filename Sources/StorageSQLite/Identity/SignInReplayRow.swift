import LatchkeyModel
import Storage

/// Statements and mapping of the table `sign_in_replays`: what a sign-in was answered, for the same one asked again.
enum SignInReplayRow {
  static func find(_ key: [UInt8], at now: Timestamp, in db: SQLiteConnection) throws(StorageError) -> SignedIn? {
    let row = try db.first(
      "SELECT sid, previous_sub, wipe, merge_id, promoted FROM sign_in_replays WHERE key_hash = ? AND expires_at > ?",
      .blob(key), .time(now)
    ) {
      row throws(StorageError) -> (
        session: SessionID, previous: SubjectID?, wipe: Bool, merge: MergeID?, promoted: Bool
      ) in
      (try row.id(0), try row.optionalID(1), row.boolean(2), try row.optionalID(3), row.boolean(4))
    }
    // A session that ended meanwhile is not brought back.
    guard let row, let session = try SessionRow.live(row.session, at: now, in: db),
      let subject = try SubjectRow.find(session.subject, in: db)
    else { return nil }
    var merge: PendingMerge?
    if let id = row.merge { merge = try MergeRow.find(id, in: db) }
    return SignedIn(
      session: session, profile: subject.profile, previousSubject: row.previous, isPromoted: row.promoted,
      isWipeRequired: row.wipe, merge: merge)
  }

  static func keep(
    _ signedIn: SignedIn, under key: [UInt8], until expiry: Timestamp, at now: Timestamp, in db: SQLiteConnection
  ) throws(StorageError) {
    try db.execute(
      """
      INSERT OR REPLACE INTO sign_in_replays (key_hash, sid, previous_sub, wipe, merge_id, expires_at, promoted)
      VALUES (?, ?, ?, ?, ?, ?, ?)
      """,
      .blob(key), .id(signedIn.session.id), .optional(signedIn.previousSubject?.bytes),
      .boolean(signedIn.isWipeRequired), .optional(signedIn.merge?.id.bytes), .time(expiry),
      .boolean(signedIn.isPromoted)
    )
    // More go than come, so that no other work is needed to forget them.
    try db.execute(
      """
      DELETE FROM sign_in_replays WHERE key_hash IN
        (SELECT key_hash FROM sign_in_replays WHERE expires_at <= ? ORDER BY expires_at LIMIT 4)
      """,
      .time(now))
  }
}
