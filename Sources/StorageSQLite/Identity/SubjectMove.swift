import LatchkeyModel
import Storage

/// A guest or account gets a session on a new device, in the name of a session on another one.
struct SubjectMove {
  let from: Session
  let toDevice: String
  let keepsOld: Bool
  let draft: SessionDraft
  /// The code or the transfer by which it moves, and when its owner agreed.
  let by: LineageMember
  let agreedAt: Timestamp

  /// The new device is on record. Nil when there is nobody to move.
  func run(
    in db: SQLiteConnection,
    noting changes: inout SessionChanges
  ) throws(StorageError) -> MovedSubject? {
    guard let subject = try db.subjects.find(from.subject), subject.isUsable else { return nil }
    let now = draft.now
    let known = try db.devices.find(toDevice)
    var previous = known?.lastAccount
    if subject.isGuest {
      if let guest = known?.guest, guest != subject.id {
        // The device's own guest gives its place. Its data stays on record until the retention ends.
        previous = guest
        changes.ended += try db.sessions.end(of: guest, onDevice: toDevice, because: .switchedAway, at: now)
      }
      try db.devices.change(toDevice, guest: subject.id)
    } else {
      previous = known?.guest ?? previous
    }
    changes.ended += try db.sessions.end(of: subject.id, onDevice: toDevice, because: .replaced, at: now)
    let before = changes.ended.count
    if !keepsOld {
      if let old = from.device.keyThumbprint {
        changes.ended += try db.sessions.end(of: subject.id, onDevice: old, because: .transferred, at: now)
        if subject.isGuest { try db.devices.removeGuest(subject.id, from: old) }
      }
      try changes.end(from.id, because: .transferred, at: now, in: db)
    }
    let ended = changes.ended.count - before
    // Where the old device gave its place there is nobody left to confirm the new one.
    let session = draft.session(
      of: subject.id, isGuest: subject.isGuest, deviceKeyThumbprint: toDevice,
      by: draft.handedOn(by: from, agreedAt: agreedAt, takesPlace: !keepsOld))
    try changes.begin(session, in: db)
    try db.lineage.note(.session(session.id), cameOf: [by, .session(from.id)])
    try db.subjects.change(subject.id, usedAt: now)
    if subject.isAccount {
      let mask = try db.identities.all(of: subject.id).first?.mask ?? ""
      try db.devices.change(
        toDevice, lastAccount: subject.id, LastLoginHint(method: session.method, accountMask: mask, at: now))
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
