import LatchkeyModel

/// A security event that is about to be recorded: who, when, from where, what, and how it ended. Holds no secret, and
/// nothing that a caller typed but the address that a connection came from.
package struct AuditNote: Sendable, Equatable {
  /// What happened. Stored and shown: never renamed.
  package enum Kind: String, Sendable, CaseIterable {
    case accountCreated = "account_created"
    case sessionBegan = "session_began"
    case sessionEnded = "session_ended"
    case steppedUp = "stepped_up"
    case identityLinked = "identity_linked"
    case identityVerified = "identity_verified"
    case identityReleased = "identity_released"
    case identityUnlinked = "identity_unlinked"
    case passwordChanged = "password_changed"
    case passwordRemoved = "password_removed"
    case credentialEnrolled = "credential_enrolled"
    case credentialRemoved = "credential_removed"
    case transferOffered = "transfer_offered"
    case subjectMoved = "subject_moved"
    case deviceCloned = "device_cloned"
    case cloneResolved = "clone_resolved"
    case deviceKeyRotated = "device_key_rotated"
    case guestDeleted = "guest_deleted"
    case accountDeleted = "account_deleted"
    case subjectDisabled = "subject_disabled"
    case subjectEnabled = "subject_enabled"
    case guestExported = "guest_exported"
    case adminChanged = "admin_changed"
    case guestMerged = "guest_merged"
    case guestRestored = "guest_restored"
    case mergeAbandoned = "merge_abandoned"
    case callRefused = "call_refused"
    case refusalsDropped = "refusals_dropped"
    case logSealed = "log_sealed"
  }

  package var kind: Kind
  package var at: Timestamp
  package var subject: SubjectID?
  package var session: SessionID?
  /// The network address of the caller; empty where the event has none of its own.
  package var address: String
  /// The particulars in words of ours: a method, a reason, a mask.
  package var detail: String

  package init(
    _ kind: Kind,
    at: Timestamp,
    subject: SubjectID? = nil,
    session: SessionID? = nil,
    address: String = "",
    detail: String = ""
  ) {
    self.kind = kind
    self.at = at
    self.subject = subject
    self.session = session
    self.address = address
    self.detail = detail
  }
}
