import LatchkeyModel

/// What became of a change to a subject's records.
package enum WriteOutcome<Value: Sendable & Equatable>: Sendable, Equatable {
  case done(Value)
  /// The records are being moved into an account; wait until that is over.
  case migrating
  /// The records belong to an account now, for good.
  case migrated
  /// The subject was deleted.
  case deleted
  /// The subject would store more than it may.
  case full(RecordBounds.Kind)
}
