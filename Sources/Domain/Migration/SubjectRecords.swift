import LatchkeyModel
import Storage

/// One subject's records within a transaction: the only way to change them, so that counts, versions and revisions stay
/// true. `finish` stores what comes of it all.
struct SubjectRecords<Rows: MigrationTransaction> {
  let subject: SubjectID
  let rows: Rows
  var owner: RecordOwner
  /// What was added to the count of each collection.
  private var added: [CollectionName: Int] = [:]

  /// Locks them.
  init(of subject: SubjectID, in rows: Rows) async throws(StorageError) {
    self.subject = subject
    self.rows = rows
    owner = try await rows.owners.lock(subject) ?? RecordOwner()
  }

  /// The first of `count` revisions that nothing else has or will have.
  mutating func takeRevisions(_ count: Int) -> Int64 {
    owner.version += Int64(count)
    return owner.version - Int64(count) + 1
  }

  /// Writes with revisions that were taken for it.
  mutating func write(_ change: RecordChange) async throws(StorageError) {
    try await rows.records.write(change.writes, of: subject)
    owner.records += change.records
    owner.bytes += change.bytes
    for (collection, count) in change.added { added[collection, default: 0] += count }
  }

  /// Deletes records that are there.
  mutating func remove(_ records: [(name: RecordName, held: RecordLayers.Held)]) async throws(StorageError) {
    _ = try await rows.records.remove(records.map(\.name), of: subject)
    _ = takeRevisions(records.count)
    owner.records -= records.count
    for (name, held) in records {
      owner.bytes -= held.content.value.count + name.bytes
      added[name.collection, default: 0] -= 1
    }
  }

  /// For when the last record is gone.
  mutating func forgetCounts() async throws(StorageError) {
    try await rows.counts.remove(of: subject)
    (owner.records, owner.bytes, added) = (0, 0, [:])
  }

  /// Stores who they belong to, and how many there are of each collection.
  func finish() async throws(StorageError) {
    for (collection, count) in added where count != 0 {
      let before = try await rows.counts.find(collection, of: subject)
      try await rows.counts.put(before + count, collection, of: subject)
    }
    try await rows.owners.put(owner, subject)
  }

  /// Where APPEND puts a record of this name. Nil when there is no such place.
  func freeName(for name: RecordName, appendedBy id: MigrationID) async throws(StorageError) -> RecordName? {
    guard let free = name.appended(by: id) else { return nil }
    return try await rows.records.lengths(of: [free], of: subject) == [nil] ? free : nil
  }
}

extension MigrationTransaction {
  /// Locks owners in the order in which everybody does: see ``MigrationTransaction``.
  func lockOwners(_ subjects: [SubjectID]) async throws(StorageError) {
    for subject in subjects.sorted() { _ = try await owners.lock(subject) }
  }

  /// Locks a migration and whose records it moves. Nil when there is none.
  func lockWithOwners(_ id: MigrationID) async throws(StorageError) -> StoredMigration? {
    // Whose they are never changes.
    guard let migration = try await migrations.find(id)?.migration else { return nil }
    try await lockOwners([migration.guest, migration.target])
    return try await migrations.lock(id)
  }
}

/// Records to be written, with what that adds to a subject's.
struct RecordChange {
  private(set) var writes: [RecordWrite] = []
  /// New records.
  private(set) var added: [CollectionName: Int] = [:]
  private(set) var bytes = 0

  var records: Int { added.values.reduce(0, +) }

  var cost: Int { RecordBounds.cost(records: records, bytes: bytes) }

  /// One more record is written, where there is one by then with a value of `held` bytes, or none.
  mutating func write(_ draft: RecordDraft, over held: Int?, revision: Int64) {
    let length = draft.content.value.count
    writes.append(RecordWrite(draft: draft, revision: revision, isNew: held == nil))
    if let held {
      bytes += length - held
    } else {
      bytes += length + draft.name.bytes
      added[draft.name.collection, default: 0] += 1
    }
  }
}

extension RecordName {
  func appended(by id: MigrationID) -> RecordName? {
    key.appended(by: id).map { RecordName(collection: collection, key: $0) }
  }
}

/// What became of a change to a subject's records.
package enum WriteOutcome<Value: Sendable & Equatable>: Sendable, Equatable {
  case done(Value)
  /// The records are being moved into an account; wait until that is over.
  case migrating
  /// The records belong to an account now, for good.
  case migrated
  /// The subject was deleted.
  case deleted
  /// The subject would store more than it may.
  case full(RecordBounds.Kind)
  /// All guests together would store more than they may.
  case guestsFull
  /// More of guests' records wait for the account's owner than one may leave undecided.
  case tooManyConflicts
}

extension RecordOwner {
  /// Why the records may not be written; nil when they may.
  func refusal<Value>(_ type: Value.Type = Value.self) -> WriteOutcome<Value>? {
    if isDeleted { return .deleted }
    if isMigrated { return .migrated }
    return migration == nil ? nil : .migrating
  }
}
