/// What a record holds besides its name.
package struct RecordContent: Sendable, Equatable {
  /// At most 64 KiB: a record is an entry, not a file.
  package static let maximumValueBytes = 64 * 1024

  /// Bytes that the app understands.
  package var value: [UInt8]
  /// The quantity that SUM and MAX work on.
  package var number: Int64
  /// When the person did it, by the app's clock; NEWEST compares it.
  package var updatedAt: Timestamp

  package init(value: [UInt8], number: Int64, updatedAt: Timestamp) {
    self.value = value
    self.number = number
    self.updatedAt = updatedAt
  }
}
