package import CoreMetrics
internal import Synchronization

/// Keeps metrics in memory and writes them as Prometheus text (exposition format 0.0.4).
///
/// Counters and meters are one atomic each; timers and aggregating recorders are histograms. The same label and
/// dimensions give the same handler.
package final class PrometheusRegistry: MetricsFactory {
  private struct Identity: Hashable {
    let name: String
    /// As they stand between the braces.
    let labels: String
  }

  private enum Series {
    case counter(PrometheusCounter)
    case gauge(PrometheusGauge)
    case histogram(PrometheusHistogram)
  }

  private let series = Mutex<[Identity: Series]>([:])

  package init() {}

  package func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
    let made = find(label, dimensions, suffix: "_total", .counter(PrometheusCounter()))
    if case .counter(let counter) = made { return counter }
    return PrometheusCounter()
  }

  package func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
    let made = find(label, dimensions, suffix: "", .gauge(PrometheusGauge()))
    if case .gauge(let gauge) = made { return gauge }
    return PrometheusGauge()
  }

  package func makeRecorder(
    label: String,
    dimensions: [(String, String)],
    aggregate: Bool
  ) -> any RecorderHandler {
    if !aggregate {
      let made = find(label, dimensions, suffix: "", .gauge(PrometheusGauge()))
      if case .gauge(let gauge) = made { return gauge }
      return PrometheusGauge()
    }
    let made = find(label, dimensions, suffix: "", .histogram(PrometheusHistogram(bounds: Limits.sizeBuckets)))
    if case .histogram(let histogram) = made { return histogram }
    return PrometheusHistogram(bounds: Limits.sizeBuckets)
  }

  package func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
    makeHistogram(label: label, dimensions: dimensions)
  }

  /// What `makeTimer` makes, by its type.
  func makeHistogram(label: String, dimensions: [(String, String)]) -> PrometheusHistogram {
    let made = find(
      label,
      dimensions,
      suffix: "_seconds",
      .histogram(PrometheusHistogram(bounds: Limits.latencyBuckets))
    )
    if case .histogram(let histogram) = made { return histogram }
    return PrometheusHistogram(bounds: Limits.latencyBuckets)
  }

  // Series stay: a scraper expects a counter to be there, and their number is bounded.
  package func destroyCounter(_ handler: any CounterHandler) {}
  package func destroyMeter(_ handler: any MeterHandler) {}
  package func destroyRecorder(_ handler: any RecorderHandler) {}
  package func destroyTimer(_ handler: any TimerHandler) {}

  /// The series of this name and these labels, `new` if there is none. One name has one type; beyond the bound on
  /// series `new` is returned unregistered, so that a label with endless values cannot fill memory.
  private func find(_ label: String, _ dimensions: [(String, String)], suffix: String, _ new: Series) -> Series {
    let identity = Identity(name: Self.name(label, suffix), labels: Self.labels(dimensions))
    return series.withLock { series in
      if let found = series[identity] { return found }
      if series.count < Limits.metricSeries { series[identity] = new }
      return new
    }
  }

  /// Everything, sorted, as a scraper reads it.
  package func text() -> [UInt8] {
    let all = series.withLock { $0 }.sorted { ($0.key.name, $0.key.labels) < ($1.key.name, $1.key.labels) }
    var text = ""
    var previous: String?
    for (identity, series) in all {
      if identity.name != previous {
        text += "# TYPE \(identity.name) \(Self.type(series))\n"
        previous = identity.name
      }
      switch series {
      case .counter(let counter): text += Self.sample(identity.name, identity.labels, "\(counter.value)")
      case .gauge(let gauge): text += Self.sample(identity.name, identity.labels, "\(gauge.value)")
      case .histogram(let histogram):
        let snapshot = histogram.snapshot()
        let separator = identity.labels.isEmpty ? "" : ","
        for (bound, count) in snapshot.buckets {
          text += Self.sample("\(identity.name)_bucket", "\(identity.labels)\(separator)le=\"\(bound)\"", "\(count)")
        }
        text += Self.sample("\(identity.name)_sum", identity.labels, "\(snapshot.sum)")
        text += Self.sample("\(identity.name)_count", identity.labels, "\(snapshot.count)")
      }
    }
    return Array(text.utf8)
  }

  private static func type(_ series: Series) -> String {
    switch series {
    case .counter: "counter"
    case .gauge: "gauge"
    case .histogram: "histogram"
    }
  }

  private static func sample(_ name: String, _ labels: String, _ value: String) -> String {
    labels.isEmpty ? "\(name) \(value)\n" : "\(name){\(labels)} \(value)\n"
  }

  /// Letters, digits, underscores and colons are all that a name may have.
  private static func name(_ label: String, _ suffix: String) -> String {
    let characters = label.map { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_" || $0 == ":") ? $0 : "_" }
    let name = String(characters)
    return name.hasSuffix(suffix) ? name : name + suffix
  }

  private static func labels(_ dimensions: [(String, String)]) -> String {
    dimensions.sorted { $0.0 < $1.0 }.map { name, value in
      var escaped = ""
      for character in value.unicodeScalars {
        switch character {
        case "\\": escaped += "\\\\"
        case "\"": escaped += "\\\""
        case "\n": escaped += "\\n"
        default: escaped.unicodeScalars.append(character)
        }
      }
      return "\(Self.name(name, ""))=\"\(escaped)\""
    }.joined(separator: ",")
  }
}
