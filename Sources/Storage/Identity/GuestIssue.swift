import LatchkeyModel

/// What it takes to issue a guest: a device that proved its key, and the session to begin.
package struct GuestIssue: Sendable {
  package var device: DeviceRegistration
  /// SHA-256 of the challenge that the device signed, kept until `challengeExpiry` so that it cannot be used again.
  package var challengeHash: [UInt8]
  package var challengeExpiry: Timestamp
  /// Who the guest becomes if there is none yet.
  package var newSubject: SubjectID
  package var locale: LanguageTag?
  /// How many proofs the key has signed; 0 when the app counts nothing.
  package var counter: Int64
  package var draft: SessionDraft
  /// Whether a key that has no guest may have one made.
  package var mayBeNew: Bool

  package init(
    device: DeviceRegistration,
    challengeHash: [UInt8],
    challengeExpiry: Timestamp,
    newSubject: SubjectID,
    locale: LanguageTag?,
    counter: Int64 = 0,
    draft: SessionDraft,
    mayBeNew: Bool = true
  ) {
    self.device = device
    self.challengeHash = challengeHash
    self.challengeExpiry = challengeExpiry
    self.newSubject = newSubject
    self.locale = locale
    self.counter = counter
    self.draft = draft
    self.mayBeNew = mayBeNew
  }
}
