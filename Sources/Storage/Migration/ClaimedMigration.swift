import LatchkeyModel

/// A migration that a worker has taken.
package struct ClaimedMigration: Sendable, Equatable {
  package let migration: Migration
  /// How often it was given back since it last moved on.
  package let failures: Int

  package init(migration: Migration, failures: Int) {
    self.migration = migration
    self.failures = failures
  }
}
