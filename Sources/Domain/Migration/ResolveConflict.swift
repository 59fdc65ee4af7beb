import LatchkeyModel
import Storage

/// Somebody decides about a record that was set aside. With a revision, only while the account's record has it.
package struct ResolveConflict: MigrationCommand {
  package static let name = "resolve a conflict"

  package var record: RecordName
  package var id: MigrationID
  package var policy: MigrationPolicy
  package var revision: Int64?
  /// How much may be kept of one account's merges.
  let undoBytes: Int

  package init(
    _ record: RecordName, of id: MigrationID, by policy: MigrationPolicy, revision: Int64?, undoBytes: Int? = nil
  ) {
    self.record = record
    self.id = id
    self.policy = policy
    self.revision = revision
    self.undoBytes = undoBytes ?? Limits.undoBytes
  }

  package enum Outcome: Sendable, Equatable {
    case resolved
    /// There is no such conflict, or none any more.
    case notFound
    /// The account's record was written since the revision that the caller saw; nil when there is none.
    case revisionMismatch(current: Int64?)
    /// The policy cannot decide it: the record stays set aside.
    case remains(ConflictReason)
    /// The migration is under way, or was taken back.
    case notDone
    /// The account was deleted.
    case deleted
    case unknown
  }

  package func decide(in rows: some MigrationTransaction) async throws(StorageError) -> Outcome {
    guard let target = try await rows.migrations.find(id)?.migration.target else { return .unknown }
    try await rows.lockOwners([target])
    guard var stored = try await rows.migrations.lock(id) else { return .unknown }
    let migration = stored.migration
    guard case .done = migration.state else { return .notDone }
    var account = try await SubjectRecords(of: migration.target, in: rows)
    if account.owner.isDeleted { return .deleted }
    guard let guests = try await rows.setAside.find(record, of: id) else { return .notFound }
    let held = try await rows.records.find(record, of: account.subject)
    if let revision, held?.revision != revision { return .revisionMismatch(current: held?.revision) }
    let merge = try await merge(guests, over: held, of: account)
    if let reason = merge.decision.conflict { return .remains(reason) }
    let position = account.takeRevisions(1)
    var change = RecordChange()
    merge.write(&change, at: position)
    try await account.write(change)
    try await account.finish()
    let remembered = merge.remembered(at: position, decidedBy: policy)
    try await rows.merged.change([remembered], of: id)
    try await rows.setAside.remove(record, of: id)
    if stored.migration.undoUntil != nil, let old = remembered.old {
      stored.keptBytes += old.value.count
      try await stored.makeRoom(within: undoBytes, in: rows)
      try await rows.migrations.change(stored)
    }
    return .resolved
  }

  private func merge<Rows: MigrationTransaction>(
    _ guests: RecordContent, over held: RecordLayers.Held?, of account: SubjectRecords<Rows>
  ) async throws(StorageError) -> RecordMerge {
    let over = held.map { (content: $0.content, revision: $0.revision) }
    // Also where the account holds nothing: whoever keeps that drops the guest's.
    if policy == .keepTarget { return RecordMerge(dropping: record, over: over) }
    // Whether the collection's own bound leaves room. What the account stores in all does not matter: the record is
    // stored already.
    let reports = try await account.rows.reports.all(of: id)
    let most = reports.first { $0.collection == record.collection }?.maximumRows ?? .max
    let count = try await account.rows.counts.find(record.collection, of: account.subject)
    let freeName = policy == .append ? try await account.freeName(for: record, appendedBy: id) : nil
    return RecordMerge(
      guests, named: record, into: over, by: policy, hasRoom: count < most, freeName: freeName)
  }
}
