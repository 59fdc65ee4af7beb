/// What happened to a guest's records of one collection.
package struct CollectionReport: Sendable, Equatable {
  package let collection: CollectionName
  package let policy: MigrationPolicy
  /// The most records of the collection that the account may hold; nil for no bound.
  package let maximumRows: Int?
  /// Records that the guest held.
  package let sourceCount: Int
  package private(set) var counts: [MergeOutcome: Int]
  /// Records of the account that taking back left other than they were before, because their owner changed them.
  package private(set) var remained: Int

  package init(
    collection: CollectionName,
    policy: MigrationPolicy,
    maximumRows: Int?,
    sourceCount: Int,
    counts: [MergeOutcome: Int] = [:],
    remained: Int = 0
  ) {
    self.collection = collection
    self.policy = policy
    self.maximumRows = maximumRows
    self.sourceCount = sourceCount
    self.remained = remained
    self.counts = counts.filter { $0.value != 0 }
  }

  package subscript(outcome: MergeOutcome) -> Int { counts[outcome] ?? 0 }

  package mutating func count(_ outcome: MergeOutcome) { counts[outcome, default: 0] += 1 }

  /// What became of some records is another thing now: so many more or less of each outcome.
  package mutating func recount(_ changes: [MergeOutcome: Int]) {
    counts.merge(changes) { $0 + $1 }
    counts = counts.filter { $0.value != 0 }
  }

  /// More records were left other than they were.
  package mutating func countRemained(_ count: Int) { remained += count }

  package var total: Int { counts.values.reduce(0, +) }

  /// Whether each record of the guest was counted once.
  package var isComplete: Bool { total == sourceCount }
}
