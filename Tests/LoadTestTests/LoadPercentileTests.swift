import JSON
import Testing

@testable import LoadTest

/// Percentiles of latencies whose percentiles are known.
@Suite("The percentiles of a load test")
struct LoadPercentileTests {
  /// A histogram of three significant digits tells values apart that differ by a thousandth.
  private static let precision = 0.001

  private func report(_ recorder: LoadRecorder, isOpenLoop: Bool = true) -> LoadReport {
    LoadReport(
      title: "", primary: "poll", measured: .seconds(10), isOpenLoop: isOpenLoop, recorder: recorder, thresholds: [])
  }

  /// What the JSON says of the series.
  private func latency(_ report: LoadReport, _ point: String) throws -> Double {
    switch try #require(report.json()["latency_ns"]?["poll"]?[point]) {
    case .integer(let value): Double(value)
    case .number(let value): value
    default: throw Missing()
    }
  }

  private struct Missing: Error {}

  private func expect(_ value: Double, _ wanted: Double, _ name: String) {
    #expect(abs(value - wanted) <= Self.precision * wanted, "\(name): \(value), not \(wanted)")
  }

  @Test("Of the latencies 1 to 100,000 microseconds in any order, a percentile is the one at its rank")
  func ranks() throws {
    var recorder = LoadRecorder()
    // 7919 is prime to 100,000: every number once.
    for index in 0..<100_000 { recorder.record(.microseconds(1 + index * 7919 % 100_000), in: "poll") }
    let report = report(recorder)
    for (name, rank) in [
      ("p50", 50_000.0), ("p90", 90_000), ("p95", 95_000), ("p99", 99_000), ("p99.9", 99_900), ("p99.99", 99_990),
      ("max", 100_000), ("mean", 50_000.5),
    ] {
      expect(try latency(report, name), rank * 1000, name)
    }
    #expect(try latency(report, "count") == 100_000)
  }

  @Test("One slow operation in a thousand is in p99.99 and not in p99.9, whatever the others take")
  func tail() throws {
    var recorder = LoadRecorder()
    for _ in 0..<999 { recorder.record(.milliseconds(1), in: "poll") }
    recorder.record(.seconds(1), in: "poll")
    let report = report(recorder)
    expect(try latency(report, "p99.9"), 1e6, "p99.9")
    expect(try latency(report, "p99.99"), 1e9, "p99.99")
    expect(try latency(report, "max"), 1e9, "max")
  }

  @Test(
    "A single latency is every percentile, and what is shorter than nothing or longer than an hour counts as that",
    arguments: [
      (Duration.microseconds(250), 250e3), (.seconds(-1), 0), (.zero, 0), (.seconds(7200), 3600e9),
    ])
  func single(_ recorded: Duration, _ shown: Double) throws {
    var recorder = LoadRecorder()
    recorder.record(recorded, in: "poll")
    let report = report(recorder)
    for name in ["p50", "p99", "p99.99", "max", "mean"] { expect(try latency(report, name), shown, name) }
  }

  @Test("Two processes' recorders, merged over their lines, have the percentiles of one that recorded all")
  func merged() throws {
    var (all, even, odd) = (LoadRecorder(), LoadRecorder(), LoadRecorder())
    for index in 0..<5000 {
      let latency = Duration.microseconds(20 + index * index)
      all.record(latency, in: "poll")
      if index % 2 == 0 { even.record(latency, in: "poll") } else { odd.record(latency, in: "poll") }
    }
    even.merge(try #require(LoadRecorder(lines: odd.lines())))
    let (one, two) = (report(all), report(even))
    for name in ["p50", "p90", "p95", "p99", "p99.9", "p99.99", "max", "count"] {
      expect(try latency(two, name), try latency(one, name), name)
    }
  }

  @Test("What waited behind a closed loop's stall is counted at even intervals of the median")
  func corrected() throws {
    var recorder = LoadRecorder()
    for _ in 0..<1000 { recorder.record(.milliseconds(1), in: "poll") }
    recorder.record(.seconds(1), in: "poll")
    let report = report(recorder, isOpenLoop: false)
    // A thousand of a millisecond, then 1, 2, 3 … 1000 ms.
    let count = try latency(report, "count")
    #expect((1999...2001).contains(count))
    expect(try latency(report, "p50"), 1e6, "p50")
    let p95 = try latency(report, "p95")
    #expect(abs(p95 - 900e6) < 5e6, "\(p95)")
    expect(try latency(report, "max"), 1e9, "max")
  }
}
