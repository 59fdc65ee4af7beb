import LatchkeyModel

/// A migration that a worker has taken.
package struct ClaimedMigration: Sendable, Equatable {
  package let migration: Migration
  /// How often it was given back since it last moved on.
  package let failures: Int
  /// How often it was claimed: higher than that of any claim before.
  package let epoch: Int64

  package init(migration: Migration, failures: Int, epoch: Int64) {
    self.migration = migration
    self.failures = failures
    self.epoch = epoch
  }
}
