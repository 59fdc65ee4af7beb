internal import CoreMetrics
internal import Synchronization

/// A number that only grows.
package final class PrometheusCounter: CounterHandler {
  private let count = Atomic<Int64>(0)

  package var value: Int64 { count.load(ordering: .relaxed) }

  package func increment(by amount: Int64) {
    count.wrappingAdd(amount, ordering: .relaxed)
  }

  package func reset() {
    count.store(0, ordering: .relaxed)
  }
}
