import LatchkeyProtos
import ServiceRuntime

/// Who may call each method of the migrator.
package enum MigratorAccess {
  package static let policies = migrations + records

  private static let migrations = AccessPolicies(MigrationV1.MigrationServiceMethod.self) { method in
    switch method {
    case .getMigration, .watchMigration, .listMigrations, .listConflicts: .account(.profile).orService
    case .planMigration, .startMigration, .retryMigration: .account(.account).orService
    case .undoMigration, .resolveConflict: .account(.account, .recentProof, .confirmed).orService
    }
  }

  private static let records = AccessPolicies(MigrationV1.RecordServiceMethod.self) { method in
    switch method {
    case .putRecords, .getRecord, .listRecords, .deleteRecord, .listCollections: .subject(.basic)
    case .describeRecords, .purgeRecords: .services([.identity])
    }
  }
}
