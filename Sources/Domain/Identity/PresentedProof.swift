import LatchkeyModel
import Storage

/// Whom a proof leads to and what it is good for, looked at by the change that acts on it, which holds that account: what
/// the proof stands on does not change before the change is over.
struct PresentedProof {
  let account: SubjectID
  /// Nil for one that is no more.
  var owner: Subject?
  /// The account as its owner recognises it.
  let mask: String
  /// What came before, where this is no proof of now: a session that it takes the place of, what a device was bound
  /// with, what a ticket stands for.
  var source: Authority?
  /// The session of a QR code whose place the new one takes.
  var earlier: Session?
  /// The credential by which the caller proved themselves.
  var credential: LineageMember?
  /// The device that the credential is of.
  var device: String?

  enum Finding {
    case found(PresentedProof)
    /// The credential is another by now, or leads to somebody else.
    case changed
    case noTicket
  }

  /// - Parameter guest: whose ticket it is, if it is one.
  static func find(
    _ proof: SignIn.Proof, guest: SessionID?, at now: Timestamp, in rows: some IdentityTransaction
  ) async throws(StorageError) -> Finding {
    guard let account = try await account(behind: proof, in: rows) else {
      if case .ticket = proof { return .noTicket }
      return .changed
    }
    let owner = try await rows.subjects.lock(account)
    var finding = try await look(at: proof, guest: guest, at: now, in: rows)
    if case .found(var presented) = finding, presented.account == account {
      presented.owner = owner
      finding = .found(presented)
    }
    return finding
  }

  /// Whose it is, by a look without a lock.
  private static func account(
    behind proof: SignIn.Proof, in rows: some IdentityTransaction
  ) async throws(StorageError) -> SubjectID? {
    switch proof {
    case .password(let subject, _, _), .code(let subject, _, _), .identity(let subject, _),
      .unlock(let subject, _, _, _):
      subject
    case .qrGrant(let id, _): try await rows.sessions.find(id)?.subject
    case .ticket(let hash): try await rows.tickets.find(hash)?.account
    }
  }

  /// The account is held.
  private static func look(
    at proof: SignIn.Proof, guest: SessionID?, at now: Timestamp, in rows: some IdentityTransaction
  ) async throws(StorageError) -> Finding {
    switch proof {
    case .password(let subject, let identifier, let hash):
      guard let current = try await rows.identities.account(for: identifier), current.subject == subject,
        current.passwordHash == hash
      else { return .changed }
      return .found(named(identifier, subject))
    case .code(let subject, let identifier, _):
      guard let current = try await rows.identities.account(for: identifier), current.subject == subject,
        current.isProven
      else { return .changed }
      return .found(named(identifier, subject))
    case .identity(let subject, let identifier):
      guard try await rows.identities.account(for: identifier)?.subject == subject else { return .changed }
      return .found(named(identifier, subject))
    case .unlock(let subject, let kind, let key, let mask):
      guard let unlock = try await rows.unlocks.find(kind, key), unlock.account == subject else { return .changed }
      var presented = PresentedProof(account: subject, mask: mask)
      presented.device = unlock.deviceKey
      presented.source = unlock.binding?.authority(ofKey: unlock.deviceKey)
      presented.credential = .unlock(kind, key: key)
      if let source = presented.source, source.expiry <= now { return .changed }
      return .found(presented)
    case .qrGrant(let id, let provenAt):
      return try await replacing(id, provenAt: provenAt, at: now, in: rows)
    case .ticket(let hash):
      guard let guest, let ticket = try await rows.tickets.lock(hash), ticket.holds(for: guest, at: now) else {
        return .noTicket
      }
      if let code = ticket.qrSession {
        let provenAt = ticket.authority.provenAt
        guard case .found(let presented) = try await replacing(code, provenAt: provenAt, at: now, in: rows),
          presented.account == ticket.account
        else { return .changed }
        return .found(presented)
      }
      var presented = PresentedProof(account: ticket.account, mask: ticket.accountMask)
      presented.source = ticket.authority
      presented.credential = ticket.credential
      return .found(presented)
    }
  }

  private static func named(_ identifier: AccountIdentifier, _ account: SubjectID) -> PresentedProof {
    var presented = PresentedProof(account: account, mask: identifier.mask)
    presented.credential = .identity(identifier.kind, value: identifier.canonical)
    return presented
  }

  private static func replacing(
    _ id: SessionID, provenAt: Timestamp?, at now: Timestamp, in rows: some IdentityTransaction
  ) async throws(StorageError) -> Finding {
    guard let session = try await rows.sessions.lockLive(id, at: now), session.method == .qr, !session.isGuest,
      !session.wasSteppedUp(since: provenAt)
    else { return .changed }
    var presented = PresentedProof(
      account: session.subject, mask: try await rows.identities.mask(of: session.subject))
    presented.source = session.authority
    presented.earlier = session
    return .found(presented)
  }
}

extension LinkTicket {
  func holds(for guest: SessionID, at now: Timestamp) -> Bool { guestSession == guest && expiry > now }
}
