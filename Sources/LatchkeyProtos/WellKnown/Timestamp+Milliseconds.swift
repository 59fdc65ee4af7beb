extension GoogleProtobuf.Timestamp {
  /// The time `millisecondsSinceEpoch` after 1970-01-01T00:00:00Z; before it when negative.
  package init(millisecondsSinceEpoch: Int64) {
    // nanos count forward from seconds, also before the epoch: -1 ms is -1 s and 999,000,000 ns.
    let (quotient, remainder) = millisecondsSinceEpoch.quotientAndRemainder(dividingBy: 1000)
    let isBefore = remainder < 0
    self.init(
      seconds: isBefore ? quotient - 1 : quotient,
      nanos: Int32(isBefore ? remainder + 1000 : remainder) * 1_000_000
    )
  }

  /// Whole milliseconds since the epoch, rounded down; nil for what `google.protobuf.Timestamp` does not allow: a year
  /// outside 1 to 9999, or nanoseconds outside a second.
  package var millisecondsSinceEpoch: Int64? {
    guard (-62_135_596_800...253_402_300_799).contains(seconds), (0...999_999_999).contains(nanos) else { return nil }
    return seconds * 1000 + Int64(nanos / 1_000_000)
  }
}
