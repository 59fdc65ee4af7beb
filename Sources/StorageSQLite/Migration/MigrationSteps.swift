import LatchkeyModel
import Storage

/// What each step of a migration does to the tables, within the transaction that also stores the new state.
struct MigrationSteps {
  let db: SQLiteConnection
  let now: Timestamp
  /// How long what is done can be taken back; zero for not at all.
  let undoWindow: Duration

  /// Does the step and tells `migration` about it. Nil: the migration does not stand at that step.
  func perform(
    _ action: Migration.Action,
    on migration: Migration,
    problem: String?
  ) throws(StorageError) -> Migration? {
    guard migration.action == action else { return nil }
    var moved = migration
    let isAccepted =
      switch action {
      case .freezeGuest: try freeze(&moved)
      case .countRecords: try count(&moved)
      case .applyRecords(let cursor): try apply(&moved, after: cursor)
      case .verify: moved.verified(problem: problem) != nil
      case .switchSubject: try markMigrated(&moved)
      case .purgeRecords: try purge(&moved)
      case .undoRecords: try MigrationUndo(db: db, now: now).undo(&moved)
      case .recallSubject: moved.subjectRecalled() != nil
      case .restoreRecords: try MigrationUndo(db: db, now: now).restore(&moved)
      case .tellFailure: moved.failureTold(at: now) != nil || moved.isFinished
      }
    return isAccepted ? moved : nil
  }

  // MARK: FREEZE

  private static let freeze = """
    INSERT INTO subjects (sub, version, migration) VALUES (?1, 0, ?2)
    ON CONFLICT (sub) DO UPDATE SET migration = ?2 WHERE migration IS NULL OR migration = ?2
    """

  func freeze(_ migration: inout Migration) throws(StorageError) -> Bool {
    guard try db.execute(Self.freeze, .id(migration.guest), .id(migration.id)) == 1 else { return false }
    return migration.guestFrozen() != nil
  }

  /// Freezes a guest that was let go. False: another migration has it.
  func refreeze(_ migration: Migration) throws(StorageError) -> Bool {
    try db.execute(Self.freeze, .id(migration.guest), .id(migration.id)) == 1
  }

  // MARK: SNAPSHOT

  private static let insertCollections = """
    INSERT INTO migration_collections (migration, name, policy, maximum_rows, source_count)
    SELECT ?1, c.name, p.policy, p.maximum_rows, c.records
    FROM collections c
    JOIN plan_collections p ON p.name = c.name
      AND p.plan = (SELECT plan FROM migrations WHERE id = ?1)
    WHERE c.sub = ?2
    """
  private static let sumCounts = "SELECT count(*), total(records) FROM collections WHERE sub = ?"

  /// The guest is frozen since the transaction that compared it with the plan, so the plan names each collection.
  private func count(_ migration: inout Migration) throws(StorageError) -> Bool {
    let collections = try db.execute(Self.insertCollections, .id(migration.id), .id(migration.guest))
    let sums = try db.first(Self.sumCounts, .id(migration.guest)) { ($0.integer(0), $0.integer(1)) } ?? (0, 0)
    guard collections == Int(sums.0) else {
      throw StorageError(.corrupt, operation: "snapshot", detail: "the guest has collections that the plan has not")
    }
    return migration.recordsCounted(Int(sums.1)) != nil
  }

  // MARK: APPLY

  private static let insertOutcome = """
    INSERT INTO migration_records (
      migration, collection, key, outcome, position, found, revision, old_value, old_number, old_updated_at, target_key
    ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    """
  private func apply(_ migration: inout Migration, after cursor: Migration.Cursor?) throws(StorageError) -> Bool {
    let reports = try MigrationReports.collections(of: migration.id, in: db)
    var left = Limits.applyRecords
    var bytesLeft = Limits.applyBytes
    var last = cursor
    var applied = 0
    var isLast = true
    for var report in reports where cursor.map({ report.collection >= $0.collection }) ?? true {
      let reached = report.collection == cursor?.collection ? cursor : nil
      guard left > 0 && bytesLeft > 0 else {
        isLast = false
        break
      }
      // What has begun in one order goes on in it, also when an earlier release began it.
      let isNewestFirst = reached.map { $0.updatedAt != nil } ?? (report.maximumRows != nil)
      let guest = SubjectRecords(subject: migration.guest, db: db)
      let page =
        isNewestFirst
        ? try guest.page(of: report.collection, beyond: reached?.position, count: left, bytes: bytesLeft)
        : try guest.page(of: report.collection, after: reached?.key, count: left, bytes: bytesLeft)
      try merge(page.records, of: migration, into: &report)
      try MigrationReports.store(report, of: migration.id, in: db)
      applied += page.records.count
      left -= page.records.count
      bytesLeft -= page.records.reduce(0) { $0 + $1.content.value.count }
      if let record = page.records.last {
        last =
          isNewestFirst
          ? Migration.Cursor(collection: report.collection, position: record.position)
          : Migration.Cursor(after: record.name)
      }
      if page.hasMore {
        isLast = false
        break
      }
    }
    guard let last else {
      throw StorageError(.corrupt, operation: "apply", detail: "no record where some were counted")
    }
    return migration.recordsApplied(applied, through: last, isLast: isLast) != nil
  }

