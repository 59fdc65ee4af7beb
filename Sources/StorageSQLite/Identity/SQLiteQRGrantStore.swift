import LatchkeyModel
import Storage

/// Grants to QR sessions in SQLite.
package struct SQLiteQRGrantStore: QRGrantStore {
  private let database: IdentityDatabase

  package init(_ database: IdentityDatabase) {
    self.database = database
  }

  package func issue(_ grant: QRGrant) async throws(StorageError) -> QRGrantOutcome {
    try await database.write { db, changes throws(StorageError) in
      let now = grant.draft.now
      changes.address = grant.draft.address
      let earlier = try SQLiteGrants(db: db).lock(grant.qrSession)
      if earlier?.isRevoked == true { return .revoked }
      let begun: (session: Session, profile: Profile)
      switch grant.kind {
      case .transfer(let device):
        switch try Self.move(grant, to: device, again: earlier?.session, in: db, noting: &changes) {
        case .issued(let session, let profile): begun = (session, profile)
        case let outcome: return outcome
        }
      case .signIn, .bind:
        guard let subject = try db.subjects.find(grant.subject), subject.isAccount, subject.isUsable else {
          return .noAccount
        }
        guard let confirmer = try db.sessions.live(grant.confirmedBy, at: now),
          confirmer.subject == grant.subject, !confirmer.isGuest, confirmer.authority.isOwners,
          try !db.lineage.isTooDeep(.session(confirmer.id))
        else { return .confirmerGone }
        if case .bind(let device) = grant.kind, let refusal = try Self.refusal(of: device, to: grant.subject, in: db) {
          return refusal
        }
        if let earlier = earlier?.session {
          try changes.end(earlier, because: .replaced, at: now, in: db)
        }
        let session = grant.draft.session(
          of: grant.subject, isGuest: false, deviceKeyThumbprint: grant.draft.boundKeyThumbprint,
          by: grant.draft.handedOn(by: confirmer))
        try changes.begin(session, in: db)
        try db.lineage.note(
          .session(session.id), cameOf: [.code(grant.qrSession), .session(confirmer.id)])
        if case .bind(let device) = grant.kind {
          try Self.bind(device, to: session, for: grant.qrSession, confirmedBy: confirmer, in: db, noting: &changes)
        }
        begun = (session, subject.profile)
      }
      try SQLiteGrants(db: db).put(grant.qrSession, session: begun.session.id, at: now)
      return .issued(begun.session, begun.profile)
    }
  }

  /// Moves whoever confirmed. A repeated call moves them again, from the device that the first one brought them to.
  ///
  /// A guest has one device, so the old one gives its place. An account stays signed in on the old one as well: its
  /// owner can end from there what they were talked into.
  private static func move(
    _ grant: QRGrant,
    to device: DeviceRegistration,
    again earlier: SessionID?,
    in db: SQLiteConnection,
    noting changes: inout SessionChanges
  ) throws(StorageError) -> QRGrantOutcome {
    let now = grant.draft.now
    guard let from = try db.sessions.live(earlier ?? grant.confirmedBy, at: now),
      from.subject == grant.subject, earlier != nil || (from.isGuest ? from.isConfirmed : from.authority.isOwners),
      try !db.lineage.isTooDeep(.session(from.id))
    else { return .confirmerGone }
    if from.isGuest, try db.merges.open(of: from.subject) != nil { return .merging }
    if try db.devices.find(device.keyThumbprint) == nil {
      try db.devices.put(device, at: now)
    }
    let moved = try SubjectMove(
      from: from,
      toDevice: device.keyThumbprint,
      keepsOld: !from.isGuest || earlier != nil,
      draft: grant.draft,
      by: .code(grant.qrSession),
      agreedAt: now
    ).run(in: db, noting: &changes)
    guard let moved else { return .noAccount }
    return .issued(moved.session, moved.profile)
  }

  /// Why a device is not bound, decided before anything changes.
  private static func refusal(
    of device: DeviceRegistration, to account: SubjectID, in db: SQLiteConnection
  ) throws(StorageError) -> QRGrantOutcome? {
    let earlier = try db.unlocks.find(.key, device.keyThumbprint)
    if earlier?.account == account { return nil }
    if let earlier, earlier.binding == nil { return .keyTaken }
    return try db.unlocks.all(of: account).count >= SQLiteUnlocks.mostPerAccount ? .tooManyUnlocks : nil
  }

  /// The device is on record as the account's, and its key opens the account. Of another account it was bound to, it is
  /// a device no longer: a device belongs to whoever bound it last.
  private static func bind(
    _ device: DeviceRegistration,
    to session: Session,
    for qrSession: String,
    confirmedBy confirmer: Session,
    in db: SQLiteConnection,
    noting changes: inout SessionChanges
  ) throws(StorageError) {
    let now = session.beganAt
    if let earlier = try db.unlocks.find(.key, device.keyThumbprint), earlier.account != session.subject {
      try changes.removeUnlocks(of: earlier.account, onDevice: device.keyThumbprint, at: now, in: db)
      changes.ended += try db.sessions.end(
        of: earlier.account, onDevice: device.keyThumbprint, because: .switchedAway, at: now)
    }
    var confirmedBy = confirmer.device
    if let key = confirmedBy.keyThumbprint, let label = try db.devices.label(of: key) {
      confirmedBy.label = label
    }
    let binding = DeviceBinding(
      boundAt: now, qrSession: qrSession, confirmedBy: confirmedBy, scope: session.scope,
      provenAt: session.authenticatedAt, expiry: confirmer.family.absoluteExpiry)
    try db.unlocks.put(
      Unlock(
        kind: .key, keyThumbprint: device.keyThumbprint, account: session.subject, deviceKey: device.keyThumbprint,
        secretHash: nil, enrolledAt: now, binding: binding))
    let unlock = LineageMember.unlock(.key, key: device.keyThumbprint)
    try db.lineage.remove(ancestorsOf: unlock)
    try db.lineage.note(unlock, cameOf: [.code(qrSession), .session(confirmer.id)])
    changes.notes.append(
      AuditNote(
        .credentialEnrolled, at: now, subject: session.subject, session: session.id, detail: "device bound by a code"))
    // What a device said of itself when it started as a guest is not replaced by what it said to the person.
    if try db.devices.find(device.keyThumbprint) == nil {
      try db.devices.put(device, at: now)
    }
    let mask = try db.identities.all(of: session.subject).first?.mask ?? ""
    let hint = LastLoginHint(method: .qr, accountMask: mask, at: now)
    try db.devices.change(device.keyThumbprint, lastAccount: session.subject, hint)
  }

  package func confirmer(
    _ session: SessionID, of subject: SubjectID, for qrSession: String, at now: Timestamp
  ) async throws(StorageError) -> QRConfirmerOutcome {
    try await database.read { db throws(StorageError) in
      if try SQLiteGrants(db: db).lock(qrSession)?.isRevoked == true { return .revoked }
      guard let confirmer = try db.sessions.live(session, at: now), confirmer.subject == subject,
        !confirmer.isGuest
      else { return .gone }
      return .live(confirmer)
    }
  }
}
