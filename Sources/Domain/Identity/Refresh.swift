import LatchkeyModel
import Storage

/// Somebody uses a refresh token: rotates its session's family, repeats the newest token, or ends the session.
package struct Refresh: IdentityCommand {
  package static let name = "refresh a session"

  package var session: SessionID
  /// Of the token.
  package var generation: Int64
  package var lifetimes: TokenLifetimes
  package var now: Timestamp
  /// Whether whose session it is is held as well. One that finds a stolen token has to hold them, because it ends more than
  /// its session, and everybody holds them before their sessions: it is run once more then.
  fileprivate var holdsSubject = false
  /// Whoever finds a stolen token may have many sessions to end.
  package var rows: [String]? { holdsSubject ? nil : ["session \(session)"] }
  /// Whether the token was made for this session, by the session's seed; nothing changes unless it says yes.
  package var isGenuine: @Sendable (Session) -> Bool

  package init(
    session: SessionID, generation: Int64, lifetimes: TokenLifetimes, at now: Timestamp,
    isGenuine: @escaping @Sendable (Session) -> Bool
  ) {
    self.session = session
    self.generation = generation
    self.lifetimes = lifetimes
    self.now = now
    self.isGenuine = isGenuine
  }

  package enum Outcome: Sendable, Equatable {
    /// The session, whose newest token is the answer.
    case refreshed(Session)
    /// A token was used that had been replaced: the session has ended now.
    case reused(Session)
    case ended(Session.End)
    /// It would have been; nothing was done without the subject.
    case suspected
    case expired
    /// No such session, or not its token.
    case unknown
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Outcome {
    guard var session = try await holdsSubject ? rows.lockOwned(session) : rows.sessions.lock(session),
      isGenuine(session)
    else { return .unknown }
    if let ended = session.ended { return .ended(ended.why) }
    let family = lifetimes.family(isGuest: session.isGuest, method: session.method)
    switch session.family.present(generation: generation, at: now, lifetimes: family) {
    case .rotate:
      try await rows.sessions.changeFamily(of: session)
      return .refreshed(session)
    case .repeatNewest: return .refreshed(session)
    case .endForReuse:
      guard holdsSubject else { return .suspected }
      try await changes.end(session.id, because: .refreshReused, at: now, in: rows)
      try await changes.endDescendants(
        of: .session(session.id), of: session.subject, because: .refreshReused, at: now, in: rows)
      return .reused(session)
    case .expired: return .expired
    case .unknown: return .unknown
    }
  }
}

extension Refresh {
  /// The same, holding the subject before the session.
  fileprivate var strict: Refresh {
    var refresh = self
    refresh.holdsSubject = true
    return refresh
  }
}

extension IdentityDomain {
  /// Refreshes a session. Few find a stolen token, and only they hold the subject.
  package func refresh(_ refresh: Refresh) async throws(StorageError) -> Refresh.Outcome {
    let outcome = try await perform(refresh)
    return outcome == .suspected ? try await perform(refresh.strict) : outcome
  }
}
