import LatchkeyModel

/// Plans, migrations and the queue of those that are under way.
///
/// Errors: ``StorageError``. Each method is one transaction. Whatever is claimed is claimed with a ``JobLease``, and a
/// step is done only while the lease holds and the migration still stands at that step: two workers cannot both do it.
package protocol MigrationStore: Sendable {
  /// What moving `guest` into `target` under `rules` would do now.
  func plan(
    guest: SubjectID,
    target: SubjectID,
    rules: CollectionRules,
    isFirstLoginOnDevice: Bool
  ) async throws(StorageError) -> WriteOutcome<MigrationPlan>

  /// Keeps a plan until it expires, in place of an earlier one for the same guest and target that was not started.
  func save(
    _ plan: MigrationPlan,
    as id: PlanID,
    digest: [UInt8],
    at now: Timestamp,
    expiresAt: Timestamp
  ) async throws(StorageError)

  /// A plan that was saved and has not been replaced. It may have expired.
  func savedPlan(_ id: PlanID) async throws(StorageError) -> StoredPlan?

  /// Makes the migration of a plan and freezes its guest, if the records are still those that were planned for.
  /// Idempotent for each plan, and for each target and idempotency key.
  func start(
    _ plan: PlanID,
    as id: MigrationID,
    idempotencyKey: String,
    at now: Timestamp
  ) async throws(StorageError) -> StartOutcome

  func migration(_ id: MigrationID) async throws(StorageError) -> MigrationReport?

  /// Takes the migration that has waited longest, for as long as the lease lasts. Nil when none is due.
  func claim(_ lease: JobLease, at now: Timestamp) async throws(StorageError) -> ClaimedMigration?

  /// Does `action` and stores its effects and the migration's new state together; keeps the lease. Nil when the lease
  /// is lost or the migration stands elsewhere: nothing was changed. A bounded part of APPLY, VERIFY and PURGE is done
  /// at a time. For SWITCH the effect outside the store has happened before.
  func perform(
    _ action: Migration.Action,
    of id: MigrationID,
    lease: JobLease,
    at now: Timestamp
  ) async throws(StorageError) -> Migration?

  /// Notes that identity will never switch the guest; what was merged is undone from here on. Nil as in `perform`.
  func refuseSwitch(
    of id: MigrationID,
    reason: String,
    lease: JobLease,
    at now: Timestamp
  ) async throws(StorageError) -> Migration?

  /// Begins to take back what is done, while its time lasts.
  func undo(_ id: MigrationID, at now: Timestamp) async throws(StorageError) -> UndoOutcome

  /// Notes that identity will not make the guest one again: the migration is done, as before. Nil as in `perform`.
  func refuseUndo(
    of id: MigrationID,
    reason: String,
    lease: JobLease,
    at now: Timestamp
  ) async throws(StorageError) -> Migration?

  /// Forgets a bounded number of rows that only taking back would need, of migrations whose time for that is over.
  /// Returns how many.
  func forgetUndo(at now: Timestamp, limit: Int) async throws(StorageError) -> Int

  /// Migrations into `target`, at most `count`, newest first, beyond `position`.
  func migrations(
    into target: SubjectID,
    beyond position: MigrationPosition?,
    count: Int
  ) async throws(StorageError) -> (migrations: [Migration], hasMore: Bool)

  /// Begins a failed migration again, if the guest's records are still those that were planned for. Idempotent.
  func retry(_ id: MigrationID, at now: Timestamp) async throws(StorageError) -> RetryOutcome

  /// Gives a claimed migration back, to be claimed again from `time` on, which is at most `JobLease.longestPause` away.
  func release(_ id: MigrationID, lease: JobLease, until time: Timestamp) async throws(StorageError)

  /// Gives a claimed migration back that has had its turn, behind everything else that is due.
  func rest(_ id: MigrationID, lease: JobLease, at now: Timestamp) async throws(StorageError)

  /// Gives back everything that was claimed: for the start of the one process that owns the store.
  func releaseAll() async throws(StorageError)

  /// When the next migration that nobody holds is due; nil when there is none.
  func nextDue() async throws(StorageError) -> Timestamp?

  /// The records that were set aside and not decided about, at most `count`, in the order of their names, beyond `name`.
  /// Their values hold at most `bytes` together, except that there is at least one when there are any.
  func conflicts(
    of id: MigrationID,
    beyond name: RecordName?,
    count: Int,
    bytes: Int
  ) async throws(StorageError) -> (conflicts: [MigrationConflict], hasMore: Bool)

  /// Decides about a record that was set aside. With `revision`, only while the account's record has it.
  func resolve(
    _ name: RecordName,
    of id: MigrationID,
    by policy: MigrationPolicy,
    revision: Int64?
  ) async throws(StorageError) -> ResolveOutcome
}
