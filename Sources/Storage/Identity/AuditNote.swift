import LatchkeyModel

/// A security event that is about to be recorded: who, when, from where, what, and how it ended. Holds no secret, and
/// nothing that a caller typed but the address that a connection came from.
package struct AuditNote: Sendable, Equatable {
  /// What happened. Stored and shown: never renamed. Those of a newer release are shown and verified as well.
  package struct Kind: RawRepresentable, Sendable, Hashable {
    package let rawValue: String

    package init(rawValue: String) {
      self.rawValue = rawValue
    }

    package static let accountCreated = Kind(rawValue: "account_created")
    package static let sessionBegan = Kind(rawValue: "session_began")
    package static let sessionEnded = Kind(rawValue: "session_ended")
    package static let steppedUp = Kind(rawValue: "stepped_up")
    package static let identityLinked = Kind(rawValue: "identity_linked")
    package static let identityVerified = Kind(rawValue: "identity_verified")
    package static let identityReleased = Kind(rawValue: "identity_released")
    package static let identityUnlinked = Kind(rawValue: "identity_unlinked")
    package static let passwordChanged = Kind(rawValue: "password_changed")
    package static let passwordRemoved = Kind(rawValue: "password_removed")
    package static let credentialEnrolled = Kind(rawValue: "credential_enrolled")
    package static let credentialRemoved = Kind(rawValue: "credential_removed")
    package static let transferOffered = Kind(rawValue: "transfer_offered")
    package static let subjectMoved = Kind(rawValue: "subject_moved")
    package static let deviceCloned = Kind(rawValue: "device_cloned")
    package static let cloneResolved = Kind(rawValue: "clone_resolved")
    package static let deviceKeyRotated = Kind(rawValue: "device_key_rotated")
    package static let guestDeleted = Kind(rawValue: "guest_deleted")
    package static let accountDeleted = Kind(rawValue: "account_deleted")
    package static let subjectDisabled = Kind(rawValue: "subject_disabled")
    package static let subjectEnabled = Kind(rawValue: "subject_enabled")
    package static let guestExported = Kind(rawValue: "guest_exported")
    package static let adminChanged = Kind(rawValue: "admin_changed")
    package static let guestMerged = Kind(rawValue: "guest_merged")
    package static let guestRestored = Kind(rawValue: "guest_restored")
    package static let mergeAbandoned = Kind(rawValue: "merge_abandoned")
    package static let callRefused = Kind(rawValue: "call_refused")
    package static let refusalsDropped = Kind(rawValue: "refusals_dropped")
    package static let logSealed = Kind(rawValue: "log_sealed")
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
