import LatchkeyModel
import Storage

/// Plans, migrations and their queue in `migrator.db`.
package struct SQLiteMigrationStore: MigrationStore {
  let database: SQLiteDatabase

  private let undoWindow: Duration
  private let checks = MigrationChecks()

  /// - Parameter undoWindow: how long what is done can be taken back. Meanwhile what a guest had is kept. Zero for not
  ///   at all.
  package init(_ database: SQLiteDatabase, undoWindow: Duration) {
    self.database = database
    self.undoWindow = undoWindow
  }

  // MARK: Plans

  private static let countConflicts = """
    SELECT count(*), count(*) FILTER (WHERE
      (g.number > 0 AND t.number > 9223372036854775807 - g.number)
      OR (g.number < 0 AND t.number < -9223372036854775807 - 1 - g.number))
    FROM records g JOIN records t ON t.sub = ?2 AND t.collection = g.collection AND t.key = g.key
    WHERE g.sub = ?1 AND g.collection = ?3
    """

  package func plan(
    guest: SubjectID,
    target: SubjectID,
    rules: CollectionRules,
    isFirstLoginOnDevice: Bool
  ) async throws(StorageError) -> WriteOutcome<MigrationPlan> {
    try await database.read { db throws(StorageError) in
      let source = SubjectRecords(subject: guest, db: db)
      let account = SubjectRecords(subject: target, db: db)
      let standing = try source.standing()
      if let refusal = standing.refusal(MigrationPlan.self) { return refusal }
      var collections: [MigrationPlan.Collection] = []
      for count in try source.counts() {
        let conflicts =
          try db.first(Self.countConflicts, .id(guest), .id(target), .name(count.collection)) {
            (Int($0.integer(0)), Int($0.integer(1)))
          } ?? (0, 0)
        collections.append(
          MigrationPlan.Collection(
            name: count.collection,
            rule: rules[count.collection],
            sourceCount: count.count,
            targetCount: try account.count(in: count.collection),
            conflicts: conflicts.0,
            overflows: conflicts.1))
      }
      return .done(
        MigrationPlan(
          guest: guest,
          target: target,
          guestVersion: standing.version,
          targetVersion: try account.standing().version,
          isFirstLoginOnDevice: isFirstLoginOnDevice,
          collections: collections))
    }
  }

  private static let deleteReplaced = "DELETE FROM plans WHERE guest = ? AND target = ? AND is_started = 0"
  private static let deleteExpired = """
    DELETE FROM plans WHERE is_started = 0 AND id IN (
      SELECT id FROM plans WHERE is_started = 0 AND expires_at < ? ORDER BY expires_at LIMIT ?)
    """
  private static let insertPlan = """
    INSERT INTO plans (id, guest, target, digest, guest_version, target_version, expires_at)
    VALUES (?, ?, ?, ?, ?, ?, ?)
    """
  private static let insertPlanCollection = """
    INSERT INTO plan_collections (plan, name, policy, maximum_rows) VALUES (?, ?, ?, ?)
    """

  package func save(
    _ plan: MigrationPlan,
    as id: PlanID,
    digest: [UInt8],
    at now: Timestamp,
    expiresAt: Timestamp
  ) async throws(StorageError) {
    try await database.write { db throws(StorageError) in
      try db.execute(Self.deleteReplaced, .id(plan.guest), .id(plan.target))
      try db.execute(Self.deleteExpired, .time(now - Limits.expiredPlanKept), .integer(Limits.expiredPlans))
      try db.execute(
        Self.insertPlan, .id(id), .id(plan.guest), .id(plan.target), .blob(digest), .integer(plan.guestVersion),
        .integer(plan.targetVersion), .time(expiresAt))
      for collection in plan.collections {
        try db.execute(
          Self.insertPlanCollection, .id(id), .name(collection.name), .text(collection.rule.policy.rawValue),
          .optional(collection.rule.maximumRows.map(Int64.init)))
      }
    }
  }

  private static let selectPlan = "SELECT id, guest, target, digest, expires_at FROM plans WHERE id = ?"

  package func savedPlan(_ id: PlanID) async throws(StorageError) -> StoredPlan? {
    try await database.read { db throws(StorageError) in
      try db.first(Self.selectPlan, .id(id)) { row throws(StorageError) in
        StoredPlan(
          id: try row.opaqueID(0),
          guest: try row.opaqueID(1),
          target: try row.opaqueID(2),
          digest: row.blob(3),
          expiresAt: row.timestamp(4))
      }
    }
  }

  // MARK: Starting

  private static let selectStart = """
    SELECT guest, target, guest_version, target_version, expires_at FROM plans WHERE id = ?
    """
  private static let selectByPlan = "SELECT id FROM migrations WHERE plan = ?"
  private static let selectByKey = "SELECT id FROM migrations WHERE target = ? AND idempotency_key = ?"
  private static let markStarted = "UPDATE plans SET is_started = 1 WHERE id = ?"

  package func start(
    _ plan: PlanID,
    as id: MigrationID,
    idempotencyKey: String,
    at now: Timestamp
  ) async throws(StorageError) -> StartOutcome {
    try await database.write { db throws(StorageError) in
      let started = try db.first(Self.selectByPlan, .id(plan)) { row throws(StorageError) in
        try row.opaqueID(0, as: MigrationID.self)
      }
      if let started { return .started(started) }
      let planned = try db.first(Self.selectStart, .id(plan)) { row throws(StorageError) in
        (
          guest: try row.opaqueID(0, as: SubjectID.self), target: try row.opaqueID(1, as: SubjectID.self),
          guestVersion: row.integer(2), targetVersion: row.integer(3), expiresAt: row.timestamp(4)
        )
      }
      guard let planned, now < planned.expiresAt else { return .stale }
      let isKeyUsed = try db.first(Self.selectByKey, .id(planned.target), .text(idempotencyKey)) { _ in true } ?? false
      if isKeyUsed { return .keyReused }
      let guest = try SubjectRecords(subject: planned.guest, db: db).standing()
      if guest.isMigrated { return .migrated }
      if guest.migration != nil { return .migrating }
      let target = try SubjectRecords(subject: planned.target, db: db).standing()
      // An account whose records are being moved elsewhere, or were, cannot take any: it is no account any more.
      guard guest.version == planned.guestVersion, target.version == planned.targetVersion,
        target.migration == nil, !target.isMigrated, !guest.isDeleted, !target.isDeleted
      else { return .stale }
      var migration = Migration(id: id, guest: planned.guest, target: planned.target, createdAt: now)
      // From here on nobody can change what was planned for.
      guard try steps(db, now).freeze(&migration) else { return .migrating }
      try db.execute(Self.markStarted, .id(plan))
      try MigrationRow.insert(migration, plan: plan, idempotencyKey: idempotencyKey, in: db)
      return .started(id)
    }
  }

  // MARK: Reading

  package func migration(_ id: MigrationID) async throws(StorageError) -> MigrationReport? {
    try await database.read { db throws(StorageError) in
      guard let migration = try MigrationRow.find(id, in: db) else { return nil }
      let account = SubjectRecords(subject: migration.target, db: db)
      var collections: [MigrationReport.Collection] = []
      for report in try MigrationReports.collections(of: id, in: db) {
        collections.append(
          MigrationReport.Collection(report: report, targetCount: try account.count(in: report.collection)))
      }
      return MigrationReport(migration: migration, collections: collections)
    }
  }

  private static let selectConflicts = """
    SELECT collection, key, value, number, updated_at, reason FROM refused_records
    WHERE migration = ? AND (collection, key) > (?, ?) ORDER BY collection, key LIMIT ?
    """

  package func conflicts(
    of id: MigrationID,
    beyond name: RecordName?,
    count: Int,
    bytes: Int
  ) async throws(StorageError) -> (conflicts: [MigrationConflict], hasMore: Bool) {
    try await database.read { db throws(StorageError) in
      guard let migration = try MigrationRow.find(id, in: db) else { return ([], false) }
      let account = SubjectRecords(subject: migration.target, db: db)
      var found: [MigrationConflict] = []
      var size = 0
      var hasMore = false
      try db.forEach(
        Self.selectConflicts, .id(id), .text(name?.collection.description ?? ""),
        .text(name?.key.description ?? ""), .integer(count + 1)
      ) { row throws(StorageError) in
        let name = RecordName(collection: try row.collection(0), key: try row.recordKey(1))
        let conflict = MigrationConflict(
          name: name, reason: try row.named(5), guest: row.content(2), account: try account.record(name))
        size += conflict.guest.value.count + (conflict.account?.content.value.count ?? 0) + name.bytes
        guard found.count < count, size <= bytes || found.isEmpty else {
          hasMore = true
          return false
        }
        found.append(conflict)
        return true
      }
      return (found, hasMore)
    }
  }

  package func resolve(
    _ name: RecordName,
    of id: MigrationID,
    by policy: MigrationPolicy,
    revision: Int64?
  ) async throws(StorageError) -> ResolveOutcome {
    try await database.write { db throws(StorageError) in
      guard let migration = try MigrationRow.find(id, in: db) else { return .unknown }
      guard case .done = migration.state else { return .notDone }
      return try MigrationResolution(migration: migration, db: db).resolve(name, by: policy, revision: revision)
    }
  }

  private static let selectNewest = """
    SELECT \(MigrationRow.columns) FROM migrations WHERE target = ? AND (created_at, id) < (?, ?)
    ORDER BY created_at DESC, id DESC LIMIT ?
    """

  package func migrations(
    into target: SubjectID,
    beyond position: MigrationPosition?,
    count: Int
  ) async throws(StorageError) -> (migrations: [Migration], hasMore: Bool) {
    // Nothing is as late as this with an id as large.
    let createdAt = position?.createdAt ?? Timestamp(millisecondsSinceEpoch: .max)
    let id = position?.id.bytes ?? [UInt8](repeating: .max, count: 17)
    return try await database.read { db throws(StorageError) in
      let found = try db.all(
        Self.selectNewest, .id(target), .time(createdAt), .blob(id), .integer(count + 1)
      ) { row throws(StorageError) in try MigrationRow.migration(row) }
      return (Array(found.prefix(count)), found.count > count)
    }
  }

  // MARK: The queue

  private static let claim = """
    UPDATE migrations SET lease = ?1, lease_until = ?2, epoch = epoch + 1 WHERE id = (
      SELECT id FROM migrations
      WHERE finished_at IS NULL AND (run_at <= ?3 OR run_at > ?4)
        AND (lease IS NULL OR lease_until <= ?3 OR lease_until > ?4)
      ORDER BY run_at LIMIT 1)
    RETURNING \(MigrationRow.columns), failures, epoch
    """

  package func claim(_ lease: JobLease, at now: Timestamp) async throws(StorageError) -> ClaimedMigration? {
    try await database.write { db throws(StorageError) in
      try db.first(
        Self.claim, .blob(lease.holder.bytes), .time(now + lease.duration), .time(now),
        .time(now + JobLease.longestPause)
      ) { row throws(StorageError) in
        ClaimedMigration(
          migration: try MigrationRow.migration(row), failures: Int(row.integer(14)), epoch: row.integer(15))
      }
    }
  }

  private static let selectLease = "SELECT 1 FROM migrations WHERE id = ? AND lease = ? AND lease_until > ?"

  package func perform(
    _ action: Migration.Action,
    of id: MigrationID,
    lease: JobLease,
    at now: Timestamp
  ) async throws(StorageError) -> Migration? {
    let check = action == .verify ? try await nextCheck(of: id) : nil
    let moved: Migration? = try await database.write { db throws(StorageError) in
      let isHeld = try db.first(Self.selectLease, .id(id), .blob(lease.holder.bytes), .time(now)) { _ in true } ?? false
      guard isHeld, let migration = try MigrationRow.find(id, in: db) else { return nil }
      var moved: Migration? = migration
      if let check, !check.isOver {
        guard migration.action == .verify else { return nil }
      } else {
        moved = try steps(db, now).perform(action, on: migration, problem: check?.problem)
      }
      guard let moved else { return nil }
      try MigrationRow.update(moved, leaseUntil: now + lease.duration, in: db)
      return moved
    }
    if let check, !check.isOver, moved != nil { checks.keep(check, of: id) }
    return moved
  }

  /// Looks at some thousand records more. The writer serves everyone, and so does each reader: a large guest is looked
  /// at in stretches.
  private func nextCheck(of id: MigrationID) async throws(StorageError) -> MigrationCheck {
    let check = checks.take(id)
    return try await database.read { db throws(StorageError) in
      guard let migration = try MigrationRow.find(id, in: db), migration.action == .verify else { return check.ended() }
      return try check.next(of: migration, in: db)
    }
  }

  package func refuseSwitch(
    of id: MigrationID,
    reason: String,
    lease: JobLease,
    at now: Timestamp
  ) async throws(StorageError) -> Migration? {
    try await database.write { db throws(StorageError) in
      let isHeld = try db.first(Self.selectLease, .id(id), .blob(lease.holder.bytes), .time(now)) { _ in true } ?? false
      guard isHeld, var migration = try MigrationRow.find(id, in: db),
        migration.switchRefused(reason: reason) != nil
      else { return nil }
      try MigrationRow.update(migration, leaseUntil: now + lease.duration, in: db)
      return migration
    }
  }

  // MARK: Taking back

  package func undo(_ id: MigrationID, at now: Timestamp) async throws(StorageError) -> UndoOutcome {
    try await database.write { db throws(StorageError) in
      guard var migration = try MigrationRow.find(id, in: db) else { return .unknown }
      switch migration.state {
      case .recalling, .restoring, .returning, .undone: return .already
      case .freezing, .counting, .applying, .verifying, .switching, .purging, .undoing, .telling, .failed:
        return .notDone
      case .done: break
      }
      for subject in [migration.guest, migration.target] {
        if try SubjectRecords(subject: subject, db: db).standing().isDeleted { return .deleted }
      }
      guard migration.undoAsked(at: now) != nil else { return .expired }
      try MigrationUndo(db: db, now: now).mark(migration, isMigrated: false)
      try MigrationRow.requeue(migration, at: now, in: db)
      return .begun
    }
  }

  package func refuseUndo(
    of id: MigrationID,
    reason: String,
    lease: JobLease,
    at now: Timestamp
  ) async throws(StorageError) -> Migration? {
    try await database.write { db throws(StorageError) in
      let isHeld = try db.first(Self.selectLease, .id(id), .blob(lease.holder.bytes), .time(now)) { _ in true } ?? false
      guard isHeld, var migration = try MigrationRow.find(id, in: db),
        migration.recallRefused(reason: reason, at: now)
      else { return nil }
      try MigrationUndo(db: db, now: now).mark(migration, isMigrated: true)
      try MigrationRow.update(migration, leaseUntil: now + lease.duration, in: db)
      return migration
    }
  }

  private static let selectForgetting = "SELECT id FROM migrations WHERE is_forgetting = 1 LIMIT 1"
  /// First of all it cannot be taken back any more, whatever the clock says later.
  private static let beginForgetting = """
    UPDATE migrations SET undo_until = NULL, is_forgetting = 1 WHERE id = (
      SELECT id FROM migrations WHERE undo_until <= ? AND finished_at IS NOT NULL ORDER BY undo_until LIMIT 1)
    RETURNING id
    """
  private static let endForgetting = "UPDATE migrations SET is_forgetting = 0 WHERE id = ?"

  package func forgetUndo(at now: Timestamp, limit: Int) async throws(StorageError) -> Int {
    try await database.write { db throws(StorageError) in
      let id: (SQLiteRow) throws(StorageError) -> MigrationID = { row throws(StorageError) in try row.opaqueID(0) }
      var found = try db.first(Self.selectForgetting, map: id)
      if found == nil { found = try db.first(Self.beginForgetting, .time(now), map: id) }
      guard let id = found else { return 0 }
      var forgotten = 0
      for memory in MigrationUndo.Memory.allCases where forgotten < limit {
        forgotten += try MigrationUndo(db: db, now: now).forget(memory, of: id, limit: limit - forgotten)
      }
      if forgotten < limit {
        try db.execute(Self.endForgetting, .id(id))
        forgotten += 1
      }
      return forgotten
    }
  }

  private func steps(_ db: SQLiteConnection, _ now: Timestamp) -> MigrationSteps {
    MigrationSteps(db: db, now: now, undoWindow: undoWindow)
  }

  // MARK: Trying again

  private static let selectPlanned = """
    SELECT guest_version FROM plans WHERE id = (SELECT plan FROM migrations WHERE id = ?)
    """

  /// What an earlier try left is told no longer.
  private static let deleteReports = "DELETE FROM migration_collections WHERE migration = ?"

  package func retry(_ id: MigrationID, at now: Timestamp) async throws(StorageError) -> RetryOutcome {
    try await database.write { db throws(StorageError) in
      guard var migration = try MigrationRow.find(id, in: db) else { return .unknown }
      guard case .failed = migration.state else { return .notFailed }
      let guest = try SubjectRecords(subject: migration.guest, db: db).standing()
      if guest.isMigrated { return .migrated }
      if let other = guest.migration, other != id { return .migrating }
      let target = try SubjectRecords(subject: migration.target, db: db).standing()
      let planned = try db.first(Self.selectPlanned, .id(id)) { $0.integer(0) }
      guard planned == guest.version, !guest.isDeleted, target.migration == nil, !target.isMigrated, !target.isDeleted
      else { return .stale }
      guard try steps(db, now).refreeze(migration), migration.retried() != nil else {
        return .migrating
      }
      try db.execute(Self.deleteReports, .id(id))
      try MigrationRow.update(migration, leaseUntil: now, in: db)
      return .retried
    }
  }
}
