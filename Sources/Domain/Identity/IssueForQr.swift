import LatchkeyModel
import Storage

/// Begins the session of a device whose code was confirmed. Idempotent for each QR session: a repeated call ends what the
/// earlier one began. Where the QR service says in which turn it asks, a call that comes after one of the same turn or of a
/// later one begins and ends nothing: nobody waits for its answer any more.
package struct IssueForQr: IdentityCommand {
  package static let name = "issue for a code"

  /// What a confirmed code grants.
  package enum Kind: Sendable, Equatable {
    case signIn
    /// The device joins the account: it stays one of its devices and signs in by its key until it is removed. The owner is
    /// told.
    case bind(DeviceRegistration, NoticeID)
    /// The confirming guest or account moves to the device.
    case transfer(DeviceRegistration)
  }

  package var qrSession: String
  package var subject: SubjectID
  /// The session that confirmed; it must be live and the subject's.
  package var confirmedBy: SessionID
  /// When the person had last proved who they are, by the token that they confirmed with.
  package var provenAt: Timestamp
  package var draft: SessionDraft
  package var kind: Kind
  /// Which of the code's turns it is asked for in: each has a higher number than those before it. Nil where nobody says.
  package var turn: Int64?

  package init(
    qrSession: String,
    subject: SubjectID,
    confirmedBy: SessionID,
    provenAt: Timestamp,
    draft: SessionDraft,
    kind: Kind = .signIn,
    turn: Int64? = nil
  ) {
    self.qrSession = qrSession
    self.subject = subject
    self.confirmedBy = confirmedBy
    self.provenAt = provenAt
    self.draft = draft
    self.kind = kind
    self.turn = turn
  }

  package var address: String { draft.address }

  package enum Outcome: Sendable, Equatable {
    case issued(Session, Profile)
    /// No such account, or a guest.
    case noAccount
    /// The confirming session ended, or is not the subject's.
    case confirmerGone
    case revoked
    /// The guest's data is on its way into an account.
    case merging
    /// The device's key opens another account, by its owner's own enrolment.
    case keyTaken
    /// The account has as many devices that open it as one may have.
    case tooManyUnlocks
    /// It was asked for in this turn or a later one before.
    case overtaken
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Outcome {
    let earlier = try await rows.grants.lock(qrSession)
    if earlier?.isRevoked == true { return .revoked }
    if let turn, let last = earlier?.turn, turn <= last { return .overtaken }
    let outcome =
      if case .transfer(let device) = kind {
        try await move(to: device, again: earlier?.session, in: rows, noting: &changes)
      } else {
        try await begin(inPlaceOf: earlier?.session, in: rows, noting: &changes)
      }
    if case .issued(let session, _) = outcome {
      try await rows.grants.put(qrSession, session: session.id, turn: turn, at: draft.now)
    } else if turn != nil {
      // Refused as well, it is the last turn: what an earlier one asked for comes too late.
      try await rows.grants.put(qrSession, session: nil, turn: turn, at: draft.now)
    }
    return outcome
  }

  /// Begins a session beside the confirmer's, on a device that may be bound.
  private func begin(
    inPlaceOf earlier: SessionID?, in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Outcome {
    let now = draft.now
    if case .bind(let device, _) = kind, let other = try await rows.unlocks.find(.key, device.keyThumbprint)?.account {
      // Whose the device was ends there.
      try await rows.lock(accounts: [other, subject])
    }
    guard let found = try await rows.subjects.lock(subject), found.isAccount, found.isUsable else {
      return .noAccount
    }
    guard let confirmer = try await rows.sessions.lockLive(confirmedBy, at: now), confirmer.subject == subject,
      !confirmer.isGuest, confirmer.authority.isOwners,
      try await !rows.lineage.isTooDeep(.session(confirmer.id))
    else { return .confirmerGone }
    if case .bind(let device, _) = kind, let refusal = try await refusal(of: device, in: rows) { return refusal }
    if let earlier { try await changes.end(earlier, because: .replaced, at: now, in: rows) }
    let session = draft.session(
      of: subject, isGuest: false, deviceKeyThumbprint: draft.boundKeyThumbprint,
      by: draft.handedOn(by: confirmer, provenAt: provenAt))
    try await changes.begin(session, in: rows)
    try await rows.lineage.note(.session(session.id), cameOf: [.code(qrSession), .session(confirmer.id)])
    if case .bind(let device, let notice) = kind {
      try await bind(device, to: session, confirmedBy: confirmer, in: rows, noting: &changes)
      // A repeated call binds nothing that the first did not.
      if earlier == nil { try await rows.tell(.unlockEnrolled, notice, to: subject, at: now, noting: &changes) }
    }
    return .issued(session, found.profile)
  }

  /// Moves whoever confirmed. A repeated call moves them again, from the device that the first one brought them to.
  ///
  /// A guest has one device, so the old one gives its place. An account stays signed in on the old one as well: its
  /// owner can end from there what they were talked into.
  private func move(
    to device: DeviceRegistration, again earlier: SessionID?, in rows: some IdentityTransaction,
    noting changes: inout SessionChanges
  ) async throws(StorageError) -> Outcome {
    let now = draft.now
    _ = try await rows.subjects.lock(subject)
    guard let from = try await rows.sessions.lockLive(earlier ?? confirmedBy, at: now), from.subject == subject,
      earlier != nil || (from.isGuest ? from.isConfirmed : from.authority.isOwners),
      try await !rows.lineage.isTooDeep(.session(from.id))
    else { return .confirmerGone }
    if from.isGuest, try await rows.merges.open(of: from.subject) != nil { return .merging }
    try await rows.devices.putNew(device, at: now)
    let moved = try await SubjectMove(
      from: from, toDevice: device.keyThumbprint, keepsOld: !from.isGuest || earlier != nil, draft: draft,
      by: .code(qrSession), provenAt: provenAt, agreedAt: now
    ).run(in: rows, noting: &changes)
    guard let moved else { return .noAccount }
    return .issued(moved.session, moved.profile)
  }

  /// Why a device is not bound, decided before anything changes.
  private func refusal(
    of device: DeviceRegistration, in rows: some IdentityTransaction
  ) async throws(StorageError) -> Outcome? {
    let earlier = try await rows.unlocks.lock(.key, device.keyThumbprint)?.unlock
    if earlier?.account == subject { return nil }
    if let earlier, earlier.binding == nil { return .keyTaken }
    return try await rows.unlocks.isFull(subject) ? .tooManyUnlocks : nil
  }

  /// The device is on record as the account's, and its key opens the account. Of another account it was bound to, it is
  /// a device no longer: a device belongs to whoever bound it last.
  private func bind(
    _ device: DeviceRegistration, to session: Session, confirmedBy confirmer: Session,
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) {
    let (key, now) = (device.keyThumbprint, session.beganAt)
    if let earlier = try await rows.unlocks.find(.key, key), earlier.account != session.subject {
      try await changes.removeUnlocks(of: earlier.account, onDevice: key, at: now, in: rows)
      changes.ended += try await rows.sessions.end(
        of: earlier.account, onDevice: key, because: .switchedAway, at: now)
    }
    var confirmedBy = confirmer.device
    if let key = confirmedBy.keyThumbprint, let label = try await rows.devices.label(of: key) {
      confirmedBy.label = label
    }
    let binding = DeviceBinding(
      boundAt: now, qrSession: qrSession, confirmedBy: confirmedBy, scope: session.scope,
      provenAt: session.authenticatedAt, expiry: confirmer.family.absoluteExpiry)
    try await rows.unlocks.put(
      Unlock(
        kind: .key, keyThumbprint: key, account: session.subject, deviceKey: key, secretHash: nil, enrolledAt: now,
        binding: binding),
      triesLeft: PatternTries.most)
    let unlock = LineageMember.unlock(.key, key: key)
    try await rows.lineage.remove(ancestorsOf: unlock)
    try await rows.lineage.note(unlock, cameOf: [.code(qrSession), .session(confirmer.id)])
    changes.notes.append(
      AuditNote(
        .credentialEnrolled, at: now, subject: session.subject, session: session.id, detail: "device bound by a code"))
    try await rows.devices.putNew(device, at: now)
    let mask = try await rows.identities.mask(of: session.subject)
    let hint = LastLoginHint(method: .qr, accountMask: mask, at: now)
    try await rows.devices.change(key, lastAccount: session.subject, hint)
  }
}

extension DeviceRows {
  /// What a device said of itself when it started as a guest is not replaced by what it said to a person.
  fileprivate func putNew(_ device: DeviceRegistration, at now: Timestamp) async throws(StorageError) {
    if try await lock(device.keyThumbprint) == nil { try await put(device, counter: nil, newGuest: nil, at: now) }
  }
}

/// Whether the session that confirmed a code still speaks for its account, for a grant that begins none.
package struct FindConfirmer: IdentityOperation {
  package static let name = "find who confirmed a code"

  package var session: SessionID
  package var subject: SubjectID
  package var qrSession: String
  package var now: Timestamp

  package init(_ session: SessionID, of subject: SubjectID, for qrSession: String, at now: Timestamp) {
    self.session = session
    self.subject = subject
    self.qrSession = qrSession
    self.now = now
  }

  package enum Outcome: Sendable, Equatable {
    case live(Session)
    /// It ended, is another's, or is a guest's.
    case gone
    /// What the code granted was revoked.
    case revoked
  }

  package func run(in rows: some IdentityTransaction) async throws(StorageError) -> Outcome {
    if try await rows.grants.find(qrSession)?.isRevoked == true { return .revoked }
    guard let confirmer = try await rows.sessions.live(session, at: now), confirmer.subject == subject,
      !confirmer.isGuest
    else { return .gone }
    return .live(confirmer)
  }
}
