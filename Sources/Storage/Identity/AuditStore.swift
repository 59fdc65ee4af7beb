import LatchkeyModel

/// The record of security events. Nothing changes or removes what is in it.
package protocol AuditStore: Sendable {
  /// Records events that belong to no other change, as one.
  func record(_ notes: [AuditNote]) async throws(StorageError)

  /// Events after a sequence number, oldest first; of one subject when one is named.
  func events(after sequence: Int64, of subject: SubjectID?, limit: Int) async throws(StorageError) -> [AuditEvent]
}
