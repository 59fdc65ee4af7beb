import LatchkeyModel
import Storage

/// A session that began, and what that changed for the device.
package struct SignedIn: Sendable, Equatable {
  package var session: Session
  package var profile: Profile
  /// Who used this device before: the guest, or the account before it.
  package var previousSubject: SubjectID?
  package var isPromoted: Bool
  /// Another account used this device before.
  package var isWipeRequired: Bool
  package var merge: PendingMerge?

  package init(
    session: Session,
    profile: Profile,
    previousSubject: SubjectID?,
    isPromoted: Bool = false,
    isWipeRequired: Bool = false,
    merge: PendingMerge? = nil
  ) {
    self.session = session
    self.profile = profile
    self.previousSubject = previousSubject
    self.isPromoted = isPromoted
    self.isWipeRequired = isWipeRequired
    self.merge = merge
  }

  /// What the sign-in with this replay key was answered. Nil when there was none or its session ended meanwhile: that is
  /// not brought back.
  ///
  /// - Parameter locking: whether the caller is about to answer a request with this key.
  static func find(
    _ key: [UInt8], locking: Bool, at now: Timestamp, in rows: some IdentityTransaction
  ) async throws(StorageError) -> SignedIn? {
    let replay = locking ? try await rows.replays.lock(key) : try await rows.replays.find(key)
    guard let replay, replay.expiry > now, let session = try await rows.sessions.live(replay.session, at: now),
      let subject = try await rows.subjects.find(session.subject)
    else { return nil }
    var merge: PendingMerge?
    if let id = replay.merge { merge = try await rows.merges.find(id) }
    return SignedIn(
      session: session, profile: subject.profile, previousSubject: replay.previousSubject,
      isPromoted: replay.isPromoted, isWipeRequired: replay.isWipeRequired, merge: merge)
  }

  func keep(
    for replay: SignIn.Replay, at now: Timestamp, in rows: some IdentityTransaction
  ) async throws(StorageError) {
    let kept = SignInReplay(
      session: session.id, previousSubject: previousSubject, isPromoted: isPromoted, isWipeRequired: isWipeRequired,
      merge: merge?.id, expiry: replay.expiry)
    try await rows.replays.put(kept, replay.key)
    // More go than come, so that no other work is needed to forget them.
    try await rows.replays.removeExpired(at: now, limit: 4)
  }
}

/// What a sign-in with a replay key was answered; nil when there was none, or when its session has ended.
package struct FindSignedIn: IdentityOperation {
  package static let name = "find a sign-in"

  package var replayKey: [UInt8]
  package var now: Timestamp

  package init(replaying replayKey: [UInt8], at now: Timestamp) {
    self.replayKey = replayKey
    self.now = now
  }

  package func run(in rows: some IdentityTransaction) async throws(StorageError) -> SignedIn? {
    try await SignedIn.find(replayKey, locking: false, at: now, in: rows)
  }
}

extension DeviceRows {
  /// Writes the device's last-login hint. True when another account used the device before.
  func noteLogin(_ session: Session, mask: String) async throws(StorageError) -> Bool {
    guard let key = session.device.keyThumbprint, let device = try await lock(key) else { return false }
    let hint = LastLoginHint(method: session.method, accountMask: mask, at: session.family.rotatedAt)
    try await change(key, lastAccount: session.subject, hint)
    return device.lastAccount != nil && device.lastAccount != session.subject
  }
}
