import LatchkeyModel

/// Records, by their owner and name.
package protocol RecordRows {
  /// For each name, in their order, what is there; nil where there is nothing.
  func find(_ names: [RecordName], of subject: SubjectID) async throws(StorageError) -> [RecordLayers.Held?]

  /// For each name, in their order, how long its value is; nil where there is none.
  func lengths(of names: [RecordName], of subject: SubjectID) async throws(StorageError) -> [Int?]

  /// At most `count` records of a collection. Names and values hold at most `bytes` together, except that there is at
  /// least one record when there are any.
  func page(
    _ collection: CollectionName, of subject: SubjectID, in order: RecordOrder, count: Int, bytes: Int
  ) async throws(StorageError) -> RecordPage

  /// The same, each with what another subject has under its name; what that holds is not counted.
  func pairs(
    _ collection: CollectionName, of subject: SubjectID, with other: SubjectID, in order: RecordOrder, count: Int,
    bytes: Int
  ) async throws(StorageError) -> (pairs: [RecordPair], hasMore: Bool)

  /// How many names of a collection two subjects share, and at how many of them the numbers cannot be added.
  func overlap(
    _ collection: CollectionName, of subject: SubjectID, with other: SubjectID
  ) async throws(StorageError) -> (shared: Int, overflowing: Int)

  /// Writes all of them, in their order. A new one where there is one already is a ``StorageError``.
  func write(_ writes: [RecordWrite], of subject: SubjectID) async throws(StorageError)

  /// Each once. Returns how many of them there were.
  func remove(_ names: [RecordName], of subject: SubjectID) async throws(StorageError) -> Int

  /// At most `limit`, the first by name. Returns how many.
  func remove(of subject: SubjectID, limit: Int) async throws(StorageError) -> Int
}

extension RecordRows {
  package func find(_ name: RecordName, of subject: SubjectID) async throws(StorageError) -> RecordLayers.Held? {
    try await find([name], of: subject)[0]
  }
}

/// In which order a collection is read, and where from.
package enum RecordOrder: Sendable, Equatable {
  /// By time, and by key where times are the same; both from the last.
  case newest(beyond: RecordPosition?)
  /// By the bytes of keys: as they are stored, so that this is cheaper.
  case keys(after: RecordKey?)
}

/// A record, and what somebody else has under its name.
package struct RecordPair: Sendable, Equatable {
  package let record: Record
  package let other: Record?

  package init(record: Record, other: Record?) {
    self.record = record
    self.other = other
  }
}

/// A record as it is to be.
package struct RecordWrite: Sendable, Equatable {
  package let draft: RecordDraft
  package let revision: Int64
  /// Whether there is none of this name. Then it was born with this revision.
  package let isNew: Bool

  package init(draft: RecordDraft, revision: Int64, isNew: Bool) {
    self.draft = draft
    self.revision = revision
    self.isNew = isNew
  }
}
