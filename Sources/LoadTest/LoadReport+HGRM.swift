import Glibc
import Histogram

extension LoadReport {
  /// The latencies of a series in milliseconds, as HdrHistogram's own tools write, draw and compare them (`.hgrm`); nil
  /// when nothing was measured. Five lines to each halving of what is left to 100%.
  package func hgrm(_ name: String) -> String? {
    guard let histogram = latency(name), histogram.totalCount > 0 else { return nil }
    var text = "       Value     Percentile TotalCount 1/(1-Percentile)\n\n"
    for step in histogram.percentiles(ticksPerHalfDistance: 5) {
      let share = step.percentileLevelIteratedTo / 100
      let value = Self.padded(Self.fixed(Double(step.value) / 1e6, 3), 12)
      text += "\(value) \(Self.fixed(share, 12)) \(Self.padded("\(step.totalCountToThisValue)", 10))"
      text += share < 1 ? " \(Self.padded(Self.fixed(1 / (1 - share), 2), 14))\n" : "            inf\n"
    }
    func foot(_ value: Double) -> String { Self.padded(Self.fixed(value / 1e6, 3), 12) }
    text += "#[Mean    = \(foot(histogram.mean)), StdDeviation   = \(foot(histogram.stdDeviation))]\n"
    text +=
      "#[Max     = \(foot(Double(histogram.max))), Total count    = \(Self.padded("\(histogram.totalCount)", 12))]\n"
    return text
  }

  /// Every series that was measured, the whole operation first.
  package var measuredNames: [String] { names.filter { recorder.series[$0] != nil } }

  private static func padded(_ text: String, _ width: Int) -> String {
    String(repeating: " ", count: max(0, width - text.count)) + text
  }
}
