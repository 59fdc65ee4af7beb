import LatchkeyModel
import Storage

/// A guest's data has moved: the guest becomes part of the account, and its sessions end. Idempotent, and never again once
/// the migration was taken back: whoever asks for it then stood still meanwhile.
package struct CompleteMerge: IdentityCommand {
  package static let name = "complete a merge"

  package var migration: String
  package var guest: SubjectID
  package var target: SubjectID
  package var now: Timestamp

  package init(_ migration: String, of guest: SubjectID, into target: SubjectID, at now: Timestamp) {
    self.migration = migration
    self.guest = guest
    self.target = target
    self.now = now
  }

  package enum Outcome: Sendable, Equatable {
    case completed(sessionsEnded: Int)
    /// Said before, for the same account.
    case already
    case unknownGuest
    /// The guest became an account, or went into another one.
    case refused
    case unknownTarget
    /// The migration was taken back.
    case recalled
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Outcome {
    guard var subject = try await rows.subjects.lock(guest) else { return .unknownGuest }
    if try await rows.mergedGuests.isRecalled(migration, of: guest) { return .recalled }
    guard let account = try await rows.subjects.lock(target), account.isAccount else { return .unknownTarget }
    switch subject.merge(into: target) {
    case .already: return .already
    case .refused: return .refused
    case .done: break
    }
    try await rows.subjects.change(subject, usedAt: now)
    for key in try await rows.devices.keys(ofGuest: guest) {
      try await rows.mergedGuests.put(guest, onDevice: key, at: now)
    }
    try await rows.devices.removeGuest(guest)
    // Before what the guest's sessions report of guides is looked at: then none reports any more.
    changes.ended += try await rows.sessions.end(of: guest, except: nil, because: .merged, at: now)
    try await rows.guides.merge(guest, into: target, at: now)
    changes.guides.append(GuideChange(nil, of: target))
    if let found = try await rows.merges.open(of: guest), var open = try await rows.merges.lock(found.id),
      open.state.isOpen
    {
      open.state = .completed
      open.migration = migration
      try await rows.merges.change(open, at: now)
    }
    changes.notes.append(AuditNote(.guestMerged, at: now, subject: guest, detail: "into \(target)"))
    return .completed(sessionsEnded: changes.ended.count)
  }
}

/// A merge is taken back: the guest is one again, on the devices that it was on. Idempotent: of a migration that was taken
/// back before nothing changes, even when the guest went into the account by another one since.
package struct RestoreGuest: IdentityCommand {
  package static let name = "restore a guest"

  package var migration: String
  package var guest: SubjectID
  package var target: SubjectID
  package var now: Timestamp

  package init(_ migration: String, of guest: SubjectID, from target: SubjectID, at now: Timestamp) {
    self.migration = migration
    self.guest = guest
    self.target = target
    self.now = now
  }

  package enum Outcome: Sendable, Equatable {
    case restored
    /// It is a guest, or was made one when this was said before.
    case already
    case unknownGuest
    /// It is not part of that account.
    case refused
    /// Its device has another guest by now, or is on record no more: nobody could be this guest.
    case replaced
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Outcome {
    guard var subject = try await rows.subjects.lock(guest) else { return .unknownGuest }
    if try await rows.mergedGuests.isRecalled(migration, of: guest) { return .already }
    switch subject.restore(from: target) {
    case .already:
      try await rows.mergedGuests.recall(migration, of: guest, at: now)
      return .already
    case .refused: return .refused
    case .done: break
    }
    let keys = try await rows.mergedGuests.devices(of: guest)
    var isReachable = false
    for key in keys {
      guard let device = try await rows.devices.lock(key) else { continue }
      // Whoever uses that device as a guest by now would lose what they made.
      guard device.guest == nil else { return .replaced }
      isReachable = true
    }
    guard isReachable else { return .replaced }
    try await rows.subjects.change(subject, usedAt: now)
    for key in keys { try await rows.devices.change(key, guest: guest) }
    try await rows.mergedGuests.remove(of: guest)
    try await rows.mergedGuests.recall(migration, of: guest, at: now)
    changes.notes.append(AuditNote(.guestRestored, at: now, subject: guest, detail: "from \(target)"))
    return .restored
  }
}
