import LatchkeyModel

/// What a confirmed QR code grants.
package struct QRGrant: Sendable {
  package var qrSession: String
  package var subject: SubjectID
  /// The session that confirmed; it must be live and the subject's.
  package var confirmedBy: SessionID
  package var draft: SessionDraft

  package init(qrSession: String, subject: SubjectID, confirmedBy: SessionID, draft: SessionDraft) {
    self.qrSession = qrSession
    self.subject = subject
    self.confirmedBy = confirmedBy
    self.draft = draft
  }
}
