import LatchkeyModel

/// The record of security events. Nothing changes what is in it, and only age removes it.
package protocol AuditStore: Sendable {
  /// Records events that belong to no other change, as one.
  func record(_ notes: [AuditNote]) async throws(StorageError)

  /// From where the chain goes on: nil while nothing was ever forgotten.
  func checkpoint() async throws(StorageError) -> AuditCheckpoint?

  /// Forgets at most `limit` of the oldest events that are older than `time`, as one change that seals where the chain
  /// goes on. Returns how many.
  func trim(before time: Timestamp, limit: Int, at now: Timestamp) async throws(StorageError) -> Int

  /// How many events of a kind there are. Cost: reads all events, so it is asked by upkeep and by no call.
  func count(of kind: AuditNote.Kind) async throws(StorageError) -> Int

  /// Events after a sequence number, oldest first; of one subject when one is named.
  func events(after sequence: Int64, of subject: SubjectID?, limit: Int) async throws(StorageError) -> [AuditEvent]
}
