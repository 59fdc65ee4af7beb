import JSON
import Testing

@testable import LoadTest

@Suite struct LoadTests {
  @Test("An open loop's operations are due at the rate, after a ramp in a straight line")
  func schedule() {
    let schedule = LoadSchedule(rate: 100, ramp: .seconds(2))
    #expect(schedule.due(0) == .zero)
    #expect(schedule.due(25) == .seconds(1))
    #expect(schedule.due(100) == .seconds(2))
    #expect(schedule.due(300) == .seconds(4))
    #expect(LoadSchedule(rate: 10, ramp: .zero).due(5) == .milliseconds(500))
  }

  @Test(
    "Thresholds are read as people write them",
    arguments: [
      ("p99>5ms", LoadThreshold.Metric.percentile(99), 5e6), ("p99.9 >= 20 us", .percentile(99.9), 2e4),
      ("max>1s", .max, 1e9), ("errors>0", .errors, 0), ("errors>0.1%", .errorShare, 0.001), ("rps<1000", .rps, 1000),
    ])
  func thresholds(_ text: String, _ metric: LoadThreshold.Metric, _ value: Double) throws {
    let threshold = try LoadThreshold(text)
    #expect(threshold.metric == metric)
    #expect(abs(threshold.value - value) <= value * 1e-12)
  }

  @Test("A threshold may name a step")
  func step() throws {
    let threshold = try LoadThreshold("redeem.p99.9>2ms")
    #expect(threshold.series == "redeem")
    #expect(threshold.metric == .percentile(99.9))
  }

  @Test(
    "What is no threshold is refused",
    arguments: [
      "", "p99", "p99>", "p99>5", "p101>5ms", "q99>5ms", "errors>x", "rps<1ms", "p99>-1ms", "p99>nanms", ">5ms",
    ])
  func malformed(_ text: String) {
    #expect(throws: LoadThreshold.Malformed.self) { try LoadThreshold(text) }
  }