  private func merge(
    _ records: [Record],
    of migration: Migration,
    into report: inout CollectionReport
  ) throws(StorageError) {
    let target = SubjectRecords(subject: migration.target, db: db)
    var targetCount = try target.count(in: report.collection)
    var writes: [(RecordDraft, revision: Int64)] = []
    var change = SubjectRecords.Change()
    // Where APPEND puts a record is a name that the guest may have as well, so what this chunk writes counts as held.
    var written: [RecordName: (content: RecordContent, revision: Int64)] = [:]
    var position = try target.takeRevisions(records.count)
    for record in records {
      let hasRoom = report.maximumRows.map { targetCount < $0 } ?? true
      var held = written[record.name]
      if held == nil { held = try target.record(record.name).map { ($0.content, $0.revision) } }
      var decision = report.policy.merge(record.content, into: held?.content, hasRoom: hasRoom)
      var name = record.name
      if case .append = decision {
        if let free = try target.freeName(for: name, appendedBy: migration.id), written[free] == nil {
          (name, held) = (free, nil)
        } else {
          decision = .refuse(.noKey)
        }
      }
      if decision.outcome == .moved { targetCount += 1 }
      if let content = decision.content {
        let draft = RecordDraft(name: name, content: content)
        change.write(draft, over: held?.content.value.count)
        writes.append((draft, position))
        written[name] = (content, position)
      }
      if let reason = decision.conflict {
        try RefusedRecords.insert(record.name, record.content, reason, of: migration.id, in: db)
      }
      try note(decision, of: record, as: name, over: held, at: position, of: migration.id)
      report.count(decision.outcome)
      position += 1
    }
    try target.put(writes, change)
  }

  private func note(
    _ decision: MergeDecision,
    of record: Record,
    as name: RecordName,
    over held: (content: RecordContent, revision: Int64)?,
    at position: Int64,
    of id: MigrationID
  ) throws(StorageError) {
    let isMerged = decision.conflict == nil
    // What was not changed needs no memory of how it was.
    let old = decision.content == nil ? nil : held?.content
    try db.execute(
      Self.insertOutcome, .id(id), .name(record.name.collection), .key(record.name.key),
      .text(decision.outcome.rawValue), isMerged ? .integer(position) : .null,
      isMerged ? .integer(held?.revision ?? 0) : .null, decision.content == nil ? .null : .integer(position),
      .optional(old?.value), .optional(old?.number), .optional(old?.updatedAt.millisecondsSinceEpoch),
      name == record.name ? .null : .key(name.key))
  }

  // MARK: SWITCH

  private static let markMigrated = "UPDATE subjects SET is_migrated = 1 WHERE sub = ? AND migration = ?"

  private func markMigrated(_ migration: inout Migration) throws(StorageError) -> Bool {
    guard try db.execute(Self.markMigrated, .id(migration.guest), .id(migration.id)) == 1 else {
      throw StorageError(.corrupt, operation: "switch", detail: "the guest is not frozen by its migration")
    }
    return migration.subjectSwitched() != nil
  }

  // MARK: PURGE

  private static let selectLengths = """
    SELECT length(value) FROM records WHERE sub = ? ORDER BY collection, key LIMIT ?
    """
  private static let keepRecords = """
    INSERT INTO moved_records (migration, collection, key, value, number, updated_at)
    SELECT ?1, collection, key, value, number, updated_at FROM records WHERE sub = ?2 ORDER BY collection, key LIMIT ?3
    """
  private static let deleteRecords = """
    DELETE FROM records WHERE rowid IN (SELECT rowid FROM records WHERE sub = ? ORDER BY collection, key LIMIT ?)
    """
  /// What was planned is told by the report from here on.
  private static let deletePlanned = """
    DELETE FROM plan_collections WHERE plan = (SELECT plan FROM migrations WHERE id = ?)
    """

  /// The guest's records go, or wait where taking back finds them.
  private func purge(_ migration: inout Migration) throws(StorageError) -> Bool {
    let guest = SubjectRecords(subject: migration.guest, db: db)
    let isKept = undoWindow > .zero
    var count = Limits.purgeRecords
    var outcomes = 0
    if isKept {
      count = try keptAtOnce(of: migration.guest)
      try db.execute(Self.keepRecords, .id(migration.id), .id(migration.guest), .integer(count))
    } else {
      outcomes = try MigrationUndo(db: db, now: now).forget(.outcomes, of: migration.id, limit: Limits.purgeRecords)
    }
    let records = try db.execute(Self.deleteRecords, .id(migration.guest), .integer(count))
    let isLast = isKept ? records == 0 : records < Limits.purgeRecords && outcomes < Limits.purgeRecords
    if isLast {
      try guest.forgetCounts()
      try db.execute(Self.deletePlanned, .id(migration.id))
    }
    let undoUntil = isKept ? now + undoWindow : nil
    return migration.recordsPurged(isLast: isLast, at: now, undoUntil: undoUntil) != nil || migration.isFinished
  }

  /// How many of the guest's records one transaction copies.
  private func keptAtOnce(of guest: SubjectID) throws(StorageError) -> Int {
    var (count, bytes) = (0, 0)
    try db.forEach(Self.selectLengths, .id(guest), .integer(Limits.applyRecords)) { row in
      count += 1
      bytes += Int(row.integer(0))
      return bytes < Limits.applyBytes
    }
    return count
  }
}
