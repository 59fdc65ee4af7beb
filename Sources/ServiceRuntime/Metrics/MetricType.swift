/// What a metric's numbers mean (exposition format 0.0.4).
package enum MetricType: String, Sendable {
  /// Only grows, until the process begins anew.
  case counter
  /// Goes up and down.
  case gauge
  /// Counts observations in buckets.
  case histogram
}
