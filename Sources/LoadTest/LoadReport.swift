import Histogram
import JSON

/// The results of a load test, and the ways to read them.
package struct LoadReport: Sendable {
  package struct Verdict: Sendable, Equatable {
    package let threshold: LoadThreshold
    package let actual: Double
    package let isCrossed: Bool
  }

  /// The latency points that text and JSON show.
  static let percentiles = [50, 90, 95, 99, 99.9, 99.99]

  package let title: String
  /// The series of the whole operation: `poll` or `flow`.
  package let primary: String
  package let ramp: Duration
  package let measured: Duration
  /// An open loop counts latency from when an operation was due. In a closed loop a stall keeps the next ones from
  /// starting, which is corrected for when the results are read.
  package let isOpenLoop: Bool
  package let recorder: LoadRecorder
  package private(set) var verdicts: [Verdict]
  /// What was asked for and run on, for the JSON: members such as `options`, `versions`, `machine`, `cpu`.
  package var setup: [JSONValue.Member] = []
  /// Processor seconds of the service and of the load itself while the test ran; nil where nobody could measure.
  package var cpu: (server: Double?, load: Double)?
  /// The primary series of a closed loop with the operations that a stall kept from starting.
  private let corrected: Histogram<UInt64>?

  /// The series of how late an open loop's operations began: beside the point, but what the load itself is late by.
  package static let lateness = "late"

  /// `measured` is the time that the latencies are from, without the ramp.
  package init(
    title: String,
    primary: String,
    ramp: Duration = .zero,
    measured: Duration,
    isOpenLoop: Bool = true,
    recorder: LoadRecorder,
    thresholds: [LoadThreshold]
  ) {
    self.title = title
    self.primary = primary
    self.ramp = ramp
    self.measured = measured
    self.isOpenLoop = isOpenLoop
    self.recorder = recorder
    corrected = isOpenLoop ? nil : recorder.series[primary].map(Self.corrected)
    verdicts = []
    verdicts = thresholds.map { threshold in
      let actual = value(of: threshold)
      return Verdict(threshold: threshold, actual: actual, isCrossed: threshold.isCrossed(by: actual))
    }
  }

  package var operations: UInt64 { recorder.series[primary]?.totalCount ?? 0 }
  package var rate: Double { Double(operations) / max(measured.inSeconds, 1e-9) }
  package var isCrossed: Bool { verdicts.contains(where: \.isCrossed) }

  /// Whether the test failed: a condition held, a promise was broken, or nothing was measured.
  package var hasFailed: Bool { isCrossed || recorder.violationCount > 0 || operations == 0 }

  /// The latencies that percentiles are read from.
  func latency(_ name: String) -> Histogram<UInt64>? {
    name == primary ? corrected ?? recorder.series[name] : recorder.series[name]
  }

  /// As if each worker had been due at even intervals, of the median latency: what waited behind a slow operation counts
  /// from when it would have begun.
  private static func corrected(_ raw: Histogram<UInt64>) -> Histogram<UInt64> {
    var corrected = Histogram<UInt64>(
      highestTrackableValue: Limits.longestLatency, numberOfSignificantValueDigits: .three)
    let interval = max(1, raw.valueAtPercentile(50), raw.max / Limits.correctionsPerValue)
    for entry in raw.recordedValues() {
      corrected.recordCorrectedValue(entry.value, count: entry.count, expectedInterval: interval)
    }
    return corrected
  }

  private func value(of threshold: LoadThreshold) -> Double {
    let histogram = latency(threshold.series ?? primary)
    switch threshold.metric {
    case .percentile(let percent): return histogram.map { Double($0.valueAtPercentile(percent)) } ?? .nan
    case .mean: return histogram.map(\.mean) ?? .nan
    case .max: return histogram.map { Double($0.max) } ?? .nan
    case .errors: return Double(recorder.errorCount)
    case .errorShare:
      let all = recorder.seconds.reduce(0) { $0 + $1.done + $1.failed }
      return all == 0 ? .nan : Double(recorder.errorCount) / Double(all)
    case .rps: return rate
    }
  }

  // MARK: Text

  /// - Parameter columns: how wide a line may be; columns that a narrow terminal has no room for are left out.
  package func text(columns: Int = .max) -> String {
    var (heads, rows) = (headings, rows)
    func width() -> Int {
      heads.indices.reduce(2) { sum, column in sum + (([heads] + rows).map { $0[column].count }.max() ?? 0) + 2 } - 2
    }
    for name in Self.leastTelling where width() > columns {
      guard let column = heads.firstIndex(of: name) else { continue }
      heads.remove(at: column)
      for row in rows.indices { rows[row].remove(at: column) }
    }
    let widths = heads.indices.map { column in ([heads] + rows).map { $0[column].count }.max() ?? 0 }
    let table = ([heads] + rows).map { row in
      let cells = row.indices.map { column in
        let pad = String(repeating: " ", count: widths[column] - row[column].count)
        return column == 0 ? row[column] + pad : pad + row[column]
      }
      return "  " + cells.joined(separator: "  ")
    }
    return ([title, ""] + table + [""] + facts.map { "  \($0)" }).joined(separator: "\n") + "\n"
  }

  /// The columns that a narrow terminal does without, in this order.
  private static let leastTelling = ["p99.99", "p95", "p99.9", "mean", "count", "p90", "max"]

  var headings: [String] {
    ["latency"] + Self.percentiles.map { "p\(Self.short($0))" } + ["max", "mean", "count"]
  }

  /// One for each series.
  var rows: [[String]] {
    func row(_ name: String, _ histogram: Histogram<UInt64>) -> [String] {
      [name] + Self.percentiles.map { Self.time(Double(histogram.valueAtPercentile($0))) }
        + [Self.time(Double(histogram.max)), Self.time(histogram.mean), "\(histogram.totalCount)"]
    }
    var rows: [[String]] = []
    for name in names {
      guard let raw = recorder.series[name] else { continue }
      if name == primary, let corrected { rows.append(row(name, corrected)) }
      rows.append(row(name == primary && corrected != nil ? "\(name), as seen" : name, raw))
    }
    return rows
  }

  /// What else there is to say, a sentence each.
  var facts: [String] {
    var facts = ["\(operations) \(primary)s in \(Self.fixed(measured.inSeconds, 1)) s: \(Self.fixed(rate, 1)) a second"]
    if corrected != nil {
      facts.append("closed loop: \(primary) also counts what waited behind a slow one (coordinated omission)")
    } else if recorder.series[Self.lateness] != nil {
      facts.append("open loop: latency counts from when each was due; late is how long after that it began")
    }
    for (what, count) in recorder.notes.sorted(by: { $0.key < $1.key }) { facts.append("\(what): \(count)") }
    if recorder.redeemedSessions > 0 || primary == "flow" {
      let verdict = recorder.violationCount == 0 ? "each exactly once, none lost" : "NOT each exactly once"
      facts.append("sign-ins confirmed and handed over: \(recorder.redeemedSessions), \(verdict)")
    }
    if let cpu {
      let server = cpu.server.map { "\(Self.fixed($0, 2)) s of the service, " } ?? ""
      facts.append("CPU: \(server)\(Self.fixed(cpu.load, 2)) s of the load")
    }
    facts.append("errors: \(recorder.errorCount)")
    for (reason, count) in recorder.errors.sorted(by: { $0.key < $1.key }) { facts.append("  \(count) × \(reason)") }
    if recorder.violationCount > 0 { facts.append("PROMISES BROKEN: \(recorder.violationCount)") }
    facts += recorder.violations.map { "  \($0)" }
    for verdict in verdicts {
      facts.append("\(verdict.isCrossed ? "✘ failed" : "✔ passed")  \(verdict.threshold.text) (\(Self.text(verdict)))")
    }
    return facts
  }

  /// The whole operation first, then its steps.
  var names: [String] {
    let order = ["issue", "scan", "confirm", "wake", "redeem"]
    let others = recorder.series.keys.filter { $0 != primary }
    return [primary]
      + others.sorted { left, right in
        (order.firstIndex(of: left) ?? order.count, left) < (order.firstIndex(of: right) ?? order.count, right)
      }
  }

  private static func text(_ verdict: Verdict) -> String {
    if verdict.actual.isNaN { return "nothing was measured" }
    return switch verdict.threshold.metric {
    case .percentile, .mean, .max: time(verdict.actual)
    case .errors: short(verdict.actual)
    case .errorShare: fixed(verdict.actual * 100, 3) + "%"
    case .rps: fixed(verdict.actual, 1)
    }
  }

  // MARK: JSON

  package func json() -> JSONValue { .object(results + setup + [.init("cpu", cpuJSON)]) }

  private var cpuJSON: JSONValue {
    cpu.map { ["server_s": $0.server.map { .number($0) } ?? .null, "load_s": .number($0.load)] } ?? .null
  }

  private var results: [JSONValue.Member] {
    let document: JSONValue = [
      "title": .string(title),
      "primary": .string(primary),
      "measured_s": .number(measured.inSeconds),
      "operations": .integer(Int64(operations)),
      "rps": .number(rate),
      "loop": .string(isOpenLoop ? "open" : "closed"),
      "latency_ns": .object(names.compactMap { name in latency(name).map { Self.member(name, $0) } }),
      "latency_as_seen_ns": corrected == nil
        ? .null : .object(recorder.series[primary].map { [Self.member(primary, $0)] } ?? []),
      "notes": .object(
        recorder.notes.sorted { $0.key < $1.key }.map { JSONValue.Member($0.key, .integer(Int64($0.value))) }
      ),
      "errors": .object(
        recorder.errors.sorted { $0.key < $1.key }.map { JSONValue.Member($0.key, .integer(Int64($0.value))) }
      ),
      "error_count": .integer(Int64(recorder.errorCount)),
      "redeemed": .integer(Int64(recorder.redeemedSessions)),
      "violation_count": .integer(Int64(recorder.violationCount)),
      "violations": .array(recorder.violations.map { .string($0) }),
      "seconds": .array(
        recorder.seconds.map { ["done": .integer(Int64($0.done)), "failed": .integer(Int64($0.failed))] }
      ),
      "failed": .bool(hasFailed),
      "thresholds": .array(
        verdicts.map { verdict in
          [
            "condition": .string(verdict.threshold.text),
            "actual": verdict.actual.isNaN ? .null : .number(verdict.actual),
            "failed": .bool(verdict.isCrossed),
          ]
        }
      ),
    ]
    return document.members ?? []
  }

  private static func member(_ name: String, _ histogram: Histogram<UInt64>) -> JSONValue.Member {
    let points = percentiles.map { percent in
      JSONValue.Member("p\(short(percent))", .integer(Int64(histogram.valueAtPercentile(percent))))
    }
    let rest = [
      JSONValue.Member("max", .integer(Int64(histogram.max))),
      JSONValue.Member("mean", .number(histogram.mean)),
      JSONValue.Member("count", .integer(Int64(histogram.totalCount))),
    ]
    return JSONValue.Member(name, .object(points + rest))
  }

  // MARK: Words for numbers

  static func time(_ nanoseconds: Double) -> String {
    switch nanoseconds {
    case ..<1e3: fixed(nanoseconds, 0) + " ns"
    case ..<1e6: fixed(nanoseconds / 1e3, 1) + " µs"
    case ..<1e9: fixed(nanoseconds / 1e6, 2) + " ms"
    default: fixed(nanoseconds / 1e9, 2) + " s"
    }
  }

  static func fixed(_ value: Double, _ digits: Int) -> String {
    guard value.isFinite, abs(value) < 1e12 else { return "-" }
    var scale: Int64 = 1
    for _ in 0..<digits { scale *= 10 }
    let whole = Int64((abs(value) * Double(scale)).rounded())
    let sign = value < 0 && whole > 0 ? "-" : ""
    guard digits > 0 else { return "\(sign)\(whole)" }
    let rest = String(whole % scale)
    return "\(sign)\(whole / scale)." + String(repeating: "0", count: digits - rest.count) + rest
  }

  /// Such as `1 worker`, `16 workers`.
  package static func counted(_ count: Int, _ noun: String) -> String { "\(count) \(noun)\(count == 1 ? "" : "s")" }

  /// Without a fraction where there is none.
  package static func short(_ value: Double) -> String {
    value == value.rounded() && abs(value) < 1e15 ? "\(Int64(value))" : "\(value)"
  }
}
