import LatchkeyModel

/// A guest's record that was set aside, with what the account holds under its name now.
package struct MigrationConflict: Sendable, Equatable {
  package let name: RecordName
  package let reason: ConflictReason
  package let guest: RecordContent
  package let account: Record?

  package init(name: RecordName, reason: ConflictReason, guest: RecordContent, account: Record?) {
    self.name = name
    self.reason = reason
    self.guest = guest
    self.account = account
  }
}
