import LatchkeyModel
import Storage

/// Somebody offers themselves to another device; an earlier offer of the same session is void.
package struct CreateTransfer: IdentityCommand {
  package static let name = "offer a transfer"

  /// What is presented wrongly, by somebody who has the code, so often that it is not the owner who tries.
  static let tries: Int64 = 5

  package var offer: TransferOffer
  package var caller: SessionID
  /// What the caller's token says. An offer is made on the session's last proof, by whoever gave it.
  package var provenAt: Timestamp?

  package init(_ offer: TransferOffer, by caller: SessionID, provenAt: Timestamp?) {
    self.offer = offer
    self.caller = caller
    self.provenAt = provenAt
  }

  package enum Outcome: Sendable, Equatable {
    case offered
    /// A merge of the guest has not ended.
    case merging
    /// The caller's session is itself unconfirmed.
    case unconfirmed
    /// The caller's token is of before the session's last step-up.
    case tokenOutdated
    /// The caller's session has ended.
    case callerEnded
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Outcome {
    guard let own = try await rows.lockCaller(caller, at: offer.createdAt) else { return .callerEnded }
    guard own.isConfirmed else { return .unconfirmed }
    if own.wasSteppedUp(since: provenAt) { return .tokenOutdated }
    if own.isGuest, try await rows.merges.open(of: own.subject) != nil { return .merging }
    try await rows.transfers.put(
      TransferRecord(offer: offer, subject: own.subject, session: own.id, triesLeft: Self.tries))
    changes.notes.append(
      AuditNote(
        .transferOffered, at: offer.createdAt, subject: own.subject, session: own.id, address: offer.address))
    return .offered
  }
}

/// Voids an offer of a subject's. False when there was none to void.
package struct CancelTransfer: IdentityCommand {
  package static let name = "cancel a transfer"

  package var transfer: TransferID
  package var subject: SubjectID
  package var now: Timestamp

  package init(_ transfer: TransferID, of subject: SubjectID, at now: Timestamp) {
    self.transfer = transfer
    self.subject = subject
    self.now = now
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Bool {
    guard let record = try await rows.transfers.lock(transfer), record.subject == subject, record.redeemed == nil,
      record.offer.expiry > now
    else { return false }
    try await rows.transfers.remove(transfer)
    return true
  }
}

/// Who is offered, and by which device.
package struct StoredTransfer: Sendable, Equatable {
  package var offer: TransferOffer
  package var subject: SubjectID
  package var isGuest: Bool
  package var from: Session

  /// Nil when they or the session that offers them are gone.
  static func find(
    _ record: TransferRecord, at now: Timestamp, in rows: some IdentityTransaction
  ) async throws(StorageError) -> StoredTransfer? {
    guard let from = try await rows.sessions.live(record.session, at: now),
      let subject = try await rows.subjects.find(record.subject), subject.isUsable
    else { return nil }
    return StoredTransfer(offer: record.offer, subject: record.subject, isGuest: subject.isGuest, from: from)
  }
}

/// The offer behind the hash of a code or reference, while it can be redeemed.
package struct FindTransfer: IdentityOperation {
  package static let name = "find a transfer"

  package var secretHash: [UInt8]
  package var now: Timestamp

  package init(_ secretHash: [UInt8], at now: Timestamp) {
    self.secretHash = secretHash
    self.now = now
  }

  package func run(in rows: some IdentityTransaction) async throws(StorageError) -> StoredTransfer? {
    guard let record = try await rows.transfers.find(secretHash), record.offer.expiry > now, record.redeemed == nil
    else { return nil }
    return try await StoredTransfer.find(record, at: now, in: rows)
  }
}
