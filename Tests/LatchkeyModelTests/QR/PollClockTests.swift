import Testing

@testable import LatchkeyModel

@Suite struct PollClockTests {
  private let start = QRSamples.start

  @Test("S14: the first poll is free, and one at the interval is in time")
  func firstPollIsFree() {
    var clock = PollClock()
    #expect(clock.poll(at: start, base: .seconds(5)) == .accept(interval: .seconds(5)))
    #expect(clock.poll(at: start + .seconds(5), base: .seconds(5)) == .accept(interval: .seconds(5)))
  }

  @Test("S14: a rejected poll moves no clock and makes the interval 5 seconds longer")
  func rejectedPollMovesNoClock() {
    var clock = PollClock()
    _ = clock.poll(at: start, base: .seconds(5))
    // 10 s after the poll that was accepted, not after the one that was rejected.
    let rejected = clock.poll(at: start + .milliseconds(4999), base: .seconds(5))
    #expect(rejected == .slowDown(retryAfter: .milliseconds(5001), interval: .seconds(10)))
    #expect(clock.poll(at: start + .seconds(10), base: .seconds(5)) == .accept(interval: .seconds(10)))
    #expect(clock.poll(at: start + .seconds(20), base: .seconds(5)) == .accept(interval: .seconds(10)))
  }

  @Test("S14: the interval stops growing at 60 seconds, however often the client ignores it")
  func cap() {
    var clock = PollClock()
    _ = clock.poll(at: start, base: .seconds(5))
    var last = Duration.zero
    for _ in 0..<1000 {
      guard case .slowDown(_, let interval) = clock.poll(at: start + .milliseconds(1), base: .seconds(5)) else {
        Issue.record("accepted")
        return
      }
      #expect(interval >= last)
      last = interval
    }
    #expect(last == .seconds(60))
    #expect(clock.poll(at: start + .seconds(60), base: .seconds(5)) == .accept(interval: .seconds(60)))
  }

  @Test("S14: a change makes the next poll free, and keeps what was earned by rushing")
  func changeIsFree() {
    var clock = PollClock()
    _ = clock.poll(at: start, base: .seconds(5))
    _ = clock.poll(at: start + .seconds(1), base: .seconds(5))
    clock.sessionChanged()
    #expect(clock.poll(at: start + .seconds(2), base: .seconds(5)) == .accept(interval: .seconds(10)))
  }

  @Test("S14: a long poll counts from its arrival, so one that waited may be followed at once")
  func longPoll() {
    var clock = PollClock()
    #expect(clock.poll(at: start, base: .seconds(2)) == .accept(interval: .seconds(2)))
    #expect(clock.poll(at: start + .seconds(25), base: .seconds(2)) == .accept(interval: .seconds(2)))
    // One that comes back without having waited is a fast poll like any other.
    let rushed = clock.poll(at: start + .milliseconds(25_100), base: .seconds(2))
    #expect(rushed == .slowDown(retryAfter: .milliseconds(6900), interval: .seconds(7)))
  }

  @Test("A clock that is set back does not lock the poller out")
  func clockSetBack() {
    var clock = PollClock()
    _ = clock.poll(at: start, base: .seconds(5))
    #expect(clock.poll(at: start - .seconds(3600), base: .seconds(5)) == .accept(interval: .seconds(5)))
  }

  @Test("An interval of zero never throttles")
  func disabled() {
    var clock = PollClock()
    for _ in 0..<10 { #expect(clock.poll(at: start, base: .zero) == .accept(interval: .zero)) }
  }
}
