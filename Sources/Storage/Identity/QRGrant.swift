import LatchkeyModel

/// What a confirmed QR code grants.
package struct QRGrant: Sendable {
  package enum Kind: Sendable {
    case signIn
    /// The device joins the account: it stays one of its devices and signs in by its key until it is removed.
    case bind(DeviceRegistration)
    /// The confirming guest or account moves to the device.
    case transfer(DeviceRegistration)
  }

  package var qrSession: String
  package var subject: SubjectID
  /// The session that confirmed; it must be live and the subject's.
  package var confirmedBy: SessionID
  package var draft: SessionDraft
  package var kind: Kind

  package init(
    qrSession: String,
    subject: SubjectID,
    confirmedBy: SessionID,
    draft: SessionDraft,
    kind: Kind = .signIn
  ) {
    self.qrSession = qrSession
    self.subject = subject
    self.confirmedBy = confirmedBy
    self.draft = draft
    self.kind = kind
  }
}
