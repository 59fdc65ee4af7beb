import Callers
import Testing

@Suite("What may wait in a queue, by a clock that the test turns")
struct WaitingRuleTests {
  private static let bounds = WaitingRule.Bounds(
    longestWait: .milliseconds(250), shortWait: .milliseconds(50), calm: .seconds(2))

  /// A queue that is served one piece after the other, each of which takes as long.
  private struct Line {
    var rule = WaitingRule(WaitingRuleTests.bounds)
    let start = ContinuousClock.now
    let service: Duration
    var patience = Duration.seconds(60)
    private var done = 0
    private var waiting: [Duration] = []
    private var nextFree = Duration.zero
    private(set) var refused = 0
    /// How long each piece took that was served, and when it came.
    private(set) var served: [(came: Duration, took: Duration)] = []

    init(service: Duration) {
      self.service = service
    }

    private var first: ContinuousClock.Instant? { waiting.first.map { start + $0 } }

    /// Serves what can be until `time`, and drops what nobody waits for any more.
    mutating func pass(to time: Duration) {
      while let came = waiting.first, max(came, nextFree) <= time {
        let begin = max(came, nextFree)
        waiting.removeFirst()
        rule.taken(done: done, hadRested: came >= nextFree, left: waiting.count, first: first, at: start + begin)
        done = begin - came < patience ? 1 : 0
        guard done == 1 else { continue }
        nextFree = begin + service
        served.append((came, nextFree - came))
      }
    }

    mutating func come(at time: Duration) {
      pass(to: time)
      if rule.admits(waiting: waiting.count, first: first, hasPlace: true, at: start + time) {
        waiting.append(time)
      } else {
        refused += 1
      }
    }

    /// So many come in each millisecond between the two, evenly.
    mutating func come(_ count: Int, eachMillisecondFrom from: Int, until end: Int) {
      for millisecond in from..<end {
        for index in 0..<count { come(at: .microseconds(millisecond * 1000 + index * 1000 / count)) }
      }
    }
  }

  @Test(
    "R26: at ten times what can be served all of it goes on being served, and soon",
    arguments: [2, 5, 10, 50], [Duration.milliseconds(300), .seconds(1), .seconds(60)])
  func overload(times: Int, patience: Duration) {
    var line = Line(service: .milliseconds(1))
    line.patience = patience
    line.come(times, eachMillisecondFrom: 0, until: 20_000)
    // What was let in while it looked like a burst is gone by then.
    let served = line.served.filter { $0.came + $0.took >= .seconds(15) && $0.came + $0.took < .seconds(19) }
    #expect(served.count >= 3900 && served.allSatisfy { $0.took <= .milliseconds(110) })
    #expect(line.refused > 0)
  }

  /// How many each commit has of twenty that come in a millisecond, but for a while in which fewer do.
  private func commits(of most: Int, each commit: Int) -> [Int] {
    var rule = WaitingRule(Self.bounds)
    let start = ContinuousClock.now
    var waiting: [Int] = []
    var groups: [Int] = []
    var freeAt = 0
    var group = 0
    for millisecond in 0..<20_000 {
      func now() -> ContinuousClock.Instant { start + .milliseconds(millisecond) }
      let few = (5000..<7000).contains(millisecond)
      for _ in 0..<(few ? millisecond % 2 : 20) {
        let first = waiting.first.map { start + .milliseconds($0) }
        if rule.admits(waiting: waiting.count, first: first, hasPlace: true, at: now()) { waiting.append(millisecond) }
      }
      guard millisecond >= freeAt, !waiting.isEmpty else { continue }
      let done = group
      group = min(waiting.count, most)
      waiting.removeFirst(group)
      let first = waiting.first.map { start + .milliseconds($0) }
      rule.taken(done: done, hadRested: false, left: waiting.count, first: first, at: now())
      groups.append(group)
      freeAt = millisecond + commit
    }
    return groups
  }

  @Test("R26: what is served together goes on being as much, however long that takes", arguments: [20, 60, 120, 200])
  func slowCommits(commit: Int) {
    let groups = commits(of: 128, each: commit)
    #expect(groups.count >= 48 && groups.suffix(20).allSatisfy { $0 >= 120 })
  }

  private let start = ContinuousClock.now

  private func at(_ milliseconds: Int) -> ContinuousClock.Instant { start + .milliseconds(milliseconds) }

