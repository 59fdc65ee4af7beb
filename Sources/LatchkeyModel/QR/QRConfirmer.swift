/// Who scans and decides: the account, the signed-in session it speaks through, and what its token proves.
package struct QRConfirmer: Sendable, Equatable {
  package let subject: SubjectID
  package let sessionID: SessionID
  package let isGuest: Bool
  /// When the person last proved who they are (`auth_time`); nil where the token does not say.
  package let authenticated: Timestamp?
  /// The key that the confirming device's token is bound to, if any.
  package let keyThumbprint: String?
  /// The key of the device that its session began on, if any.
  package var deviceKeyThumbprint: String?

  package init(
    subject: SubjectID,
    sessionID: SessionID,
    isGuest: Bool,
    authenticated: Timestamp?,
    keyThumbprint: String? = nil,
    deviceKeyThumbprint: String? = nil
  ) {
    self.subject = subject
    self.sessionID = sessionID
    self.isGuest = isGuest
    self.authenticated = authenticated
    self.keyThumbprint = keyThumbprint
    self.deviceKeyThumbprint = deviceKeyThumbprint
  }
}
