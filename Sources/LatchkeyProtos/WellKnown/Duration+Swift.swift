extension GoogleProtobuf.Duration {
  /// `duration` in nanoseconds, rounded towards zero; the nearest that `google.protobuf.Duration` allows (about 10,000
  /// years) for a longer one.
  package init(_ duration: Duration) {
    let (seconds, attoseconds) = duration.components
    if seconds > Self.maximumSeconds {
      self.init(seconds: Self.maximumSeconds, nanos: 999_999_999)
    } else if seconds < -Self.maximumSeconds {
      self.init(seconds: -Self.maximumSeconds, nanos: -999_999_999)
    } else {
      self.init(seconds: seconds, nanos: Int32(attoseconds / 1_000_000_000))
    }
  }

  /// Nil for what `google.protobuf.Duration` does not allow: too long, or signs that differ.
  package var duration: Duration? {
    guard (-Self.maximumSeconds...Self.maximumSeconds).contains(seconds) else { return nil }
    guard (-999_999_999...999_999_999).contains(nanos) else { return nil }
    guard seconds == 0 || nanos == 0 || (seconds < 0) == (nanos < 0) else { return nil }
    return .seconds(seconds) + .nanoseconds(Int64(nanos))
  }

  private static let maximumSeconds: Int64 = 315_576_000_000
}
