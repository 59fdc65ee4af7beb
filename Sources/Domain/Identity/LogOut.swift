import LatchkeyModel
import Storage

/// Ends sessions of the caller and, if asked to, begins the device's guest session.
package struct LogOut: IdentityCommand {
  package static let name = "log out"

  package enum Reach: Sendable {
    case local
    case others
    case global
  }

  package struct NextGuest: Sendable {
    /// Who the guest becomes if the device has none.
    package var newSubject: SubjectID
    package var draft: SessionDraft

    package init(newSubject: SubjectID, draft: SessionDraft) {
      self.newSubject = newSubject
      self.draft = draft
    }
  }

  package var session: SessionID
  package var reach: Reach
  package var nextGuest: NextGuest?
  package var now: Timestamp

  package init(session: SessionID, reach: Reach, nextGuest: NextGuest?, now: Timestamp) {
    self.session = session
    self.reach = reach
    self.nextGuest = nextGuest
    self.now = now
  }

  package enum Outcome: Sendable, Equatable {
    case loggedOut(ended: Int, guest: StartedGuest?)
    /// The caller's session had ended already.
    case sessionEnded
    /// A guest was asked for on a device that has shown no key. Nothing changed.
    case noDevice
    /// The caller's session is unconfirmed, so it may not end the others. Nothing changed.
    case unconfirmed
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Outcome {
    var nextOwner: SubjectID?
    if nextGuest != nil, let key = try await rows.sessions.find(session)?.device.keyThumbprint {
      nextOwner = try await rows.devices.find(key)?.guest
      try await rows.lock(guest: nextOwner)
    }
    guard let caller = try await rows.lockCaller(session, at: now) else { return .sessionEnded }
    if reach != .local, !caller.isConfirmed,
      try await rows.sessions.live(of: caller.subject, at: now, limit: 2).count > 1
    {
      return .unconfirmed
    }
    var device: StoredDevice?
    if let key = caller.device.keyThumbprint { device = try await rows.devices.lock(key) }
    if nextGuest != nil {
      guard let device else { return .noDevice }
      // Another start made the device's guest meanwhile, who has to be held before the device.
      guard device.guest == nextOwner else { throw StorageError(.superseded, operation: Self.name) }
    }
    switch reach {
    case .local:
      try await changes.end(caller.id, because: .loggedOut, at: now, in: rows)
    case .others:
      try await changes.removeUnlocks(
        of: caller.subject, exceptDevice: caller.device.keyThumbprint, at: now, in: rows)
      changes.ended += try await rows.sessions.end(of: caller.subject, except: caller.id, because: .loggedOut, at: now)
      try await rows.tickets.remove(of: caller.subject)
    case .global:
      try await rows.tickets.remove(of: caller.subject)
      try await changes.removeUnlocks(of: caller.subject, exceptDevice: nil, at: now, in: rows)
      changes.ended += try await rows.sessions.end(of: caller.subject, except: nil, because: .loggedOut, at: now)
    }
    let count = changes.ended.count
    guard let nextGuest, let key = caller.device.keyThumbprint else { return .loggedOut(ended: count, guest: nil) }
    let guest = try await StartedGuest.begin(
      on: device, withKey: key, newSubject: nextGuest.newSubject, locale: nil, draft: nextGuest.draft, in: rows,
      noting: &changes)
    if let new = guest?.newGuest { try await rows.devices.change(key, guest: new) }
    return .loggedOut(ended: count, guest: guest)
  }
}
