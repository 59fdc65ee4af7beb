import LatchkeyModel

/// Documents that operators write, in rows that more than one process has. Each change of one has the next number; which
/// contents there ever were is remembered for the last hundred.
package protocol SharedDocuments: Sendable {
  /// The number of what is there of each document, by its name.
  func numbers() async throws(StorageError) -> [String: Int64]

  /// What is there; nil for a document that nobody has written.
  func find(_ name: String) async throws(StorageError) -> SharedDocument?

  /// Puts `contents` in the place of what is there if `decide` says so, who is told of that and whether there were the same
  /// contents before, while nobody else changes it. May be asked again when the change has to be begun anew.
  /// The change is on record as `record` says, in the same transaction.
  func change<Outcome: Sendable>(
    _ name: String, to contents: [UInt8], hash: [UInt8], record: AuditRecord?,
    if decide: @escaping @Sendable (_ current: SharedDocument?, _ wasThere: Bool) -> (isWanted: Bool, outcome: Outcome)
  ) async throws(StorageError) -> Outcome
}

package struct SharedDocument: Sendable, Equatable {
  package let number: Int64
  package let contents: [UInt8]

  package init(number: Int64, contents: [UInt8]) {
    self.number = number
    self.contents = contents
  }
}

/// What is to be on record of a change, in which log.
package struct AuditRecord: Sendable {
  package let note: AuditNote
  package let chain: AuditChain

  package init(_ note: AuditNote, in chain: AuditChain) {
    self.note = note
    self.chain = chain
  }
}
