import LatchkeyModel

/// What became of a conflict that somebody decided.
package enum ResolveOutcome: Sendable, Equatable {
  case resolved
  /// There is no such conflict, or none any more.
  case notFound
  /// The account's record was written since the revision that the caller saw; nil when there is none.
  case revisionMismatch(current: Int64?)
  /// The policy cannot decide it: the record stays set aside.
  case remains(ConflictReason)
  /// The migration is under way, or was taken back.
  case notDone
  /// The account was deleted.
  case deleted
  case unknown
}
