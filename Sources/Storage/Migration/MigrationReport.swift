import LatchkeyModel

/// Where a migration stands, with what happened so far.
package struct MigrationReport: Sendable, Equatable {
  package struct Collection: Sendable, Equatable {
    package let report: CollectionReport
    /// Records that the account holds now.
    package let targetCount: Int

    package init(report: CollectionReport, targetCount: Int) {
      self.report = report
      self.targetCount = targetCount
    }
  }

  package let migration: Migration
  /// In the order of their names.
  package let collections: [Collection]

  package init(migration: Migration, collections: [Collection]) {
    self.migration = migration
    self.collections = collections
  }
}
