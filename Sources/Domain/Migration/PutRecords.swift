import LatchkeyModel
import Storage

/// Somebody writes records: all of them, or none. Records of the same name take each other's place. Says how many.
package struct PutRecords: MigrationCommand {
  package static let name = "put records"

  package var records: [RecordDraft]
  package var subject: SubjectID
  /// What the subject may store.
  package var bounds: RecordBounds

  package init(_ records: [RecordDraft], of subject: SubjectID, within bounds: RecordBounds) {
    self.records = records
    self.subject = subject
    self.bounds = bounds
  }

  package func decide(in rows: some MigrationTransaction) async throws(StorageError) -> WriteOutcome<Int> {
    var own = try await SubjectRecords(of: subject, in: rows)
    if let refusal = own.owner.refusal(Int.self) { return refusal }
    let change = try await change(from: own.takeRevisions(records.count), in: rows)
    if let kind = try await bound(brokenBy: change, of: own.owner, in: rows) { return .full(kind) }
    if let total = bounds.guestTotal, change.cost > 0 {
      // Of whom was not counted among the guests so far, all there is comes to it.
      let held = own.owner.isGuest ? 0 : RecordBounds.cost(records: own.owner.records, bytes: own.owner.bytes)
      if try await rows.owners.costOfGuests() + held + change.cost > total { return .guestsFull }
    }
    if records.isEmpty { return .done(0) }
    // What a subject is, as its own call says: a guest who became an account is one for as long as nothing is written.
    own.owner.isGuest = bounds.guestTotal != nil
    try await own.write(change)
    try await own.finish()
    return .done(records.count)
  }

  private func change(from revision: Int64, in rows: some MigrationTransaction) async throws(StorageError)
    -> RecordChange
  {
    let stored = try await rows.records.lengths(of: records.map(\.name), of: subject)
    var change = RecordChange()
    // Those of the same name take each other's place.
    var lengths: [RecordName: Int] = [:]
    for (index, draft) in records.enumerated() {
      let earlier = lengths.updateValue(draft.content.value.count, forKey: draft.name)
      change.write(draft, over: earlier ?? stored[index], revision: revision + Int64(index))
    }
    return change
  }

  /// The bound that the change goes beyond; nil when it stays within all of them.
  private func bound(
    brokenBy change: RecordChange, of owner: RecordOwner, in rows: some MigrationTransaction
  ) async throws(StorageError) -> RecordBounds.Kind? {
    var before = RecordBounds.Usage(records: owner.records, bytes: owner.bytes, collections: 0)
    var newCollections = 0
    for collection in change.added.keys where try await rows.counts.find(collection, of: subject) == 0 {
      newCollections += 1
    }
    if newCollections > 0 { before.collections = try await rows.counts.count(of: subject) }
    let after = RecordBounds.Usage(
      records: before.records + change.records, bytes: before.bytes + change.bytes,
      collections: before.collections + newCollections)
    return bounds.broken(from: before, to: after)
  }
}

/// Somebody deletes a record. With a revision, only one that still has it.
package struct DeleteRecord: MigrationCommand {
  package static let name = "delete a record"

  package var record: RecordName
  package var revision: Int64?
  package var subject: SubjectID

  package init(_ record: RecordName, revision: Int64?, of subject: SubjectID) {
    self.record = record
    self.revision = revision
    self.subject = subject
  }

  package enum Deletion: Sendable, Equatable {
    case deleted
    case notFound
    /// The record was written since the revision that the caller saw.
    case revisionMismatch(current: Int64)
  }

  package func decide(in rows: some MigrationTransaction) async throws(StorageError) -> WriteOutcome<Deletion> {
    var own = try await SubjectRecords(of: subject, in: rows)
    if let refusal = own.owner.refusal(Deletion.self) { return refusal }
    guard let held = try await rows.records.find(record, of: subject) else { return .done(.notFound) }
    if let revision, revision != held.revision { return .done(.revisionMismatch(current: held.revision)) }
    try await own.remove([(record, held)])
    try await own.finish()
    return .done(.deleted)
  }
}

/// What somebody stored as a guest is an account's now, and leaves the guests' room to others.
package struct NoteAccount: MigrationCommand {
  package static let name = "note an account"

  package var subject: SubjectID

  package init(_ subject: SubjectID) {
    self.subject = subject
  }

  package func decide(in rows: some MigrationTransaction) async throws(StorageError) {
    guard var owner = try await rows.owners.lock(subject), owner.isGuest else { return }
    owner.isGuest = false
    try await rows.owners.put(owner, subject)
  }
}
