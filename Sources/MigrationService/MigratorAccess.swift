import LatchkeyProtos
import ServiceRuntime

/// Who may call each method of the migrator.
package enum MigratorAccess {
  package static let policies = migrations + records

  private static let migrations = AccessPolicies(MigrationV1.MigrationServiceMethod.self) { method in
    switch method {
    case .planMigration, .startMigration, .getMigration, .watchMigration, .retryMigration, .listMigrations,
      .undoMigration, .listConflicts, .resolveConflict:
      .accountOrService
    }
  }

  private static let records = AccessPolicies(MigrationV1.RecordServiceMethod.self) { method in
    switch method {
    case .putRecords, .getRecord, .listRecords, .deleteRecord, .listCollections: .subject
    case .describeRecords, .purgeRecords: .services([.identity])
    }
  }
}
