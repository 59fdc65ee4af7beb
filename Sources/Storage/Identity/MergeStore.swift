import LatchkeyModel

/// Wishes to move a guest's data into an account: written with the sign-in that made them, kept until the migrator has
/// taken them on and finished.
package protocol MergeStore: Sendable {
  /// Those to be handed to the migrator now, oldest first.
  func due(at now: Timestamp, limit: Int) async throws(StorageError) -> [PendingMerge]

  func merge(_ id: MergeID) async throws(StorageError) -> PendingMerge?

  /// Notes the migrator's plan before it is started, so that starting it again after a crash is the same request.
  func notePlan(_ plan: PendingMerge.Plan?, of id: MergeID) async throws(StorageError)

  /// The migrator has it.
  func noteStarted(_ id: MergeID, migration: String, at now: Timestamp) async throws(StorageError)

  /// Tries again not before `next`.
  func noteFailure(_ id: MergeID, reason: String, next: Timestamp) async throws(StorageError)

  /// The migrator has given it up: the guest is one like any other again. False when no merge of the guest was open.
  /// Idempotent.
  func fail(
    migration: String, guest: SubjectID, target: SubjectID, reason: String, at now: Timestamp
  ) async throws(StorageError) -> Bool

  /// Gives up: the migrator will never take it.
  func abandon(_ id: MergeID, reason: String, at now: Timestamp) async throws(StorageError)

  /// The guest's data has moved: the guest becomes part of the account and its sessions end. Idempotent.
  func complete(
    migration: String, guest: SubjectID, target: SubjectID, at now: Timestamp
  ) async throws(StorageError) -> CompletionOutcome

  /// The merge is taken back: the guest is one again, on the devices that it was on. Idempotent.
  func restore(guest: SubjectID, from target: SubjectID, at now: Timestamp) async throws(StorageError) -> RestoreOutcome
}
