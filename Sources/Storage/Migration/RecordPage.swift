import LatchkeyModel

/// Part of a list.
package struct RecordPage: Sendable, Equatable {
  package let records: [Record]
  /// Whether the list goes on beyond the last record.
  package let hasMore: Bool

  package init(records: [Record], hasMore: Bool) {
    self.records = records
    self.hasMore = hasMore
  }
}
