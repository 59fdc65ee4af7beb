/// How much one subject may store. What moves into an account by a migration is not held to it: no record is lost for it.
package struct RecordBounds: Sendable, Equatable {
  /// Which bound a write would go beyond. The raw value is how the refusal names it.
  package enum Kind: String, Sendable, CaseIterable {
    case records
    case bytes
    case collections
  }

  package var records: Int
  /// Of values and names, without what storage adds.
  package var bytes: Int
  package var collections: Int
  /// For a guest, what all guests may store together, as ``cost(records:bytes:)`` counts it; nil for an account, which no
  /// guest keeps from storing.
  package var guestTotal: Int?

  package init(records: Int, bytes: Int, collections: Int, guestTotal: Int? = nil) {
    self.records = records
    self.bytes = bytes
    self.collections = collections
    self.guestTotal = guestTotal
  }

  /// What so many records take in all: a row of one byte takes some hundred on the disk. The sum that storage keeps counts
  /// the same, so the number stands in its schema too.
  package static func cost(records: Int, bytes: Int) -> Int { bytes + 256 * records }

  package subscript(kind: Kind) -> Int {
    switch kind {
    case .records: records
    case .bytes: bytes
    case .collections: collections
    }
  }

  /// What is used of each.
  package typealias Usage = RecordBounds

  /// The bound that going from `before` to `after` breaks. Somebody beyond a bound, as after a migration or a change of
  /// configuration, may still write what does not take them further.
  package func broken(from before: Usage, to after: Usage) -> Kind? {
    Kind.allCases.first { after[$0] > self[$0] && after[$0] > before[$0] }
  }
}
