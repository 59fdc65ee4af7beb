import LatchkeyModel
import Storage

/// Transfers in SQLite.
package struct SQLiteTransferStore: TransferStore {
  /// What is presented wrongly, by somebody who has the code, so often that it is not the owner who tries.
  private static let tries: Int64 = 5

  private let database: IdentityDatabase

  package init(_ database: IdentityDatabase) {
    self.database = database
  }

  package func create(_ offer: TransferOffer, by caller: SessionID) async throws(StorageError) -> OwnSessionOutcome {
    try await database.write { db, changes throws(StorageError) in
      guard let own = try db.sessions.live(caller, at: offer.createdAt) else { return .callerEnded }
      guard own.isConfirmed else { return .unconfirmed }
      if own.isGuest, try db.merges.open(of: own.subject) != nil { return .already }
      try db.execute("DELETE FROM transfers WHERE sid = ?", .id(own.id))
      try db.execute(
        """
        INSERT INTO transfers (transfer_id, code_hash, reference_hash, sub, sid, consent, address, same_network,
          tries_left, created_at, expires_at)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        .id(offer.id),
        .blob(offer.codeHash),
        .blob(offer.referenceHash),
        .id(own.subject),
        .id(own.id),
        .integer(offer.consent.rawValue),
        .text(offer.address),
        .boolean(offer.needsSameNetwork),
        .integer(Self.tries),
        .time(offer.createdAt),
        .time(offer.expiry)
      )
      changes.notes.append(
        AuditNote(
          .transferOffered,
          at: offer.createdAt,
          subject: own.subject,
          session: own.id,
          address: offer.address
        )
      )
      return .changed
    }
  }

  package func offer(_ secretHash: [UInt8], at now: Timestamp) async throws(StorageError) -> StoredTransfer? {
    try await database.read { db throws(StorageError) in
      guard let row = try TransferRow.find(secretHash, at: now, in: db), row.redeemed == nil else { return nil }
      return try row.standing(at: now, in: db)
    }
  }

  package func redeem(_ redemption: TransferRedemption) async throws(StorageError) -> TransferOutcome {
    try await database.write { db, changes throws(StorageError) in
      let now = redemption.draft.now
      changes.address = redemption.draft.address
      guard let row = try TransferRow.find(redemption.secretHash, at: now, in: db) else { return .unknown }
      if let redeemed = row.redeemed {
        guard redeemed.challengeHash == redemption.challengeHash,
          let session = try db.sessions.live(redeemed.session, at: now),
          session.device.keyThumbprint == redemption.device.keyThumbprint,
          let subject = try db.subjects.find(session.subject)
        else { return .unknown }
        return .moved(
          MovedSubject(
            session: session,
            profile: subject.profile,
            previousSubject: redeemed.previousSubject,
            sessionsEnded: redeemed.sessionsEnded
          )
        )
      }
      guard let standing = try row.standing(at: now, in: db) else { return .unknown }
      if standing.from.device.keyThumbprint == redemption.device.keyThumbprint { return .sameDevice }
      guard standing.offer.consent.allows(keepingOld: redemption.keepsOld) else {
        try row.countTry(in: db)
        return .notAgreed
      }
      guard
        !standing.offer.needsSameNetwork
          || redemption.isSameNetwork(standing.offer.address, redemption.draft.address)
      else {
        try row.countTry(in: db)
        return .otherNetwork
      }
      if try db.lineage.isTooDeep(.session(standing.from.id)) { return .unknown }
      if standing.isGuest, try db.merges.open(of: standing.subject) != nil { return .merging }
      guard try db.challenges.insert(UsedChallenge(hash: redemption.challengeHash, expiry: redemption.challengeExpiry))
      else {
        return .challengeUsed
      }
      try db.devices.put(redemption.device, at: now)
      let moved = try SubjectMove(
        from: standing.from,
        toDevice: redemption.device.keyThumbprint,
        keepsOld: redemption.keepsOld,
        draft: redemption.draft,
        by: .transfer(standing.offer.id),
        agreedAt: standing.offer.createdAt
      ).run(in: db, noting: &changes)
      guard let moved else { return .unknown }
      try row.redeemed(by: moved, challengeHash: redemption.challengeHash, in: db)
      return .moved(moved)
    }
  }

  package func cancel(
    _ id: TransferID,
    of subject: SubjectID,
    at now: Timestamp
  ) async throws(StorageError) -> Bool {
    try await database.write { db, _ throws(StorageError) in
      try db.execute(
        "DELETE FROM transfers WHERE transfer_id = ? AND sub = ? AND redeemed_sid IS NULL AND expires_at > ?",
        .id(id),
        .id(subject),
        .time(now)
      ) == 1
    }
  }
}
