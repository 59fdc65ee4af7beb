import LatchkeyModel

/// Lets a guest's device finish a sign-in by choosing, without presenting the credential again.
package struct LinkTicket: Sendable, Equatable {
  /// SHA-256 of the ticket.
  package var hash: [UInt8]
  package var guestSession: SessionID
  package var account: SubjectID
  package var method: SignInMethod
  package var accountMask: String
  /// For a sign-in by a QR code, the session that the code began.
  package var qrSession: SessionID?
  package var expiry: Timestamp

  package init(
    hash: [UInt8],
    guestSession: SessionID,
    account: SubjectID,
    method: SignInMethod,
    accountMask: String,
    qrSession: SessionID? = nil,
    expiry: Timestamp
  ) {
    self.hash = hash
    self.guestSession = guestSession
    self.account = account
    self.method = method
    self.accountMask = accountMask
    self.qrSession = qrSession
    self.expiry = expiry
  }
}
