package import CoreMetrics
internal import Synchronization

/// Keeps metrics in memory and writes them as Prometheus text (exposition format 0.0.4).
///
/// Counters and meters are one atomic each; timers and aggregating recorders are histograms. The same label and
/// dimensions give the same handler. What is kept elsewhere is read for each scrape (``observe(_:_:_:labels:read:)``).
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

  /// A number that is read when somebody asks for it.
  private struct Observation: Sendable {
    let type: MetricType
    let read: @Sendable () -> Double?
  }

  private let series = Mutex<[Identity: Series]>([:])
  private let observations = Mutex<[Identity: Observation]>([:])
  /// By name.
  private let help = Mutex<[String: String]>([:])

  package init() {}

  /// What the metric of this name says, in a sentence for whoever reads a scrape.
  package func describe(_ name: String, _ text: String) {
    help.withLock { $0[name] = text }
  }

  /// A number that is read for each scrape; nil leaves it out. One name has one type, and each of its numbers labels of
  /// its own: a second one with the same labels takes the place of the first.
  package func observe(
    _ name: String,
    _ type: MetricType,
    _ text: String,
    labels: [(String, String)] = [],
    read: @escaping @Sendable () -> Double?
  ) {
    precondition(type != .histogram, "a histogram is more than a number")
    describe(name, text)
    let identity = Identity(name: name, labels: Self.labels(labels))
    observations.withLock { $0[identity] = Observation(type: type, read: read) }
  }

  /// The counter of this name, which ends in `_total`, by its type.
  package func counter(_ name: String, _ dimensions: [(String, String)] = []) -> PrometheusCounter {
    let made = find(name, dimensions, suffix: "_total", .counter(PrometheusCounter()))
    if case .counter(let counter) = made { return counter }
    return PrometheusCounter()
  }

  package func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
    counter(label, dimensions)
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

  /// Everything, sorted, as a scraper reads it. The numbers of one name stand together under what it means.
  package func text() -> [UInt8] {
    let help = help.withLock { $0 }
    var families: [String: (type: MetricType, samples: [(labels: String, text: String)])] = [:]
    for (identity, series) in series.withLock({ $0 }) {
      let sample = (identity.labels, Self.samples(identity, series))
      families[identity.name, default: (Self.type(series), [])].samples.append(sample)
    }
    for (identity, observation) in observations.withLock({ $0 }) {
      guard let value = observation.read() else { continue }
      let sample = (identity.labels, Self.sample(identity.name, identity.labels, Self.number(value)))
      families[identity.name, default: (observation.type, [])].samples.append(sample)
    }
    var text = ""
    for (name, family) in families.sorted(by: { $0.key < $1.key }) {
      if let help = help[name] { text += "# HELP \(name) \(help)\n" }
      text += "# TYPE \(name) \(family.type.rawValue)\n"
      for sample in family.samples.sorted(by: { $0.labels < $1.labels }) { text += sample.text }
    }
    return Array(text.utf8)
  }

  private static func samples(_ identity: Identity, _ series: Series) -> String {
    switch series {
    case .counter(let counter): return sample(identity.name, identity.labels, "\(counter.value)")
    case .gauge(let gauge): return sample(identity.name, identity.labels, number(gauge.value))
    case .histogram(let histogram):
      let snapshot = histogram.snapshot()
      let separator = identity.labels.isEmpty ? "" : ","
      var text = ""
      for (bound, count) in snapshot.buckets {
        text += sample("\(identity.name)_bucket", "\(identity.labels)\(separator)le=\"\(bound)\"", "\(count)")
      }
      text += sample("\(identity.name)_sum", identity.labels, "\(snapshot.sum)")
      return text + sample("\(identity.name)_count", identity.labels, "\(snapshot.count)")
    }
  }

  /// Whole numbers without a fraction, as far as a double holds them exactly.
  private static func number(_ value: Double) -> String {
    Int64(exactly: value).flatMap { abs($0) < 1 << 53 ? "\($0)" : nil } ?? "\(value)"
  }

  private static func type(_ series: Series) -> MetricType {
    switch series {
    case .counter: .counter
    case .gauge: .gauge
    case .histogram: .histogram
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
