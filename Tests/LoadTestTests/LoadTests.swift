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

  @Test("Thresholds are read as people write them", arguments: [
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

  @Test("What is no threshold is refused", arguments: [
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
    #expect(report.latencySVG().contains("<polyline"))
    let empty = LoadReport(
      title: "", primary: "poll", measured: .seconds(1), recorder: LoadRecorder(), thresholds: thresholds)
    #expect(empty.verdicts.allSatisfy { $0.isCrossed })
  }
}
