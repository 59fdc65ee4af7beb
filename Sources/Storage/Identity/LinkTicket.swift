import LatchkeyModel

/// Lets a guest's device finish a sign-in by choosing, without presenting the credential again.
package struct LinkTicket: Sendable, Equatable {
  /// SHA-256 of the ticket.
  package var hash: [UInt8]
  package var guestSession: SessionID
  package var account: SubjectID
  /// What the credential gave that it stands for.
  package var authority: Authority
  /// The credential, set by the command that keeps the ticket.
  package var credential: LineageMember?
  package var accountMask: String
  /// For a sign-in by a QR code, the session that the code began.
  package var qrSession: SessionID?
  package var expiry: Timestamp

  package init(
    hash: [UInt8],
    guestSession: SessionID,
    account: SubjectID,
    authority: Authority,
    credential: LineageMember? = nil,
    accountMask: String,
    qrSession: SessionID? = nil,
    expiry: Timestamp
  ) {
    self.hash = hash
    self.guestSession = guestSession
    self.account = account
    self.authority = authority
    self.credential = credential
    self.accountMask = accountMask
    self.qrSession = qrSession
    self.expiry = expiry
  }
}
