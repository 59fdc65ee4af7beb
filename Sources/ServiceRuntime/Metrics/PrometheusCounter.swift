internal import CoreMetrics
internal import Synchronization

/// A number that only grows.
final class PrometheusCounter: CounterHandler {
  private let count = Atomic<Int64>(0)

  var value: Int64 { count.load(ordering: .relaxed) }

  func increment(by amount: Int64) {
    count.wrappingAdd(amount, ordering: .relaxed)
  }

  func reset() {
    count.store(0, ordering: .relaxed)
  }
}
