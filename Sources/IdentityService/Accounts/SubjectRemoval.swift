import GRPC
import LatchkeyModel
import Storage

/// Deletes guests and accounts, with what they stored.
struct SubjectRemoval: Surrounded {
  let subjects: any SubjectStore
  /// Nil where there is no record store.
  let purger: RecordPurger?
  let surroundings: Surroundings

  func delete(_ deletion: SubjectDeletion) async throws(RPCError) -> DeletionOutcome {
    try await stored { () throws(StorageError) in try await subjects.delete(deletion) }
  }

  /// Whether the records are gone now; if not, they are asked for until they are.
  func purgeRecords(of subject: SubjectID) async -> Bool {
    await purger?.purge(subject) ?? false
  }
}
