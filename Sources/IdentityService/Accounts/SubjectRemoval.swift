import Domain
import GRPC
import LatchkeyModel

/// Deletes guests and accounts, with what they stored.
struct SubjectRemoval: Deciding {
  let domain: IdentityDomain
  /// Nil where there is no record store.
  let purger: RecordPurger?
  let surroundings: Surroundings

  /// Whether the records are gone now; if not, they are asked for until they are.
  func purgeRecords(of subject: SubjectID) async -> Bool {
    await purger?.purge(subject) ?? false
  }
}
