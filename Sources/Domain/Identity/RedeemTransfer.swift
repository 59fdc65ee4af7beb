import LatchkeyModel
import Storage

/// Whether there is an offer behind the hash of a code or reference, redeemed or not: a look that spares a change where
/// there is none.
package struct IsTransferKnown: IdentityOperation {
  package static let name = "look for a transfer"

  package var secretHash: [UInt8]

  package init(_ secretHash: [UInt8]) {
    self.secretHash = secretHash
  }

  package func run(in rows: some IdentityTransaction) async throws(StorageError) -> Bool {
    try await rows.transfers.find(secretHash) != nil
  }
}

/// A device that proved its key presents a code, and gets a session of whoever offered themselves. The same device with the
/// same challenge is answered the same while the offer would hold.
package struct RedeemTransfer: IdentityCommand {
  package static let name = "redeem a transfer"

  /// SHA-256 of the code or the reference.
  package var secretHash: [UInt8]
  package var device: DeviceRegistration
  package var challenge: UsedChallenge
  package var keepsOld: Bool
  /// Whether two addresses are of one network.
  package var isSameNetwork: @Sendable (String, String) -> Bool
  package var draft: SessionDraft

  package init(
    secretHash: [UInt8],
    device: DeviceRegistration,
    challenge: UsedChallenge,
    keepsOld: Bool,
    isSameNetwork: @escaping @Sendable (String, String) -> Bool,
    draft: SessionDraft
  ) {
    self.secretHash = secretHash
    self.device = device
    self.challenge = challenge
    self.keepsOld = keepsOld
    self.isSameNetwork = isSameNetwork
    self.draft = draft
  }

  package var address: String { draft.address }

  package enum Outcome: Sendable, Equatable {
    case moved(MovedSubject)
    /// Unknown, expired, redeemed, cancelled, or its maker's session has ended: all the same to who asks.
    case unknown
    case challengeUsed
    /// Its maker agreed to something else. Costs a try.
    case notAgreed
    /// Its maker allowed only devices of the own network. Costs a try.
    case otherNetwork
    /// The device that made it.
    case sameDevice
    /// The guest's data is on its way into an account.
    case merging
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Outcome {
    let now = draft.now
    guard let seen = try await rows.transfers.find(secretHash) else { return .unknown }
    _ = try await rows.lockOwned(seen.session)
    guard let record = try await rows.transfers.lock(secretHash), record.offer.expiry > now else { return .unknown }
    if let redeemed = record.redeemed { return try await answerAgain(redeemed, in: rows) }
    guard let standing = try await StoredTransfer.find(record, at: now, in: rows) else { return .unknown }
    let offer = standing.offer
    if standing.from.device.keyThumbprint == device.keyThumbprint { return .sameDevice }
    guard offer.consent.allows(keepingOld: keepsOld) else {
      try await countTry(record, in: rows)
      return .notAgreed
    }
    guard !offer.needsSameNetwork || isSameNetwork(offer.address, draft.address) else {
      try await countTry(record, in: rows)
      return .otherNetwork
    }
    if try await rows.lineage.isTooDeep(.session(standing.from.id)) { return .unknown }
    if standing.isGuest, try await rows.merges.open(of: standing.subject) != nil { return .merging }
    guard try await rows.challenges.insert(challenge) else { return .challengeUsed }
    try await rows.devices.put(device, counter: nil, newGuest: nil, at: now)
    // A step-up takes the offers of before with it.
    let moved = try await SubjectMove(
      from: standing.from, toDevice: device.keyThumbprint, keepsOld: keepsOld, draft: draft,
      by: .transfer(offer.id), provenAt: standing.from.authenticatedAt, agreedAt: offer.createdAt
    ).run(in: rows, noting: &changes)
    guard let moved else { return .unknown }
    try await rows.transfers.change(
      offer.id,
      redeemed: TransferRecord.Redeemed(
        session: moved.session.id, challengeHash: challenge.hash, previousSubject: moved.previousSubject,
        sessionsEnded: moved.sessionsEnded))
    return .moved(moved)
  }

  private func answerAgain(
    _ redeemed: TransferRecord.Redeemed, in rows: some IdentityTransaction
  ) async throws(StorageError) -> Outcome {
    guard redeemed.challengeHash == challenge.hash,
      let session = try await rows.sessions.live(redeemed.session, at: draft.now),
      session.device.keyThumbprint == device.keyThumbprint,
      let subject = try await rows.subjects.find(session.subject)
    else { return .unknown }
    return .moved(
      MovedSubject(
        session: session, profile: subject.profile, previousSubject: redeemed.previousSubject,
        sessionsEnded: redeemed.sessionsEnded))
  }

  private func countTry(_ record: TransferRecord, in rows: some IdentityTransaction) async throws(StorageError) {
    if record.triesLeft > 1 {
      try await rows.transfers.change(record.offer.id, triesLeft: record.triesLeft - 1)
    } else {
      try await rows.transfers.remove(record.offer.id)
    }
  }
}
