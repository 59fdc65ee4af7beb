internal import CoreMetrics
internal import Synchronization

/// A number that goes up and down.
final class PrometheusGauge: MeterHandler, RecorderHandler {
  private let bits = Atomic<UInt64>(0)

  var value: Double { Double(bitPattern: bits.load(ordering: .relaxed)) }

  func set(_ value: Int64) { set(Double(value)) }

  func set(_ value: Double) {
    bits.store(value.bitPattern, ordering: .relaxed)
  }

  func increment(by amount: Double) {
    var current = bits.load(ordering: .relaxed)
    while true {
      let next = (Double(bitPattern: current) + amount).bitPattern
      let (exchanged, original) = bits.weakCompareExchange(expected: current, desired: next, ordering: .relaxed)
      if exchanged { return }
      current = original
    }
  }

  func decrement(by amount: Double) { increment(by: -amount) }

  func record(_ value: Int64) { set(Double(value)) }
  func record(_ value: Double) { set(value) }
}
