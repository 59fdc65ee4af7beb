/// How long to wait before the next try, growing with each failure and never the same for two clients.
///
/// Source: gRPC "Connection Backoff Protocol"; gRFC A6 uses the same shape.
package struct Backoff: Sendable, Equatable {
  package var initial: Duration
  package var multiplier: Double
  package var maximum: Duration
  /// The share by which a wait differs from its mean, either way.
  package var jitter: Double

  package init(initial: Duration, multiplier: Double, maximum: Duration, jitter: Double = 0.2) {
    self.initial = initial
    self.multiplier = multiplier
    self.maximum = maximum
    self.jitter = jitter
  }

  /// The protocol's own numbers.
  package static let connection = Backoff(initial: .seconds(1), multiplier: 1.6, maximum: .seconds(120))

  /// The wait after `failures` failures in a row, at least one. `random` is uniform in 0..<1.
  package func delay(failures: Int, random: Double) -> Duration {
    var mean = initial
    for _ in 1..<max(1, failures) {
      guard mean < maximum else { break }
      mean = mean * multiplier
    }
    return min(mean, maximum) * (1 + jitter * (2 * random - 1))
  }
}
