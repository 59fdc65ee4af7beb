import LatchkeyModel

/// What became of a plan that was to be started.
package enum StartOutcome: Sendable, Equatable {
  /// A new migration, or the one that this plan or key already started.
  case started(MigrationID)
  /// The records changed since the plan was made, or the plan was replaced or has expired.
  case stale
  /// The key has started another plan.
  case keyReused
  /// Another migration of the same guest is under way.
  case migrating
  /// The guest's records have already been moved.
  case migrated
}
