import LatchkeyModel
import Storage

/// A device that held one key and proved another one.
package struct KeyReplacement: Sendable {
  package var oldKey: String
  package var device: DeviceRegistration
  /// What it signed; it holds once.
  package var challenge: UsedChallenge
  package var address: String
  package var now: Timestamp

  package init(
    oldKey: String,
    device: DeviceRegistration,
    challenge: UsedChallenge,
    address: String,
    now: Timestamp
  ) {
    self.oldKey = oldKey
    self.device = device
    self.challenge = challenge
    self.address = address
    self.now = now
  }
}

/// Puts a new key in the place of the one that the caller's session runs on.
package struct RotateKey: IdentityCommand {
  package static let name = "rotate a device's key"

  package var replacement: KeyReplacement
  package var caller: SessionID

  package var address: String { replacement.address }

  package init(_ replacement: KeyReplacement, by caller: SessionID) {
    self.replacement = replacement
    self.caller = caller
  }

  package enum Outcome: Sendable, Equatable {
    case rotated(sessionsMoved: Int)
    case challengeUsed
    /// The caller's session has ended, or runs on another device.
    case otherDevice
    /// The new key has sessions or a guest of its own.
    case keyInUse
    /// Two devices hold the old key.
    case cloned
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Outcome {
    let (old, new, now) = (replacement.oldKey, replacement.device.keyThumbprint, replacement.now)
    let found = try await rows.devices.find(old)
    try await rows.lock(guest: found?.guest, accounts: [found?.lastAccount, rows.sessions.find(caller)?.subject])
    guard let own = try await rows.lockCaller(caller, at: now), own.device.keyThumbprint == old else {
      return .otherDevice
    }
    let known = try await rows.lockDevices(old, and: new, usedAs: found)
    if known?.isCloned == true { return .cloned }
    guard try await rows.isFree(new) else { return .keyInUse }
    guard try await rows.challenges.insert(replacement.challenge) else { return .challengeUsed }
    try await rows.devices.put(replacement.device, counter: nil, newGuest: nil, at: now)
    try await rows.move(old, to: new, keepingBinding: true)
    var moved = 0
    for user in known.users(and: own.subject) { moved += try await rows.sessions.changeDevice(of: user, old, to: new) }
    changes.notes.append(
      AuditNote(.deviceKeyRotated, at: now, subject: own.subject, session: own.id, address: address))
    return .rotated(sessionsMoved: moved)
  }
}

/// Gives one of the devices that hold the same key a new one, and begins its guest's session.
package struct ResolveClone: IdentityCommand {
  package static let name = "resolve a clone"

  /// Who takes what when two devices hold one key.
  package enum Choice: Sendable, Equatable {
    /// The caller becomes a new guest.
    case split
    /// The guest is the caller's.
    case transfer
  }

  package var replacement: KeyReplacement
  package var choice: Choice
  /// Who the guest becomes if it is a new one.
  package var newSubject: SubjectID
  package var draft: SessionDraft

  package var address: String { replacement.address }

  package init(_ replacement: KeyReplacement, _ choice: Choice, newSubject: SubjectID, draft: SessionDraft) {
    self.replacement = replacement
    self.choice = choice
    self.newSubject = newSubject
    self.draft = draft
  }

  package enum Outcome: Sendable, Equatable {
    case resolved(StartedGuest)
    case challengeUsed
    case notCloned
    case keyInUse
    /// The guest was disabled, deleted, or became part of an account.
    case guestGone
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Outcome {
    let (old, new, now) = (replacement.oldKey, replacement.device.keyThumbprint, replacement.now)
    let found = try await rows.devices.find(old)
    try await rows.lock(guest: found?.guest, accounts: [found?.lastAccount])
    let device = try await rows.lockDevices(old, and: new, usedAs: found)
    // First: who asks again because the answer was lost finds the new key in use, by its own doing.
    guard try await rows.isFree(new) else { return .keyInUse }
    guard let cloned = device, cloned.isCloned else { return .notCloned }
    if choice == .transfer {
      // Who is moved must be there; nobody is made.
      guard let guest = cloned.guest, let subject = try await rows.subjects.lock(guest), subject.isGuest,
        subject.isUsable
      else { return .guestGone }
    }
    guard try await rows.challenges.insert(replacement.challenge) else { return .challengeUsed }
    try await rows.devices.put(replacement.device, counter: nil, newGuest: nil, at: now)
    var draft = draft
    if choice == .transfer {
      // Who was nothing without the old key is nothing without the new one, whatever this call proved.
      if let guest = cloned.guest,
        try await rows.sessions.newest(of: guest, onDevice: old)?.boundKeyThumbprint != nil
      {
        draft.boundKeyThumbprint = new
      }
      for user in Optional(cloned).users() {
        changes.ended += try await rows.sessions.end(of: user, onDevice: old, because: .cloned, at: now)
      }
      try await rows.move(old, to: new, keepingBinding: false)
    }
    // Whoever goes on with the key begins to count anew: it may be the one who was behind.
    try await rows.devices.resetCounter(old)
    let guest = try await StartedGuest.begin(
      on: try await rows.devices.find(new), withKey: new, newSubject: newSubject, locale: nil, draft: draft, in: rows,
      noting: &changes)
    guard let guest else { return .guestGone }
    if let started = guest.newGuest { try await rows.devices.change(new, guest: started) }
    changes.notes.append(
      AuditNote(
        .cloneResolved, at: now, subject: guest.session.subject, session: guest.session.id, address: address,
        detail: choice == .transfer ? "transfer" : "split"))
    return .resolved(guest)
  }
}

extension IdentityTransaction {
  /// Holds two devices in the order of their keys, and hands out the first. Whoever uses that has to be held before it:
  /// somebody else by now than it was `found` with is held by another run.
  fileprivate func lockDevices(
    _ key: String, and other: String, usedAs found: StoredDevice?
  ) async throws(StorageError) -> StoredDevice? {
    if other < key { _ = try await devices.lock(other) }
    let device = try await devices.lock(key)
    if key < other { _ = try await devices.lock(other) }
    guard device.users() == found.users() else { throw StorageError(.superseded, operation: "hold a device") }
    return device
  }

  /// Whether nobody uses a key yet; until the command ends nobody does.
  fileprivate func isFree(_ keyThumbprint: String) async throws(StorageError) -> Bool {
    let device = try await devices.lock(keyThumbprint)
    guard device?.guest == nil, device?.lastAccount == nil else { return false }
    return try await unlocks.lock(.key, keyThumbprint) == nil
  }

  /// What is known of a device is known under its new key from now on; the old key is a stranger's. The device's ways to
  /// unlock go with it; one that the key itself is goes with the key, unless it is what binds the device.
  fileprivate func move(
    _ oldKey: String, to newKey: String, keepingBinding: Bool
  ) async throws(StorageError) {
    try await devices.move(oldKey, to: newKey)
    if keepingBinding {
      try await unlocks.changeKey(ofBinding: oldKey, to: newKey)
      // What lets the device in is what it was, and ends with what it came of (R44).
      let (old, new) = (LineageMember.unlock(.key, key: oldKey), LineageMember.unlock(.key, key: newKey))
      try await lineage.insert(new, cameOfAncestorsOf: old)
      try await lineage.remove(ancestorsOf: old)
    }
    try await unlocks.changeDevice(oldKey, to: newKey)
    try await unlocks.remove(ofKey: oldKey)
  }
}

extension StoredDevice? {
  /// Who has used the device last, as guest and as account, and whoever else is named.
  fileprivate func users(and other: SubjectID? = nil) -> [SubjectID] {
    var users: [SubjectID] = []
    for case let user? in [self?.guest, self?.lastAccount, other] where !users.contains(user) { users.append(user) }
    return users
  }
}

/// Ends the caller's sessions and unlocks on one of their devices, in the name of the caller's session.
package struct RemoveDevice: IdentityCommand {
  package static let name = "remove a device"

  package var keyThumbprint: String
  package var caller: SessionID
  package var now: Timestamp

  package init(_ keyThumbprint: String, by caller: SessionID, at now: Timestamp) {
    self.keyThumbprint = keyThumbprint
    self.caller = caller
    self.now = now
  }

  package enum Outcome: Sendable, Equatable {
    case removed(sessionsEnded: Int)
    /// The caller's session is unconfirmed, so it may end its own device only.
    case unconfirmed
    case callerEnded
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Outcome {
    guard let own = try await rows.lockCaller(caller, at: now) else { return .callerEnded }
    guard own.device.keyThumbprint == keyThumbprint || own.isConfirmed else { return .unconfirmed }
    try await changes.removeUnlocks(of: own.subject, onDevice: keyThumbprint, at: now, in: rows)
    changes.ended += try await rows.sessions.end(of: own.subject, onDevice: keyThumbprint, because: .revoked, at: now)
    return .removed(sessionsEnded: changes.ended.count)
  }
}
