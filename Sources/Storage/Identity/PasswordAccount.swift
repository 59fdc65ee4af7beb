import LatchkeyModel

/// An account as a sign-in by a secret needs it.
package struct PasswordAccount: Sendable, Equatable {
  package var subject: SubjectID
  /// The PHC string: of a custom identifier its own secret's, of the others the account's password's; nil when the account signs in by other methods only.
  package var passwordHash: String?

  package init(subject: SubjectID, passwordHash: String?) {
    self.subject = subject
    self.passwordHash = passwordHash
  }
}
