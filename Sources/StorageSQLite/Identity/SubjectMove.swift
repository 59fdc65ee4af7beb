import LatchkeyModel
import Storage

/// A guest or account gets a session on a new device, in the name of a session on another one.
struct SubjectMove {
  let from: Session
  let toDevice: String
  let keepsOld: Bool
  let draft: SessionDraft
  /// The code or the transfer by which it moves, and when its owner agreed.
  let by: LineageRow.Member
  let agreedAt: Timestamp

  /// The new device is on record. Nil when there is nobody to move.
  func run(
    in db: SQLiteConnection,
    noting changes: inout SessionChanges
  ) throws(StorageError) -> MovedSubject? {
    guard let subject = try SubjectRow.find(from.subject, in: db), subject.isUsable else { return nil }
    let now = draft.now
    let known = try DeviceRow.find(toDevice, in: db)
    var previous = known?.lastAccount
    if subject.isGuest {
      if let guest = known?.guest, guest != subject.id {
        // The device's own guest gives its place. Its data stays on record until the retention ends.
        previous = guest
        try SessionRow.endAll(
          of: guest,
          onDevice: toDevice,
          because: .switchedAway,
          at: now,
          in: db,
          noting: &changes
        )
      }
      try DeviceRow.setGuest(subject.id, of: toDevice, in: db)
    } else {
      previous = known?.guest ?? previous
    }
    try SessionRow.endAll(of: subject.id, onDevice: toDevice, because: .replaced, at: now, in: db, noting: &changes)
    let before = changes.ended.count
    if !keepsOld {
      if let old = from.device.keyThumbprint {
        try SessionRow.endAll(of: subject.id, onDevice: old, because: .transferred, at: now, in: db, noting: &changes)
        if subject.isGuest { try DeviceRow.releaseGuest(subject.id, from: old, in: db) }
      }
      try SessionRow.end(from.id, because: .transferred, at: now, in: db, noting: &changes)
    }
    let ended = changes.ended.count - before
    // Where the old device gave its place there is nobody left to confirm the new one.
    let session = draft.session(
      of: subject.id, isGuest: subject.isGuest, deviceKeyThumbprint: toDevice,
      by: draft.handedOn(by: from, agreedAt: agreedAt, takesPlace: !keepsOld))
    try SessionRow.insert(session, into: db, noting: &changes)
    try LineageRow.note(.session(session.id), cameOf: [by, .session(from.id)], in: db)
    try SubjectRow.touch(subject.id, at: now, in: db)
    if subject.isAccount {
      let mask = try IdentityRow.all(of: subject.id, in: db).first?.mask ?? ""
      try DeviceRow.noteLogin(
        LastLoginHint(method: session.method, accountMask: mask, at: now),
        account: subject.id,
        of: toDevice,
        in: db
      )
    }
    changes.notes.append(
      AuditNote(
        .subjectMoved,
        at: now,
        subject: subject.id,
        session: session.id,
        address: draft.address,
        detail: keepsOld ? "old device kept" : "old device revoked"
      )
    )
    return MovedSubject(
      session: session,
      profile: subject.profile,
      previousSubject: previous == subject.id ? nil : previous,
      sessionsEnded: ended
    )
  }
}