  @Test("A queue in which nothing waited for long is short, however long it took to look at what comes then")
  func afterRest() {
    var rule = WaitingRule(Self.bounds)
    rule.taken(done: 0, hadRested: true, left: 0, first: nil, at: start)
    var admitted = [rule.admits(waiting: 0, first: nil, hasPlace: true, at: at(10_000))]
    for waiting in 1...100 {
      admitted.append(rule.admits(waiting: waiting, first: at(10_000), hasPlace: true, at: at(10_000)))
    }
    rule.taken(done: 1, hadRested: false, left: 50, first: at(10_000), at: at(10_200))
    #expect(admitted.allSatisfy { $0 } && !rule.isFull)
  }

  @Test("Time in which what was tried failed counts for no more than what was served in it")
  func afterFailures() {
    var rule = WaitingRule(Self.bounds)
    rule.taken(done: 100, hadRested: false, left: 1, first: start, at: start)
    for second in 1...30 { rule.taken(done: 0, hadRested: false, left: 1, first: start, at: at(second * 1000)) }
    rule.taken(done: 100, hadRested: false, left: 1, first: start, at: at(30_060))
    // Full, since what came first has waited for too long, and then as long as more wait than are served in one go.
    _ = rule.admits(waiting: 300, first: start, hasPlace: true, at: at(30_060))
    rule.taken(done: 0, hadRested: false, left: 300, first: at(30_000), at: at(30_061))
    #expect(rule.isFull)
  }

  @Test("A queue that is never short is overloaded as well, though what came first never waits for the longest time")
  func standing() {
    var line = Line(service: .milliseconds(1))
    for _ in 0..<200 { line.come(at: .zero) }
    line.come(1, eachMillisecondFrom: 0, until: 10_000)
    let late = line.served.filter { $0.came >= .seconds(2) }
    #expect(late.count >= 7900 && late.allSatisfy { $0.took <= .milliseconds(110) })
    #expect((1...200).contains(line.refused))
  }

  @Test("A burst is served whole, however large, when it was quiet before")
  func burst() {
    for pause in [0, 10_000] {
      var line = Line(service: .milliseconds(1))
      line.come(10, eachMillisecondFrom: 0, until: 200)
      line.pass(to: .seconds(3))
      // Some more on a server that has had nothing to do, and none of them is in a hurry.
      line.come(1, eachMillisecondFrom: 3000 + pause, until: 3100 + pause)
      line.come(10, eachMillisecondFrom: 4000 + pause, until: 4200 + pause)
      line.pass(to: .seconds(60))
      #expect(line.refused == 0)
      #expect(line.served.count == 2000 + 100 + 2000)
    }
  }

  @Test("A load that can just be served is never refused")
  func fullLoad() {
    var line = Line(service: .microseconds(980))
    line.come(1, eachMillisecondFrom: 0, until: 60_000)
    #expect(line.refused == 0)
  }

  @Test("After an overload a burst is served whole again once it has been calm")
  func recovery() {
    var line = Line(service: .milliseconds(1))
    line.come(10, eachMillisecondFrom: 0, until: 2000)
    line.pass(to: .seconds(10))
    let refused = line.refused
    line.come(at: .seconds(10))
    line.come(10, eachMillisecondFrom: 10_001, until: 10_200)
    line.pass(to: .seconds(20))
    #expect(refused > 0 && line.refused == refused)
  }

  @Test("Nothing is taken while what came first has waited for too long, and some again once it is gone")
  func standstill() {
    var rule = WaitingRule(Self.bounds)
    let start = ContinuousClock.now
    func admits(_ waiting: Int, since first: Int?, hasPlace: Bool = true, at now: Int) -> Bool {
      let first = first.map { start + .milliseconds($0) }
      return rule.admits(waiting: waiting, first: first, hasPlace: hasPlace, at: start + .milliseconds(now))
    }
    var admitted = [admits(1, since: 0, at: 250), admits(2, since: 0, at: 251)]
    #expect(admitted == [true, false] && rule.isFull)
    rule.taken(done: 1, hadRested: false, left: 1, first: start, at: start + .milliseconds(251))
    #expect(rule.isFull)
    rule.taken(done: 1, hadRested: false, left: 0, first: nil, at: start + .milliseconds(252))
    #expect(!rule.isFull)
    admitted = [admits(0, since: nil, at: 252), admits(8, since: 252, hasPlace: false, at: 252)]
    #expect(admitted == [true, false])
  }

  @Test("A door is shut by what refuses for want of room, as long as that lasts")
  func gate() {
    let gate = CallGate()
    let backlog = Backlog()
    #expect(!gate.isShut)
    backlog.isLong = true
    #expect(!gate.isShut)
    gate.shut(while: backlog)
    #expect(gate.isShut)
    backlog.isLong = false
    #expect(!gate.isShut)
  }
}
