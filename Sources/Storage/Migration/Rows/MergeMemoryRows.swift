import LatchkeyModel

/// What became of each record of a guest, by migration and the guest's name for it: the key is what makes a record be
/// merged once.
package protocol MergedRecordRows {
  /// A second one for the same record is a ``StorageError``.
  func insert(_ records: [MergedRecord], of id: MigrationID) async throws(StorageError)

  /// At most `limit`, in the order of names.
  func first(of id: MigrationID, limit: Int) async throws(StorageError) -> [MergedName]

  /// For each of an account's records, in their order, all that was merged into it by merges that are under way or can be
  /// taken back.
  func layers(
    of names: [RecordName], into account: SubjectID
  ) async throws(StorageError) -> [[RecordLayers.Layer]]

  /// The same without its contents: how much there is to read of it and of the guests' records.
  func weights(of names: [RecordName], into account: SubjectID) async throws(StorageError) -> [LayersWeight]

  /// Each once. Leaves out those that are forgotten.
  func change(_ records: [MergedRecord], of id: MigrationID) async throws(StorageError)

  func remove(_ names: [RecordName], of id: MigrationID) async throws(StorageError)

  /// At most `limit`. Returns how many.
  func remove(of id: MigrationID, limit: Int) async throws(StorageError) -> Int

  /// At most `limit` of all into an account. Returns how many.
  func remove(into account: SubjectID, limit: Int) async throws(StorageError) -> Int

  /// Holds a guest's records beside what became of each: the next `count` of them in the order of names, beyond `place`.
  func recount(
    _ id: MigrationID, of guest: SubjectID, beyond place: RecordName?, count: Int
  ) async throws(StorageError) -> Recount
}

/// How much was merged into one record of an account.
package struct LayersWeight: Sendable, Equatable {
  package var layers = 0
  /// Of the values that were there before, and of the guests'.
  package var bytes = 0

  package init(layers: Int = 0, bytes: Int = 0) {
    self.layers = layers
    self.bytes = bytes
  }
}

/// What became of one record of a guest.
package struct MergedRecord: Sendable, Equatable {
  /// The guest's.
  package let name: RecordName
  package let outcome: MergeOutcome
  /// Its place among all that was merged into the account; nil for what was set aside.
  package var position: Int64?
  /// The revision that the account's record had before; 0 when there was none, nil for what was set aside.
  package var found: Int64?
  /// The revision that it has since; nil where it was left as it was.
  package var revision: Int64?
  /// What it held before; nil for nothing, and where it was left as it was.
  package var old: RecordContent?
  /// Where the account has it, when that is not under the guest's name.
  package var targetKey: RecordKey?
  /// By which policy somebody decided about it; nil for the collection's.
  package var policy: MigrationPolicy?

  package init(
    name: RecordName, outcome: MergeOutcome, position: Int64? = nil, found: Int64? = nil, revision: Int64? = nil,
    old: RecordContent? = nil, targetKey: RecordKey? = nil, policy: MigrationPolicy? = nil
  ) {
    self.name = name
    self.outcome = outcome
    self.position = position
    self.found = found
    self.revision = revision
    self.old = old
    self.targetKey = targetKey
    self.policy = policy
  }
}

extension MergedRecord {
  /// Of names and of what was there before.
  package var bytes: Int { name.bytes + (targetKey?.description.utf8.count ?? 0) + (old?.value.count ?? 0) }
}

/// Where a record of a guest went.
package struct MergedName: Sendable, Equatable {
  package let name: RecordName
  /// The account's name for it.
  package let target: RecordName
  /// Whether the account's record was written.
  package let isWritten: Bool

  package init(name: RecordName, target: RecordName, isWritten: Bool) {
    self.name = name
    self.target = target
    self.isWritten = isWritten
  }
}

/// What a stretch of a guest's records and of what became of them holds.
package struct Recount: Sendable, Equatable {
  /// The last name of the stretch; nil when it goes to the end.
  package var end: RecordName?
  /// Records of the guest that were not merged.
  package var unmerged = 0
  /// Records that were merged and that the guest does not have.
  package var foreign = 0
  /// Records that a person is to decide about, and that were not set aside.
  package var lost = 0
  package var outcomes: [CollectionName: [MergeOutcome: Int]] = [:]

  package init() {}
}

/// Records of guests that accounts did not take, or that a person is to decide about, by migration and name. They outlive
/// the guest.
package protocol SetAsideRows {
  func find(_ name: RecordName, of id: MigrationID) async throws(StorageError) -> RecordContent?

  /// In the order of names, at most `count`, beyond `name`, each with what the account has under its name. Names and
  /// values of both hold at most `bytes` together, except that there is at least one when there are any.
  func page(
    of id: MigrationID, beyond name: RecordName?, with account: SubjectID, count: Int, bytes: Int
  ) async throws(StorageError) -> (conflicts: [MigrationConflict], hasMore: Bool)

  func insert(_ records: [SetAsideRecord], of id: MigrationID) async throws(StorageError)

  func remove(_ name: RecordName, of id: MigrationID) async throws(StorageError)

  /// At most `limit`. Returns how many.
  func remove(of id: MigrationID, limit: Int) async throws(StorageError) -> Int

  /// At most `limit` of all on their way into an account. Returns how many.
  func remove(into account: SubjectID, limit: Int) async throws(StorageError) -> Int

  /// How many of at most `limit` on their way into an account there are, and the bytes of their values.
  func size(into account: SubjectID, limit: Int) async throws(StorageError) -> (records: Int, bytes: Int)
}

/// A guest's record that waits for a person.
package struct SetAsideRecord: Sendable, Equatable {
  package let name: RecordName
  package let content: RecordContent
  package let reason: ConflictReason

  package init(name: RecordName, content: RecordContent, reason: ConflictReason) {
    self.name = name
    self.content = content
    self.reason = reason
  }
}

/// What guests had, once it is no longer theirs, by migration and name.
package protocol MovedRecordRows {
  /// For each name, in their order, what is kept; nil where there is nothing.
  func find(_ names: [RecordName], of id: MigrationID) async throws(StorageError) -> [RecordContent?]

  /// In the order of names, at most `count`, and no more once the values hold `bytes`.
  func first(of id: MigrationID, count: Int, bytes: Int) async throws(StorageError) -> [RecordDraft]

  /// Takes records away from who has them: the first by name, at most `count`, and no more once their values hold `bytes`.
  /// Returns how many.
  func take(
    from guest: SubjectID, for id: MigrationID, count: Int, bytes: Int
  ) async throws(StorageError) -> Int

  func remove(_ names: [RecordName], of id: MigrationID) async throws(StorageError)

  /// At most `limit`. Returns how many.
  func remove(of id: MigrationID, limit: Int) async throws(StorageError) -> Int

  /// At most `limit` of all that went into an account. Returns how many.
  func remove(into account: SubjectID, limit: Int) async throws(StorageError) -> Int
}