  @Test("Recorders of two processes merge into what one would have recorded")
  func merge() throws {
    var one = LoadRecorder()
    var two = LoadRecorder()
    one.record(.milliseconds(1), in: "flow")
    two.record(.milliseconds(3), in: "flow")
    one.finished(at: .zero)
    two.failed("UNAVAILABLE: no one is there", at: .seconds(1))
    one.redeemed("a")
    two.redeemed("b")
    one.merge(try #require(LoadRecorder(lines: two.lines())))
    #expect(one.series["flow"]?.totalCount == 2)
    #expect(one.seconds == [.init(done: 1, failed: 0), .init(done: 0, failed: 1)])
    #expect(one.errors == ["UNAVAILABLE: no one is there": 1])
    #expect(one.redeemedSessions == 2 && one.violationCount == 0)
  }

  @Test("A session that two processes were handed is a violation")
  func handedOutTwice() throws {
    var one = LoadRecorder()
    var two = LoadRecorder()
    one.redeemed("a")
    two.redeemed("a")
    one.merge(try #require(LoadRecorder(lines: two.lines())))
    #expect(one.violationCount == 1)
    #expect(LoadRecorder(lines: String(two.lines().dropLast(4))) == nil, "a part without its end")
  }

  @Test("A report fails by its thresholds, and one that measured nothing passes none")
  func report() throws {
    var recorder = LoadRecorder()
    for milliseconds in 1...100 {
      recorder.record(.milliseconds(milliseconds), in: "poll")
      recorder.finished(at: .zero)
    }
    let thresholds = try ["p50>60ms", "p99>50ms", "rps<10"].map { try LoadThreshold($0) }
    let report = LoadReport(
      title: "<&>", primary: "poll", measured: .seconds(10), recorder: recorder, thresholds: thresholds)
    #expect(report.verdicts.map(\.isCrossed) == [false, true, false])
    #expect(report.html().contains("&lt;&amp;&gt;") && !report.html().contains("<&>"))
    #expect(report.latencyPlot().svg().contains("<polyline"))
    let empty = LoadReport(
      title: "", primary: "poll", measured: .seconds(1), recorder: LoadRecorder(), thresholds: thresholds)
    #expect(empty.verdicts.allSatisfy { $0.isCrossed })
  }

  @Test("A closed loop's stall also counts for the operations that it kept from starting")
  func coordinatedOmission() throws {
    var recorder = LoadRecorder()
    for _ in 0..<999 { recorder.record(.milliseconds(1), in: "poll") }
    recorder.record(.seconds(1), in: "poll")
    let thresholds = [try LoadThreshold("p99>100ms")]
    func report(isOpenLoop: Bool) -> LoadReport {
      LoadReport(
        title: "", primary: "poll", measured: .seconds(2), isOpenLoop: isOpenLoop, recorder: recorder,
        thresholds: thresholds)
    }
    let (open, closed) = (report(isOpenLoop: true), report(isOpenLoop: false))
    #expect(!open.isCrossed)
    // A thousand operations of a millisecond would have begun in that second, and waited 500 ms on average.
    #expect(closed.isCrossed)
    #expect(open.operations == 1000 && closed.operations == 1000, "what is added is no operation")
    #expect(closed.text().contains("poll, as seen"))
  }

  @Test("A narrow terminal gets the columns that tell most", arguments: [80, 60, 40])
  func narrow(columns: Int) {
    var recorder = LoadRecorder()
    for series in ["flow", "issue", "confirm"] { recorder.record(.microseconds(123_450), in: series) }
    let report = LoadReport(title: "", primary: "flow", measured: .seconds(1), recorder: recorder, thresholds: [])
    let table = report.text(columns: columns).split(separator: "\n").filter { $0.contains(" ms") || $0.contains("p50") }
    #expect(table.count == 4, "each row is one line")
    #expect(table.allSatisfy { $0.count <= columns && !$0.hasSuffix(" ") })
    #expect(table[0].contains("p50") && table[0].contains("p99"))
    #expect(report.text().contains("p99.99"))
  }

  @Test("A report says what was promised and whether it was kept")
  func promises() {
    var recorder = LoadRecorder()
    recorder.record(.milliseconds(1), in: "flow")
    recorder.redeemed("a")
    recorder.noted("access tokens renewed", count: 3)
    func report() -> LoadReport {
      LoadReport(title: "", primary: "flow", measured: .seconds(1), recorder: recorder, thresholds: [])
    }
    #expect(!report().hasFailed)
    #expect(report().text().contains("handed over: 1, each exactly once, none lost"))
    #expect(report().text().contains("access tokens renewed: 3"))
    recorder.redeemed("a")
    #expect(report().hasFailed)
    #expect(report().text().contains("NOT each exactly once") && report().html().contains("Failed"))
  }

  @Test("The pictures have a place for every mark, whatever was measured", arguments: [0, 1, 5000])
  func pictures(count: Int) throws {
    var recorder = LoadRecorder()
    for number in 0..<count {
      recorder.record(.microseconds(number), in: "poll")
      recorder.finished(at: .seconds(number / 100))
    }
    if count > 1 { recorder.failed("UNAVAILABLE: & gone", at: .seconds(3)) }
    let report = LoadReport(
      title: "", primary: "poll", ramp: .seconds(2), measured: .seconds(50), recorder: recorder, thresholds: [])
    for plot in [report.latencyPlot(), report.throughputPlot()] {
      #expect(!plot.svg().contains("nan") && !plot.svg().contains("inf"))
    }
    #expect(report.throughputPlot().svg().contains("failed") == (count > 1))
  }

  @Test(
    "An axis begins at zero, ends at or just above the highest value, and its labels are exact",
    arguments: [0, 0.3, 1, 7, 12.4, 20, 28.2, 41, 100, 999, 12_345, .infinity, .nan])
  func scale(highest: Double) throws {
    let scale = LoadReport.scale(to: highest)
    #expect((1...5).contains(scale.count) && scale.step > 0)
    if highest > 0, highest.isFinite {
      let end = scale.step * Double(scale.count)
      #expect(end >= highest * 0.999_999 && end - scale.step < highest)
    }
    let label = try #require(Double(LoadReport.fixed(scale.step, scale.digits)))
    #expect(abs(label - scale.step) < 1e-9 * scale.step)
  }

  @Test("The latencies are written as HdrHistogram's tools read them")
  func hgrm() throws {
    var recorder = LoadRecorder()
    for number in 1...1000 { recorder.record(.milliseconds(number), in: "poll") }
    let report = LoadReport(
      title: "", primary: "poll", measured: .seconds(1), recorder: recorder, thresholds: [])
    let lines = try #require(report.hgrm("poll")).split(separator: "\n").map(String.init)
    #expect(lines[0].split(separator: " ") == ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"])
    let rows = lines.dropFirst().filter { !$0.hasPrefix("#") }.map { $0.split(separator: " ") }
    let shares = try rows.map { try #require(Double($0[1])) }
    #expect(shares == shares.sorted() && shares.first == 0 && shares.last == 1)
    let median = try #require(rows.first { $0[1].hasPrefix("0.5000") })
    #expect(abs(try #require(Double(median[0])) - 500) < 1 && median[2] == "500" && median[3] == "2.00")
    #expect(rows.last?.last == "inf" && rows.last?[2] == "1000")
    #expect(lines.last?.hasSuffix("Total count    =         1000]") == true)
    #expect(report.hgrm("flow") == nil)
  }

  @Test("Two results stand side by side, with their ratio and what was different about the tests")
  func comparison() throws {
    func result(_ milliseconds: Int, cpu: Double, rate: Int64) -> JSONValue {
      var recorder = LoadRecorder()
      for _ in 0..<100 { recorder.record(.milliseconds(milliseconds), in: "poll") }
      var report = LoadReport(
        title: "", primary: "poll", measured: .seconds(10), recorder: recorder, thresholds: [])
      report.setup = [.init("options", ["rate": .integer(rate), "mode": "poll"])]
      report.cpu = (cpu, 1)
      return report.json()
    }
    let comparison = try LoadComparison(before: result(10, cpu: 2, rate: 5), after: result(20, cpu: 1, rate: 6))
    let rows = Dictionary(uniqueKeysWithValues: comparison.rows.map { ($0[0], Array($0.dropFirst())) })
    #expect(rows["operations a second"] == ["10.0", "10.0", "1.00"])
    #expect(rows["server's CPU an operation"] == ["20.00 ms", "10.00 ms", "0.50"])
    #expect(rows["poll p99"]?.last == "2.00")
    #expect(comparison.differences == ["options.rate: 5, then 6"])
    #expect(comparison.text().contains("Not the same test:"))
    #expect(throws: LoadComparison.Unreadable.self) {
      try LoadComparison(before: ["a": 1], after: result(1, cpu: 1, rate: 1))
    }
  }
}
