import LatchkeyModel
import Storage

/// A device that proved its key starts as a guest: finds the guest of the key or makes it, spends the challenge and begins
/// a session. Idempotent for each key: however often and however concurrently, a key has one guest, and the guest one
/// session on the device.
package struct StartGuest: IdentityCommand {
  package static let name = "start a guest"
  /// Of several devices of a guest each begins and ends sessions of its own, and a challenge is used up by one statement. A
  /// refresh of a session that ends here reads and renews it before, or sees that it has ended.
  package var rows: [String]? { ["device \(device.keyThumbprint)"] }

  package var device: DeviceRegistration
  /// What the device signed; it holds once.
  package var challenge: UsedChallenge
  /// Who the guest becomes if there is none yet.
  package var newSubject: SubjectID
  package var locale: LanguageTag?
  /// How many proofs the key has signed; 0 when the app counts nothing.
  package var counter: Int64
  package var draft: SessionDraft
  /// Whether a key that has no guest may have one made.
  package var mayBeNew: Bool

  package var address: String { draft.address }

  package init(
    device: DeviceRegistration,
    challenge: UsedChallenge,
    newSubject: SubjectID,
    locale: LanguageTag?,
    counter: Int64 = 0,
    draft: SessionDraft,
    mayBeNew: Bool = true
  ) {
    self.device = device
    self.challenge = challenge
    self.newSubject = newSubject
    self.locale = locale
    self.counter = counter
    self.draft = draft
    self.mayBeNew = mayBeNew
  }

  package enum Outcome: Sendable, Equatable {
    case started(StartedGuest)
    case challengeUsed
    /// Two devices hold the key.
    case cloned
    /// The key has no guest, and no more are made.
    case full
    /// Somebody who runs the service keeps the guest out.
    case disabled
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Outcome {
    let key = device.keyThumbprint
    let guest = try await rows.devices.find(key)?.guest
    try await rows.lock(guest: guest)
    guard try await rows.challenges.insert(challenge) else { return .challengeUsed }
    let known = try await rows.devices.lock(key)
    // Another start of the device was faster: the guest that it made has to be held before the device.
    guard known?.guest == guest else { throw StorageError(.superseded, operation: Self.name) }
    if known?.isCloned == true { return .cloned }
    if !mayBeNew, known?.guest == nil { return .full }
    var counter = known?.counter
    if let last = counter?.highest, counter?.take(self.counter) == false {
      try await rows.devices.change(key, clonedAt: draft.now)
      changes.notes.append(
        AuditNote(
          .deviceCloned, at: draft.now, subject: known?.guest, address: draft.address,
          detail: "counter \(self.counter) after \(last)"))
      return .cloned
    }
    if counter == nil, self.counter > 0 { counter = ProofCounter(first: self.counter) }
    let started = try await StartedGuest.begin(
      on: known, withKey: key, newSubject: newSubject, locale: locale, draft: draft, in: rows, noting: &changes)
    // A counter that was used is used whatever comes of it.
    try await rows.devices.put(device, counter: counter, newGuest: started?.newGuest, at: draft.now)
    return started.map { .started($0) } ?? .disabled
  }
}

/// A guest's new session.
package struct StartedGuest: Sendable, Equatable {
  package var session: Session
  /// False when the device key already had its guest.
  package var isNew: Bool
  package var lastLogin: LastLoginHint?

  package init(session: Session, isNew: Bool, lastLogin: LastLoginHint?) {
    self.session = session
    self.isNew = isNew
    self.lastLogin = lastLogin
  }

  /// Whose the device is from now on; nil where it was before.
  var newGuest: SubjectID? { isNew ? session.subject : nil }

  /// Finds the guest of a device that is on record, or makes it, and begins its session. Earlier sessions of the guest on
  /// this device end. Nil when the guest is disabled. The caller stores that the device is the new guest's.
  ///
  /// - Parameter device: what was known of the device before.
  static func begin(
    on device: StoredDevice?,
    withKey keyThumbprint: String,
    newSubject: SubjectID,
    locale: LanguageTag?,
    draft: SessionDraft,
    in rows: some IdentityTransaction,
    noting changes: inout SessionChanges
  ) async throws(StorageError) -> StartedGuest? {
    var guest: SubjectID?
    if let known = device?.guest, let subject = try await rows.subjects.lock(known), subject.isGuest {
      if subject.isDisabled { return nil }
      guest = known
    }
    if let guest {
      changes.ended += try await rows.sessions.end(
        of: guest, onDevice: keyThumbprint, because: .replaced, at: draft.now)
      try await rows.subjects.change(guest, usedAt: draft.now)
    } else {
      let profile = Profile(locale: locale)
      try await rows.subjects.insert(
        Subject(id: newSubject, kind: .guest, createdAt: draft.now, profile: profile))
      changes.newcomers.insert(newSubject)
    }
    let session = draft.session(
      of: guest ?? newSubject, isGuest: true, deviceKeyThumbprint: keyThumbprint, by: draft.proven(isGuest: true))
    try await changes.begin(session, in: rows)
    return StartedGuest(session: session, isNew: guest == nil, lastLogin: device?.lastLogin)
  }
}
