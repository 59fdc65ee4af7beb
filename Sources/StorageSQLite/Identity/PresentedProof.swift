import LatchkeyModel
import Storage

/// Whom a proof leads to and what it is good for, looked at by the change that acts on it.
struct PresentedProof {
  let account: SubjectID
  /// The account as its owner recognises it.
  let mask: String
  /// What came before, where this is no proof of now: a session that it takes the place of, what a device was bound
  /// with, what a ticket stands for.
  var source: Authority?
  /// The session of a QR code whose place the new one takes.
  var earlier: Session?
  /// The credential by which the caller proved themselves.
  var credential: [UInt8]?
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
    _ proof: SignIn.Proof, guest: SessionID?, at now: Timestamp, in db: SQLiteConnection
  ) throws(StorageError) -> Finding {
    switch proof {
    case .password(let subject, let identifier, let hash):
      guard let current = try SQLiteAccountStore.account(for: identifier, in: db), current.subject == subject,
        current.passwordHash == hash
      else { return .changed }
      return .found(named(identifier, subject))
    case .code(let subject, let identifier, _):
      guard let current = try SQLiteAccountStore.account(for: identifier, in: db), current.subject == subject,
        current.isProven
      else { return .changed }
      return .found(named(identifier, subject))
    case .identity(let subject, let identifier):
      guard try SQLiteAccountStore.account(for: identifier, in: db)?.subject == subject else { return .changed }
      return .found(named(identifier, subject))
    case .unlock(let subject, let kind, let key, let mask):
      guard let unlock = try UnlockRow.find(kind, key, in: db), unlock.account == subject else { return .changed }
      var presented = PresentedProof(account: subject, mask: mask)
      presented.device = unlock.deviceKey
      presented.source = unlock.binding?.authority(ofKey: unlock.deviceKey)
      presented.credential = LineageRow.Member.unlock(kind, key: key).bytes
      if let source = presented.source, source.expiry <= now { return .changed }
      return .found(presented)
    case .qrGrant(let id):
      return try replacing(id, at: now, in: db)
    case .ticket(let hash):
      guard let guest, let ticket = try TicketRow.find(hash, of: guest, at: now, in: db) else { return .noTicket }
      if let code = ticket.qrSession {
        guard case .found(let presented) = try replacing(code, at: now, in: db), presented.account == ticket.account
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
    presented.credential = LineageRow.Member.identity(identifier.kind, value: identifier.canonical).bytes
    return presented
  }

  private static func replacing(
    _ id: SessionID, at now: Timestamp, in db: SQLiteConnection
  ) throws(StorageError) -> Finding {
    guard let session = try SessionRow.live(id, at: now, in: db), session.method == .qr, !session.isGuest else {
      return .changed
    }
    var presented = PresentedProof(account: session.subject, mask: try IdentityRow.mask(of: session.subject, in: db))
    presented.source = session.authority
    presented.earlier = session
    return .found(presented)
  }
}
