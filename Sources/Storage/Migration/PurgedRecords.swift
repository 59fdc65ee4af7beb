/// What one step of removing a deleted subject's records did.
package struct PurgedRecords: Sendable, Equatable {
  /// Records that were removed; what migrations kept of them is not counted.
  package let count: Int
  /// Whether nothing is left.
  package let isLast: Bool

  package init(count: Int, isLast: Bool) {
    self.count = count
    self.isLast = isLast
  }
}
