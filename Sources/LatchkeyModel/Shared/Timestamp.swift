/// A point in UTC, in whole milliseconds since 1970-01-01T00:00:00Z: what the services store and compare.
package struct Timestamp: Sendable, Hashable, Comparable, CustomStringConvertible {
  package let millisecondsSinceEpoch: Int64

  package init(millisecondsSinceEpoch: Int64) {
    self.millisecondsSinceEpoch = millisecondsSinceEpoch
  }

  package init(secondsSinceEpoch: Int64) {
    self.millisecondsSinceEpoch = secondsSinceEpoch * 1000
  }

  /// Whole seconds since the epoch, rounded down: the unit of JWT claims (RFC 7519 `NumericDate`).
  package var secondsSinceEpoch: Int64 {
    millisecondsSinceEpoch >= 0 ? millisecondsSinceEpoch / 1000 : (millisecondsSinceEpoch - 999) / 1000
  }

  package static func < (left: Timestamp, right: Timestamp) -> Bool {
    left.millisecondsSinceEpoch < right.millisecondsSinceEpoch
  }

  /// The 8 bytes, for where a text holds a time.
  package var bigEndianBytes: [UInt8] {
    let bits = UInt64(bitPattern: millisecondsSinceEpoch)
    return stride(from: UInt64(56), through: 0, by: -8).map { UInt8(truncatingIfNeeded: bits >> $0) }
  }

  package init(bigEndianBytes bytes: some Sequence<UInt8>) {
    self.init(millisecondsSinceEpoch: Int64(bitPattern: bytes.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }))
  }

  /// Sub-millisecond parts of `duration` are dropped.
  package static func + (time: Timestamp, duration: Duration) -> Timestamp {
    Timestamp(millisecondsSinceEpoch: time.millisecondsSinceEpoch + duration.wholeMilliseconds)
  }

  package static func - (time: Timestamp, duration: Duration) -> Timestamp {
    Timestamp(millisecondsSinceEpoch: time.millisecondsSinceEpoch - duration.wholeMilliseconds)
  }

  package static func - (later: Timestamp, earlier: Timestamp) -> Duration {
    .milliseconds(later.millisecondsSinceEpoch - earlier.millisecondsSinceEpoch)
  }

  package var description: String { "\(millisecondsSinceEpoch)ms" }
}

extension Duration {
  /// The duration in whole milliseconds, rounded towards zero.
  package var wholeMilliseconds: Int64 {
    Int64(clamping: attoseconds / 1_000_000_000_000_000)
  }

  /// The duration in whole seconds, rounded up: what a client that waits this long is told.
  package var secondsRoundedUp: Int64 {
    components.seconds + (components.attoseconds > 0 ? 1 : 0)
  }
}
