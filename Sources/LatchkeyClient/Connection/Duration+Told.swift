extension Duration {
  /// A time that a service told in seconds: none when it is negative, and no longer than anybody waits, so that adding
  /// it to a clock overflows nothing.
  static func told(seconds: Int64) -> Duration {
    .seconds(min(max(0, seconds), Limits.longestToldSeconds))
  }
}
