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
      let earlier = try Self.find(grant.qrSession, in: db)
      if earlier?.isRevoked == true { return .revoked }
      let begun: (session: Session, profile: Profile)
      switch grant.kind {
      case .transfer(let device):
        switch try Self.move(grant, to: device, again: earlier?.session, in: db, noting: &changes) {
        case .issued(let session, let profile): begun = (session, profile)
        case let outcome: return outcome
        }
      case .signIn, .bind:
        guard let subject = try SubjectRow.find(grant.subject, in: db), subject.isAccount, subject.isUsable else {
          return .noAccount
        }
        guard let confirmer = try SessionRow.live(grant.confirmedBy, at: now, in: db),
          confirmer.subject == grant.subject, !confirmer.isGuest, confirmer.authority.isOwners,
          try !LineageRow.isTooDeep(.session(confirmer.id), in: db)
        else { return .confirmerGone }
        if case .bind(let device) = grant.kind, let refusal = try Self.refusal(of: device, to: grant.subject, in: db) {
          return refusal
        }
        if let earlier = earlier?.session {
          try SessionRow.end(earlier, because: .replaced, at: now, in: db, noting: &changes)
        }
        let session = grant.draft.session(
          of: grant.subject, isGuest: false, deviceKeyThumbprint: grant.draft.boundKeyThumbprint,
          by: grant.draft.handedOn(by: confirmer))
        try SessionRow.insert(session, into: db, noting: &changes)
        try LineageRow.note(
          .session(session.id), cameOf: [.code(grant.qrSession), .session(confirmer.id)], in: db)
        if case .bind(let device) = grant.kind {
          try Self.bind(device, to: session, for: grant.qrSession, confirmedBy: confirmer, in: db, noting: &changes)
        }
        begun = (session, subject.profile)
      }
      try db.execute(
        """
        INSERT INTO qr_grants (qr_session_id, sid, created_at) VALUES (?, ?, ?)
        ON CONFLICT (qr_session_id) DO UPDATE SET sid = excluded.sid
        """,
        .text(grant.qrSession), .id(begun.session.id), .time(now)
      )
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
    guard let from = try SessionRow.live(earlier ?? grant.confirmedBy, at: now, in: db),
      from.subject == grant.subject, earlier != nil || (from.isGuest ? from.isConfirmed : from.authority.isOwners),
      try !LineageRow.isTooDeep(.session(from.id), in: db)
    else { return .confirmerGone }
    if from.isGuest, try MergeRow.openMerge(of: from.subject, in: db) != nil { return .merging }
    if try DeviceRow.find(device.keyThumbprint, in: db) == nil {
      try DeviceRow.register(device, at: now, in: db)
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
    let earlier = try UnlockRow.find(.key, device.keyThumbprint, in: db)
    if earlier?.account == account { return nil }
    if let earlier, earlier.binding == nil { return .keyTaken }
    return try UnlockRow.all(of: account, in: db).count >= UnlockRow.mostPerAccount ? .tooManyUnlocks : nil
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
    if let earlier = try UnlockRow.find(.key, device.keyThumbprint, in: db), earlier.account != session.subject {
      try UnlockRow.removeAll(
        of: earlier.account, onDevice: device.keyThumbprint, at: now, in: db, noting: &changes)
      try SessionRow.endAll(
        of: earlier.account, onDevice: device.keyThumbprint, because: .switchedAway, at: now, in: db,
        noting: &changes)
    }
    var confirmedBy = confirmer.device
    if let key = confirmedBy.keyThumbprint, let label = try DeviceRow.label(of: key, in: db) {
      confirmedBy.label = label
    }
    let binding = DeviceBinding(
      boundAt: now, qrSession: qrSession, confirmedBy: confirmedBy, scope: session.scope,
      provenAt: session.authenticatedAt, expiry: confirmer.family.absoluteExpiry)
    try UnlockRow.put(
      Unlock(
        kind: .key, keyThumbprint: device.keyThumbprint, account: session.subject, deviceKey: device.keyThumbprint,
        secretHash: nil, enrolledAt: now, binding: binding),
      in: db)
    let unlock = LineageRow.Member.unlock(.key, key: device.keyThumbprint)
    try LineageRow.forget(unlock, in: db)
    try LineageRow.note(unlock, cameOf: [.code(qrSession), .session(confirmer.id)], in: db)
    changes.notes.append(
      AuditNote(
        .credentialEnrolled, at: now, subject: session.subject, session: session.id, detail: "device bound by a code"))
    // What a device said of itself when it started as a guest is not replaced by what it said to the person.
    if try DeviceRow.find(device.keyThumbprint, in: db) == nil {
      try DeviceRow.register(device, at: now, in: db)
    }
    let mask = try IdentityRow.all(of: session.subject, in: db).first?.mask ?? ""
    let hint = LastLoginHint(method: .qr, accountMask: mask, at: now)
    try DeviceRow.noteLogin(hint, account: session.subject, of: device.keyThumbprint, in: db)
  }

  package func confirmer(
    _ session: SessionID, of subject: SubjectID, for qrSession: String, at now: Timestamp
  ) async throws(StorageError) -> QRConfirmerOutcome {
    try await database.read { db throws(StorageError) in
      if try Self.find(qrSession, in: db)?.isRevoked == true { return .revoked }
      guard let confirmer = try SessionRow.live(session, at: now, in: db), confirmer.subject == subject,
        !confirmer.isGuest
      else { return .gone }
      return .live(confirmer)
    }
  }

  package func revoke(qrSession: String, at now: Timestamp) async throws(StorageError) -> Int {
    try await database.write { db, changes throws(StorageError) in
      let earlier = try Self.find(qrSession, in: db)
      if let bound = try UnlockRow.bound(by: qrSession, in: db) {
        // With all that its key has begun since.
        try UnlockRow.removeAll(of: bound.account, onDevice: bound.deviceKey, at: now, in: db, noting: &changes)
        try SessionRow.endAll(
          of: bound.account, onDevice: bound.deviceKey, because: .qrRevoked, at: now, in: db, noting: &changes)
      }
      try db.execute(
        """
        INSERT INTO qr_grants (qr_session_id, created_at, revoked_at) VALUES (?, ?, ?)
        ON CONFLICT (qr_session_id) DO UPDATE SET revoked_at = coalesce(revoked_at, excluded.revoked_at)
        """,
        .text(qrSession), .time(now), .time(now)
      )
      guard let id = earlier?.session else { return changes.ended.count }
      try SessionRow.end(id, because: .qrRevoked, at: now, in: db, noting: &changes)
      if let session = try SessionRow.find(id, in: db) {
        try LineageRow.endDescendants(
          of: .code(qrSession), of: session.subject, because: .qrRevoked, at: now, in: db, noting: &changes)
        if session.isGuest { try Self.giveBack(session, of: qrSession, in: db) }
      }
      return changes.ended.count
    }
  }

  /// The device that a guest left when a code was first granted: its session ended at that moment, by which it is found.
  static let selectLeftDevice = """
    SELECT device_key FROM sessions
    WHERE ended_at = (SELECT created_at FROM qr_grants WHERE qr_session_id = ?)
      AND sub = ? AND end_reason = ? AND device_key IS NOT NULL LIMIT 1
    """

  /// A guest that moved by a code that was revoked belongs to its old device again, which finds it by its key.
  private static func giveBack(
    _ moved: Session, of qrSession: String, in db: SQLiteConnection
  ) throws(StorageError) {
    guard let key = moved.device.keyThumbprint else { return }
    let old = try db.first(
      selectLeftDevice, .text(qrSession), .id(moved.subject), .integer(Session.End.transferred.rawValue)
    ) { $0.text(0) }
    guard let old, old != key, let device = try DeviceRow.find(old, in: db), device.guest == nil else { return }
    try DeviceRow.releaseGuest(moved.subject, from: key, in: db)
    try DeviceRow.setGuest(moved.subject, of: old, in: db)
  }

  private static func find(
    _ qrSession: String, in db: SQLiteConnection
  ) throws(StorageError) -> (session: SessionID?, isRevoked: Bool)? {
    try db.first(
      "SELECT sid, revoked_at FROM qr_grants WHERE qr_session_id = ?", .text(qrSession)
    ) { row throws(StorageError) in
      (session: try row.optionalID(0), isRevoked: !row.isNull(1))
    }
  }
}
