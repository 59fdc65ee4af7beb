internal import CoreMetrics
internal import Synchronization

/// Counts observations in buckets, as Prometheus adds them up across instances.
final class PrometheusHistogram: TimerHandler, RecorderHandler {
  struct Bound {
    /// Observations up to this many units fall into the bucket.
    let limit: Int64
    /// The bound as it is printed.
    let text: String
  }

  private let bounds: [Bound]
  /// Those of `bounds`, by themselves: what an observation is compared with.
  private let limits: [Int64]
  private let state: Mutex<State>

  private struct State {
    /// One for each bound, and the last for what is beyond.
    var counts: [Int64]
    var sum: Int64 = 0
  }

  /// - Parameter bounds: ascending.
  init(bounds: [Bound]) {
    self.bounds = bounds
    limits = bounds.map(\.limit)
    state = Mutex(State(counts: Array(repeating: 0, count: bounds.count + 1)))
  }

  func recordNanoseconds(_ duration: Int64) { record(duration) }

  func record(_ value: Int64) { record(value, times: 1) }

  /// Records as many observations of one value.
  func record(_ value: Int64, times: Int64) {
    let index = limits.firstIndex { value <= $0 } ?? limits.count
    state.withLock { state in
      state.counts[index] += times
      state.sum &+= value &* times
    }
  }

  func record(_ value: Double) {
    record(Int64(exactly: value.rounded()) ?? .max)
  }

  struct Snapshot {
    /// Cumulative, by printed bound, ending with `+Inf`.
    var buckets: [(bound: String, count: Int64)]
    var sum: Double
    var count: Int64
  }

  func snapshot() -> Snapshot {
    let state = state.withLock { $0 }
    var total: Int64 = 0
    var buckets: [(bound: String, count: Int64)] = []
    for (index, count) in state.counts.enumerated() {
      total += count
      buckets.append((index < bounds.count ? bounds[index].text : "+Inf", total))
    }
    return Snapshot(buckets: buckets, sum: Double(state.sum) / Double(unit), count: total)
  }

  /// Units in one of what is printed: nanoseconds in a second, or one.
  private var unit: Int64 { bounds.first?.text.contains(".") == true ? 1_000_000_000 : 1 }
}
