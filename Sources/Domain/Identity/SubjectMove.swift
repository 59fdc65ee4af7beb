import LatchkeyModel
import Storage

/// A guest or account on its new device.
package struct MovedSubject: Sendable, Equatable {
  package var session: Session
  package var profile: Profile
  /// Who used the new device before.
  package var previousSubject: SubjectID?
  package var sessionsEnded: Int

  package init(session: Session, profile: Profile, previousSubject: SubjectID?, sessionsEnded: Int) {
    self.session = session
    self.profile = profile
    self.previousSubject = previousSubject
    self.sessionsEnded = sessionsEnded
  }
}

/// A guest or account gets a session on a new device, in the name of a session on another one.
struct SubjectMove {
  let from: Session
  let toDevice: String
  let keepsOld: Bool
  let draft: SessionDraft
  /// The code or the transfer by which it moves, and when its owner agreed.
  let by: LineageMember
  /// What the token said that they agreed with.
  let provenAt: Timestamp
  let agreedAt: Timestamp

  /// The new device is on record. Nil when there is nobody to move.
  func run(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> MovedSubject? {
    guard let subject = try await rows.subjects.lock(from.subject), subject.isUsable else { return nil }
    let now = draft.now
    let previous = try await takeOver(subject, in: rows, noting: &changes)
    changes.ended += try await rows.sessions.end(of: subject.id, onDevice: toDevice, because: .replaced, at: now)
    let before = changes.ended.count
    if !keepsOld { try await leave(subject, in: rows, noting: &changes) }
    let ended = changes.ended.count - before
    // Where the old device gave its place there is nobody left to confirm the new one.
    let session = draft.session(
      of: subject.id, isGuest: subject.isGuest, deviceKeyThumbprint: toDevice,
      by: draft.handedOn(by: from, provenAt: provenAt, agreedAt: agreedAt, takesPlace: !keepsOld))
    try await changes.begin(session, in: rows)
    try await rows.lineage.note(.session(session.id), cameOf: [by, .session(from.id)])
    try await rows.subjects.change(subject.id, usedAt: now)
    if subject.isAccount {
      let mask = try await rows.identities.mask(of: subject.id)
      try await rows.devices.change(
        toDevice, lastAccount: subject.id, LastLoginHint(method: session.method, accountMask: mask, at: now))
    }
    changes.notes.append(
      AuditNote(
        .subjectMoved, at: now, subject: subject.id, session: session.id, address: draft.address,
        detail: keepsOld ? "old device kept" : "old device revoked"))
    return MovedSubject(
      session: session, profile: subject.profile, previousSubject: previous == subject.id ? nil : previous,
      sessionsEnded: ended)
  }

  /// The new device is the subject's. Returns who used it before.
  private func takeOver(
    _ subject: Subject, in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> SubjectID? {
    let known = try await rows.devices.lock(toDevice)
    guard subject.isGuest else { return known?.guest ?? known?.lastAccount }
    var previous = known?.lastAccount
    if let guest = known?.guest, guest != subject.id {
      // The device's own guest gives its place. Its data stays on record until the retention ends.
      previous = guest
      changes.ended += try await rows.sessions.end(
        of: guest, onDevice: toDevice, because: .switchedAway, at: draft.now)
    }
    try await rows.devices.change(toDevice, guest: subject.id)
    return previous
  }

  /// The old device is signed out, and a guest is on it no more.
  private func leave(
    _ subject: Subject, in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) {
    if let old = from.device.keyThumbprint {
      changes.ended += try await rows.sessions.end(
        of: subject.id, onDevice: old, because: .transferred, at: draft.now)
      if subject.isGuest { try await rows.devices.removeGuest(subject.id, from: old) }
    }
    try await changes.end(from.id, because: .transferred, at: draft.now, in: rows)
  }
}
