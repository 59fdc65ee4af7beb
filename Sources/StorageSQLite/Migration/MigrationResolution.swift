import LatchkeyModel
import Storage

/// Decides about a record that a migration set aside, within one transaction.
struct MigrationResolution {
  let migration: Migration
  let db: SQLiteConnection

  private static let select = """
    SELECT value, number, updated_at FROM refused_records WHERE migration = ? AND collection = ? AND key = ?
    """
  private static let delete = "DELETE FROM refused_records WHERE migration = ? AND collection = ? AND key = ?"
  /// There is such a row as long as the migration can be taken back.
  private static let noteOutcome = """
    UPDATE migration_records SET outcome = ?4, position = ?5, found = ?6, revision = ?7, old_value = ?8, old_number = ?9,
      old_updated_at = ?10, target_key = ?11, policy = ?12
    WHERE migration = ?1 AND collection = ?2 AND key = ?3
    """

  func resolve(
    _ name: RecordName,
    by policy: MigrationPolicy,
    revision: Int64?
  ) throws(StorageError) -> ResolveOutcome {
    let account = SubjectRecords(subject: migration.target, db: db)
    if try account.standing().isDeleted { return .deleted }
    let guests = try db.first(Self.select, .id(migration.id), .name(name.collection), .key(name.key)) {
      $0.content(0)
    }
    guard let guests else { return .notFound }
    let held = try account.record(name)
    if let revision, held?.revision != revision { return .revisionMismatch(current: held?.revision) }
    // Also where the account holds nothing: whoever keeps that drops the guest's.
    var decision = MergeDecision.keep
    if policy != .keepTarget {
      decision = policy.merge(guests, into: held?.content, hasRoom: try hasRoom(in: name.collection, account))
    }
    var target = name
    if case .append = decision {
      guard let free = try account.freeName(for: name, appendedBy: migration.id) else { return .remains(.noKey) }
      target = free
    }
    if let reason = decision.conflict { return .remains(reason) }
    let position = try account.takeRevisions(1)
    let over = target == name ? held : nil
    if let content = decision.content {
      var change = SubjectRecords.Change()
      let draft = RecordDraft(name: target, content: content)
      change.write(draft, over: over?.content.value.count)
      try account.put([(draft, position)], change)
    }
    let old = decision.content == nil ? nil : over?.content
    try db.execute(
      Self.noteOutcome, .id(migration.id), .name(name.collection), .key(name.key),
      .text(decision.outcome.rawValue), .integer(position), .integer(over?.revision ?? 0),
      decision.content == nil ? .null : .integer(position), .optional(old?.value), .optional(old?.number),
      .optional(old?.updatedAt.millisecondsSinceEpoch), target == name ? .null : .key(target.key),
      .text(policy.rawValue))
    try db.execute(Self.delete, .id(migration.id), .name(name.collection), .key(name.key))
    return .resolved
  }

  /// Whether the collection's own bound leaves room. What the account stores in all does not matter: the record is
  /// stored already.
  private func hasRoom(in collection: CollectionName, _ account: SubjectRecords) throws(StorageError) -> Bool {
    let reports = try MigrationReports.collections(of: migration.id, in: db)
    guard let most = reports.first(where: { $0.collection == collection })?.maximumRows else { return true }
    return try account.count(in: collection) < most
  }
}
