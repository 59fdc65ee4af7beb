import LatchkeyModel
import Storage

/// Somebody ends one of their own sessions, and what came of it.
package struct RevokeSession: IdentityCommand {
  package static let name = "revoke a session"

  package var session: SessionID
  package var caller: SessionID
  package var now: Timestamp

  package init(_ session: SessionID, by caller: SessionID, at now: Timestamp) {
    self.session = session
    self.caller = caller
    self.now = now
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> OwnSessionOutcome {
    guard let own = try await rows.lockCaller(caller, at: now) else { return .callerEnded }
    guard let session = try await rows.sessions.lock(session), session.subject == own.subject else { return .notFound }
    guard session.id == own.id || own.isConfirmed else { return .unconfirmed }
    // Somebody else's hands may hold that device: nothing on it may let them in again.
    let elsewhere = session.device.keyThumbprint.flatMap {
      session.id != own.id && $0 != own.device.keyThumbprint ? $0 : nil
    }
    if let elsewhere { try await changes.removeUnlocks(of: own.subject, onDevice: elsewhere, at: now, in: rows) }
    try await changes.end(session.id, because: .revoked, at: now, in: rows)
    if session.isGuest, let elsewhere { try await rows.devices.removeGuest(own.subject, from: elsewhere) }
    try await changes.endDescendants(
      of: .session(session.id), of: own.subject, except: session.id == own.id ? nil : own.id, because: .revoked,
      at: now, in: rows)
    return changes.ended.isEmpty ? .already : .changed
  }
}

/// Somebody says of one of their own sessions that it is theirs.
package struct ConfirmSession: IdentityCommand {
  package static let name = "confirm a session"

  package var session: SessionID
  package var caller: SessionID
  package var now: Timestamp

  package init(_ session: SessionID, by caller: SessionID, at now: Timestamp) {
    self.session = session
    self.caller = caller
    self.now = now
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> OwnSessionOutcome {
    guard let own = try await rows.lockCaller(caller, at: now) else { return .callerEnded }
    guard var session = try await rows.sessions.lockLive(session, at: now), session.subject == own.subject else {
      return .notFound
    }
    if session.isConfirmed { return .already }
    guard own.isConfirmed else { return .unconfirmed }
    session.confirmedAt = session.confirmedAt ?? now
    try await rows.sessions.change(session)
    changes.confirmed.append(session.id)
    return .changed
  }
}

/// A session ends, whoever asks: by its refresh token, or because it expired. False when it had ended before or never was.
package struct EndSession: IdentityCommand {
  package static let name = "end a session"

  package var session: SessionID
  package var why: Session.End
  package var now: Timestamp

  package init(_ session: SessionID, because why: Session.End, at now: Timestamp) {
    self.session = session
    self.why = why
    self.now = now
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Bool {
    guard let session = try await rows.lockOwned(session) else { return false }
    try await changes.end(session.id, because: why, at: now, in: rows)
    if why == .revoked {
      try await changes.endDescendants(of: .session(session.id), of: session.subject, because: why, at: now, in: rows)
    }
    return !changes.ended.isEmpty
  }
}

/// A session, live or not.
package struct FindSession: IdentityOperation {
  package static let name = "find a session"

  package var session: SessionID

  package init(_ session: SessionID) {
    self.session = session
  }

  package func run(in rows: some IdentityTransaction) async throws(StorageError) -> Session? {
    try await rows.sessions.find(session)
  }
}

/// The live sessions of a subject, the newest first.
package struct LiveSessions: IdentityOperation {
  package static let name = "list sessions"

  package var subject: SubjectID
  package var now: Timestamp
  package var limit: Int

  package init(of subject: SubjectID, at now: Timestamp, limit: Int) {
    self.subject = subject
    self.now = now
    self.limit = limit
  }

  package func run(in rows: some IdentityTransaction) async throws(StorageError) -> [Session] {
    try await rows.sessions.live(of: subject, at: now, limit: limit)
  }
}

/// Whether a code or a transfer let the session's device in and nobody proved in it since who they are: then what the
/// device's key signs is not its owner's word. False for an unknown session.
package struct IsLetIn: IdentityOperation {
  package static let name = "ask who let a session in"

  package var session: SessionID

  package init(_ session: SessionID) {
    self.session = session
  }

  package func run(in rows: some IdentityTransaction) async throws(StorageError) -> Bool {
    guard let session = try await rows.sessions.find(session),
      try await rows.lineage.cameOfCode(.session(session.id))
    else { return false }
    // A guest's device is all that a guest has.
    if session.isGuest { return !session.isConfirmed }
    // Only a step-up is younger than the session.
    return session.authenticatedAt <= session.beganAt
  }
}

/// What came of a change to one of the caller's own sessions.
package enum OwnSessionOutcome: Sendable, Equatable {
  case changed
  /// It was so before, or had ended.
  case already
  /// No such session, or another's.
  case notFound
  /// The caller's session is itself unconfirmed, so it may not touch the others.
  case unconfirmed
  /// The caller's session has ended.
  case callerEnded
}
