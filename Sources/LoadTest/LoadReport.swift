import Cryptography
import Histogram

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
  package let measured: Duration
  package let recorder: LoadRecorder
  package let verdicts: [Verdict]

  /// `measured` is the time that the latencies are from, without the ramp.
  package init(
    title: String,
    primary: String,
    measured: Duration,
    recorder: LoadRecorder,
    thresholds: [LoadThreshold]
  ) {
    self.title = title
    self.primary = primary
    self.measured = measured
    self.recorder = recorder
    verdicts = thresholds.map { threshold in
      let actual = Self.value(of: threshold, recorder, primary, measured)
      return Verdict(threshold: threshold, actual: actual, isCrossed: threshold.isCrossed(by: actual))
    }
  }

  package var operations: UInt64 { recorder.series[primary]?.totalCount ?? 0 }
  package var rate: Double { Double(operations) / max(measured.inSeconds, 1e-9) }
  package var isCrossed: Bool { verdicts.contains(where: \.isCrossed) }

  private static func value(
    of threshold: LoadThreshold,
    _ recorder: LoadRecorder,
    _ primary: String,
    _ measured: Duration
  ) -> Double {
    let histogram = recorder.series[threshold.series ?? primary]
    let done = Double(recorder.series[primary]?.totalCount ?? 0)
    switch threshold.metric {
    case .percentile(let percent): return histogram.map { Double($0.valueAtPercentile(percent)) } ?? .nan
    case .mean: return histogram.map(\.mean) ?? .nan
    case .max: return histogram.map { Double($0.max) } ?? .nan
    case .errors: return Double(recorder.errorCount)
    case .errorShare:
      let all = recorder.seconds.reduce(0) { $0 + $1.done + $1.failed }
      return all == 0 ? .nan : Double(recorder.errorCount) / Double(all)
    case .rps: return done / max(measured.inSeconds, 1e-9)
    }
  }

  // MARK: Text

  package func text() -> String {
    var lines = [title, ""]
    lines.append(
      "  \(operations) operations in \(Self.fixed(measured.inSeconds, 1)) s: \(Self.fixed(rate, 1)) a second"
    )
    lines.append("")
    let heads = ["series"] + Self.percentiles.map { "p\(Self.short($0))" } + ["max", "mean", "count"]
    let rows = names.compactMap { name in
      recorder.series[name].map { histogram in
        [name] + Self.percentiles.map { Self.time(Double(histogram.valueAtPercentile($0))) }
          + [Self.time(Double(histogram.max)), Self.time(histogram.mean), "\(histogram.totalCount)"]
      }
    }
    let widths = heads.indices.map { column in ([heads] + rows).map { $0[column].count }.max() ?? 0 }
    for row in [heads] + rows {
      let cells = row.indices.map { column in
        let pad = String(repeating: " ", count: widths[column] - row[column].count)
        return column == 0 ? row[column] + pad : pad + row[column]
      }
      lines.append("  " + cells.joined(separator: "  "))
    }
    lines.append("")
    lines.append("  errors: \(recorder.errorCount)")
    for (reason, count) in recorder.errors.sorted(by: { $0.key < $1.key }) { lines.append("    \(count)  \(reason)") }
    if primary == "flow" {
      lines.append(
        "  sign-ins handed over: \(recorder.redeemedSessions), each once and none lost: "
          + (recorder.violationCount == 0 ? "yes" : "NO")
      )
    }
    if recorder.violationCount > 0 { lines.append("  PROMISES BROKEN: \(recorder.violationCount)") }
    lines += recorder.violations.map { "    \($0)" }
    for verdict in verdicts {
      lines.append(
        "  \(verdict.isCrossed ? "✘ failed" : "✔ passed")  \(verdict.threshold.text) (\(Self.text(verdict)))"
      )
    }
    return lines.joined(separator: "\n") + "\n"
  }

  private var names: [String] {
    [primary] + recorder.series.keys.filter { $0 != primary }.sorted()
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

  package func json() -> JSONValue {
    [
      "title": .string(title),
      "primary": .string(primary),
      "measured_s": .number(measured.inSeconds),
      "operations": .integer(Int64(operations)),
      "rps": .number(rate),
      "latency_ns": .object(
        names.compactMap { name in
          recorder.series[name].map { histogram in
            let points = Self.percentiles.map { percent in
              JSONValue.Member("p\(Self.short(percent))", .integer(Int64(histogram.valueAtPercentile(percent))))
            }
            let rest = [
              JSONValue.Member("max", .integer(Int64(histogram.max))),
              JSONValue.Member("mean", .number(histogram.mean)),
              JSONValue.Member("count", .integer(Int64(histogram.totalCount))),
            ]
            return JSONValue.Member(name, .object(points + rest))
          }
        }
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

  /// Without a fraction where there is none.
  static func short(_ value: Double) -> String {
    value == value.rounded() && abs(value) < 1e15 ? "\(Int64(value))" : "\(value)"
  }
}
