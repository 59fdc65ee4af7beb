/// An engine that keeps what the migrator knows: everybody's records, and the merges of guests into accounts. As with
/// ``IdentityStorage``, it stores rows and runs operations in transactions; what the rows mean is the domain's.
///
/// Records come by the hundred thousand, so their rows are asked for by the page and written by the batch: an engine
/// answers a page with one statement, or one for each row of it, as is fastest there.
package protocol MigrationStorage: Sendable {
  /// Whether other processes may work on the same rows, so that what is claimed may be theirs.
  var isShared: Bool { get }

  /// Runs an operation as one change, and returns once that is durable. Whatever it throws, nothing of it is stored. May
  /// be answered together with others, in any order, but never in the midst of another: see ``MigrationTransaction``.
  func write<Operation: MigrationOperation>(
    _ operation: Operation
  ) async throws(StorageError) -> Operation.Outcome

  /// Runs an operation that changes nothing on one state of the rows.
  func read<Operation: MigrationOperation>(
    _ operation: Operation
  ) async throws(StorageError) -> Operation.Outcome
}

/// Something to be done in one transaction.
package protocol MigrationOperation: Sendable {
  associatedtype Outcome: Sendable

  /// What the engine calls it in its errors.
  static var name: String { get }

  /// Awaits the transaction's methods, one after the other, and nothing else. An engine may call it again from the
  /// beginning when the transaction could not be committed: it depends on the rows and on its own values alone.
  func run(in rows: some MigrationTransaction) async throws(StorageError) -> Outcome
}

/// One transaction over the migrator's rows, table by table. Its words mean what they mean in ``IdentityTransaction``.
///
/// Records, counts, reports and what merges keep have no locks of their own. Who locks an owner has all their records and
/// counts to themselves; who locks an account as an owner has all that is kept of the merges into it as well: what became
/// of each record, what is set aside, what guests had, and which of them can be taken back.
///
/// Everybody locks in one order, so that nobody waits for somebody who waits for them: owners first, in the order of their
/// ids; then a plan; then the migration that the operation is about; then others into an account that is locked, in the
/// order of theirs. Whose a migration is never changes, so that it is looked up before.
///
/// | operation | owners | then |
/// |---|---|---|
/// | put, delete, note an account | the subject | |
/// | purge | the subject | its plans; the migrations into it, of which none can be taken back any more |
/// | save a plan | the guest | the plans in its place; expired ones of others, unless somebody has them |
/// | start | guest and target | the plan |
/// | retry, undo | guest and target | the migration |
/// | FREEZE, APPLY, SWITCH, giving back | guest and target | the migration |
/// | PURGE | guest and target | the migration; those that can be taken back no longer |
/// | taking back | guest and target | the migration; those whose records lie over the ones that go |
/// | SNAPSHOT, VERIFY, recalling, telling | | the migration |
/// | a step refused | guest and target | the migration |
/// | resolve a conflict | target | the migration; those that can be taken back no longer |
/// | forget | target | the migration |
/// | claim | | the migration that is due and that nobody has locked |
/// | release | | the migration |
/// | release all, for the one process that owns a store | | all that are claimed |
package protocol MigrationTransaction {
  associatedtype Owners: RecordOwnerRows
  associatedtype Counts: CollectionCountRows
  associatedtype Records: RecordRows
  associatedtype Plans: PlanRows
  associatedtype Migrations: MigrationRows
  associatedtype Reports: CollectionReportRows
  associatedtype Merged: MergedRecordRows
  associatedtype SetAside: SetAsideRows
  associatedtype Moved: MovedRecordRows

  /// Who has records.
  var owners: Owners { get }
  /// How many they have of each collection.
  var counts: Counts { get }
  var records: Records { get }
  var plans: Plans { get }
  var migrations: Migrations { get }
  /// What happened to the collections of guests.
  var reports: Reports { get }
  /// What became of each record of a guest.
  var merged: Merged { get }
  /// Records that wait for a person.
  var setAside: SetAside { get }
  /// What guests had.
  var moved: Moved { get }
}
