import LatchkeyModel
import Storage
import StorageSQLite
import TestSupport
import Testing

/// The engines that every conformance suite runs over, as `arguments: StorageEngine.allCases`.
///
/// To add one: a case here, and how it opens each service's stores. A suite talks to the ports of `Storage` only, so what
/// it demands of one engine it demands of all.
enum StorageEngine: String, CaseIterable, Sendable, CustomTestStringConvertible {
  case sqlite

  var testDescription: String { rawValue }

  /// The migrator's stores, in `folder`; opened again they hold what was stored before.
  func openMigrator(
    in folder: TemporaryFolder, undoWindow: Duration = MigratorStores.undoWindow
  ) throws(StorageError) -> MigratorStores {
    try openMigrator(at: folder.file("test.db"), undoWindow: undoWindow)
  }

  func openMigrator(
    at path: String, undoWindow: Duration = MigratorStores.undoWindow
  ) throws(StorageError) -> MigratorStores {
    switch self {
    case .sqlite:
      let database = try SQLiteDatabase.open(path: path, schema: MigrationSchema.schema)
      return MigratorStores(
        records: SQLiteRecordStore(database), migrations: SQLiteMigrationStore(database, undoWindow: undoWindow),
        close: { await database.close() })
    }
  }
}

extension RecordStore {
  /// For what is not about bounds.
  func put(_ records: [RecordDraft], of subject: SubjectID) async throws(StorageError) -> WriteOutcome<Int> {
    try await put(records, of: subject, within: RecordBounds(records: .max, bytes: .max, collections: .max))
  }
}

/// The stores of `migrator.db`.
struct MigratorStores: Sendable {
  static let undoWindow: Duration = .seconds(3600)

  let records: any RecordStore
  let migrations: any MigrationStore
  let close: @Sendable () async -> Void
}
