/// When each operation of an open loop is due, whatever becomes of the ones before it.
///
/// The rate grows in a straight line from nothing to `rate` over `ramp`, and stays: n(t) = rate·t²/(2·ramp), then
/// n(t) = rate·(t - ramp/2).
package struct LoadSchedule: Sendable, Equatable {
  /// Operations in a second, above zero.
  package let rate: Double
  package let ramp: Duration

  package init(rate: Double, ramp: Duration) {
    precondition(rate > 0, "a schedule without operations has no due times")
    self.rate = rate
    self.ramp = ramp
  }

  /// The time from the start at which the operation is due; the first is number 0.
  package func due(_ number: Int) -> Duration {
    let ramp = self.ramp.inSeconds
    let inRamp = rate * ramp / 2
    let number = Double(number)
    return .seconds(number < inRamp ? (2 * number * ramp / rate).squareRoot() : ramp / 2 + number / rate)
  }
}

extension Duration {
  package var inSeconds: Double { self / .seconds(1) }

  /// Whole nanoseconds, none for a negative duration.
  package var nanoseconds: UInt64 { UInt64(max(0, self / .nanoseconds(1))) }
}
