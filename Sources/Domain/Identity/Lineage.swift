import LatchkeyModel
import Storage

// What came of what (R44). Whoever proves who they are by something that nobody else gave them came of nothing.

/// Chains longer than this are no person's: each link takes a proof of the owner.
private let mostAncestors = 64

extension LineageRows {
  func isTooDeep(_ member: LineageMember) async throws(StorageError) -> Bool {
    try await ancestors(of: member).count >= mostAncestors
  }

  /// It came of each of these, and of all that those came of.
  func note(_ member: LineageMember, cameOf sources: [LineageMember]) async throws(StorageError) {
    for source in sources {
      try await insert(member, cameOf: source)
      try await insert(member, cameOfAncestorsOf: source)
    }
  }

  /// The new session stands where the earlier one stood: it came of the same, and what came of the earlier one is its.
  func replace(_ earlier: SessionID, with session: SessionID) async throws(StorageError) {
    try await insert(.session(session), cameOfAncestorsOf: .session(earlier))
    try await insert(descendantsOf: .session(earlier), cameOf: .session(session))
  }

  /// Whether a code or a transfer is among what it came of.
  func cameOfCode(_ member: LineageMember) async throws(StorageError) -> Bool {
    try await ancestors(of: member).contains(where: \.isWayIn)
  }

  /// Whether a credential came of this very session, or of the code or transfer that the session came of: it proves
  /// nothing about who holds the session. What somebody enrolled on a device of their own proves it there as well.
  func isOwnMaking(_ credential: LineageMember, of session: SessionID) async throws(StorageError) -> Bool {
    let letIn = try await ancestors(of: .session(session)).filter(\.isWayIn)
    guard !letIn.isEmpty else { return false }
    let made = try await ancestors(of: credential)
    return made.contains(.session(session)) || made.contains { letIn.contains($0) }
  }
}

extension LineageMember {
  fileprivate var isWayIn: Bool {
    switch self {
    case .code, .transfer: true
    case .session, .unlock, .identity: false
    }
  }

  fileprivate var isAddress: Bool { if case .identity = self { true } else { false } }
}

extension SessionChanges {
  /// Ends what came of something, through whatever chain: sessions, the credentials that they enrolled, tickets.
  ///
  /// - Parameter keeper: the session whose owner says so just now. It and what came of it stay.
  mutating func endDescendants(
    of root: LineageMember, of subject: SubjectID, except keeper: SessionID? = nil, because why: Session.End,
    at now: Timestamp, in rows: some IdentityTransaction
  ) async throws(StorageError) {
    // Addresses after the sessions: whether one may be the last to go depends on who is still signed in.
    let descendants = try await rows.lineage.descendants(of: root)
    for descendant in descendants.filter({ !$0.isAddress }) + descendants.filter(\.isAddress) {
      if let keeper {
        if descendant == .session(keeper) { continue }
        if try await rows.lineage.ancestors(of: descendant).contains(.session(keeper)) { continue }
      }
      try await end(descendant, of: subject, because: why, at: now, in: rows)
    }
    // Which credential a ticket stands for is not worth telling apart for five minutes.
    try await rows.tickets.remove(of: subject)
  }

  private mutating func end(
    _ member: LineageMember, of subject: SubjectID, because why: Session.End, at now: Timestamp,
    in rows: some IdentityTransaction
  ) async throws(StorageError) {
    switch member {
    case .session(let id):
      guard let session = try await rows.sessions.find(id) else { return }
      try await end(id, because: why, at: now, in: rows)
      // A guest's device is its way in: what was let in leaves it. A session that has ended stays on record, and with it
      // what it came of.
      if session.isGuest, let key = session.device.keyThumbprint {
        try await rows.devices.removeGuest(session.subject, from: key)
      }
    case .unlock(let kind, let key):
      _ = try await rows.unlocks.remove(kind, key, of: subject)
      notes.append(AuditNote(.credentialRemoved, at: now, subject: subject, detail: "came of what was ended"))
      try await rows.lineage.remove(ancestorsOf: member)
    case .identity(let kind, let value):
      // The last one goes only while somebody is signed in, who can link another: a thief who took the owner's address
      // off would otherwise keep the account by theirs. With nobody there it stays, or nobody could sign in any more.
      let isLast = try await rows.identities.all(of: subject).count <= 1
      let isSomebodyThere = try await !rows.sessions.live(of: subject, at: now, limit: 1).isEmpty
      if !isLast || isSomebodyThere {
        _ = try await rows.identities.remove(kind, value, of: subject)
      }
      notes.append(AuditNote(.identityUnlinked, at: now, subject: subject, detail: "came of what was ended"))
      try await rows.lineage.remove(ancestorsOf: member)
    case .code, .transfer: return
    }
  }
}
