import LatchkeyModel

/// The keys that sign tokens, in rows that more than one process has. What is stored is sealed: the rows alone sign nothing.
package protocol SharedSigningKeys: Sendable {
  /// Every key, as of one moment.
  func all() async throws(StorageError) -> SealedSigningKeys

  /// Changes which keys there are: `decide` gets all of them while nobody else changes any, and may be asked again when the
  /// change has to be begun anew. Returns what it said last, and what is there now.
  func change<Outcome: Sendable>(
    _ decide: @escaping @Sendable (SealedSigningKeys) -> (change: SealedSigningKeyChange, outcome: Outcome)
  ) async throws(StorageError) -> (outcome: Outcome, keys: SealedSigningKeys)
}

package struct SealedSigningKey: Sendable, Equatable {
  package let id: String
  /// When it begins to sign.
  package let notBefore: Timestamp
  package let sealed: [UInt8]

  package init(id: String, notBefore: Timestamp, sealed: [UInt8]) {
    self.id = id
    self.notBefore = notBefore
    self.sealed = sealed
  }
}

/// What was found.
package struct SealedSigningKeys: Sendable {
  package var keys: [SealedSigningKey]
  /// The rows' own time, whatever the clocks of instances say.
  package var time: Timestamp
  /// Who answered, as in an ``EndingsMark``.
  package var server: String

  package init(keys: [SealedSigningKey], time: Timestamp, server: String) {
    self.keys = keys
    self.time = time
    self.server = server
  }
}

package struct SealedSigningKeyChange: Sendable {
  package var new: [SealedSigningKey]
  /// The ids of those that go.
  package var gone: [String]

  package init(new: [SealedSigningKey] = [], gone: [String] = []) {
    self.new = new
    self.gone = gone
  }

  package var isEmpty: Bool { new.isEmpty && gone.isEmpty }
}
