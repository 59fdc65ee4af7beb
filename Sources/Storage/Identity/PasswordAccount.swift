import LatchkeyModel

/// An account as a sign-in by a secret needs it.
package struct PasswordAccount: Sendable, Equatable {
  package var subject: SubjectID
  /// The PHC string: of a custom identifier its own secret's, of the others the account's password's; nil when the
  /// account signs in by other methods only.
  package var passwordHash: String?
  /// False for an address that nobody showed to be theirs: then nothing but the account's own password leads there by it.
  package var isProven: Bool

  package init(subject: SubjectID, passwordHash: String?, isProven: Bool) {
    self.subject = subject
    self.passwordHash = passwordHash
    self.isProven = isProven
  }
}
