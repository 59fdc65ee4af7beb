import LatchkeyModel
import Storage

/// The right to drive a migration for a while. Whatever is claimed is claimed with one, and a step is done only while it
/// holds and the migration still stands at that step: two workers cannot both do it.
package struct JobLease: Sendable, Hashable {
  /// The longest that a migration is ever held without progress, or put off. What seems to be for longer was held or put
  /// off before the clock was set back, and is due.
  package static let longestPause: Duration = .seconds(60)

  /// Random for each claim: nobody else holds the same, and neither does who claims again what they lost.
  package let holder: OpaqueIDValue
  package let duration: Duration

  package init(holder: OpaqueIDValue, duration: Duration) {
    precondition(duration <= Self.longestPause, "a longer claim would not be told from one of another time")
    self.holder = holder
    self.duration = duration
  }
}

extension StoredMigration {
  /// Whether who has the lease still holds it.
  func isHeld(by lease: JobLease, at now: Timestamp) -> Bool {
    claim.map { $0.holder == lease.holder && $0.until > now } ?? false
  }

  /// It moved on: the claim goes on, or ends with the migration.
  mutating func moved(_ lease: JobLease, at now: Timestamp) {
    claim = migration.isFinished ? nil : Claim(holder: lease.holder, until: now + lease.duration)
    (failures, hindrance) = (0, nil)
  }
}

/// A worker takes the migration that has waited longest, for as long as the lease lasts. Nil when none is due.
package struct ClaimMigration: MigrationCommand {
  package static let name = "claim a migration"

  package var lease: JobLease
  package var now: Timestamp

  package init(_ lease: JobLease, at now: Timestamp) {
    self.lease = lease
    self.now = now
  }

  package struct Claimed: Sendable, Equatable {
    package let migration: Migration
    /// How often it was given back since it last moved on.
    package let failures: Int
    /// How often it was claimed: higher than that of any claim before.
    package let epoch: Int64
    /// What it was started with.
    package let idempotencyKey: String

    package init(migration: Migration, failures: Int, epoch: Int64, idempotencyKey: String) {
      self.migration = migration
      self.failures = failures
      self.epoch = epoch
      self.idempotencyKey = idempotencyKey
    }
  }

  package func decide(in rows: some MigrationTransaction) async throws(StorageError) -> Claimed? {
    let end = now + JobLease.longestPause
    guard var stored = try await rows.migrations.lockDue(at: now, unlessBeyond: end) else { return nil }
    stored.claim = StoredMigration.Claim(holder: lease.holder, until: now + lease.duration)
    stored.epoch += 1
    try await rows.migrations.change(stored)
    return Claimed(
      migration: stored.migration, failures: stored.failures, epoch: stored.epoch,
      idempotencyKey: stored.idempotencyKey)
  }
}

/// A worker gives a claimed migration back.
package struct ReleaseMigration: MigrationCommand {
  package static let name = "release a migration"

  package enum Why: Sendable, Equatable {
    /// It has had its turn, and stands behind everything else that is due.
    case turnIsOver
    /// It is put off, for `JobLease.longestPause` at most; why is told to whoever asks.
    case failed(String)
  }

  package var id: MigrationID
  package var lease: JobLease
  /// When it is due again.
  package var time: Timestamp
  package var why: Why

  package init(_ id: MigrationID, lease: JobLease, until time: Timestamp, because why: Why) {
    self.id = id
    self.lease = lease
    self.time = time
    self.why = why
  }

  package func decide(in rows: some MigrationTransaction) async throws(StorageError) {
    guard var stored = try await rows.migrations.lock(id), stored.claim?.holder == lease.holder,
      !stored.migration.isFinished
    else { return }
    stored.claim = nil
    stored.runAt = time
    if case .failed(let hindrance) = why {
      stored.failures += 1
      stored.hindrance = hindrance
    }
    try await rows.migrations.change(stored)
  }
}

/// Gives back everything that was claimed: for the start of the one process that owns the store.
package struct ReleaseAll: MigrationCommand {
  package static let name = "release all migrations"

  package init() {}

  package func decide(in rows: some MigrationTransaction) async throws(StorageError) {
    try await rows.migrations.removeClaims()
  }
}

/// When the next migration that nobody holds is due; nil when there is none.
package struct FindNextDue: MigrationOperation {
  package static let name = "find what is due"

  package init() {}

  package func run(in rows: some MigrationTransaction) async throws(StorageError) -> Timestamp? {
    try await rows.migrations.nextDue()
  }
}
