import Callers
import NIOCore
import NIOEmbedded
import Testing

@testable import TransportServer

@Suite("Timers of an event loop's connections") struct LoopTimersTests {
  private let loop = EmbeddedEventLoop()
  private let turns: LoopTurns

  init() {
    turns = LoopTurns(loop)
    loop.advanceTime(by: .seconds(1))
  }

  @Test("Each runs once, in the order of their times, and not one that was called off")
  func order() {
    var order: [Int] = []
    var expected: [Int] = []
    var timers: [(delay: Int, timer: LoopTimer)] = []
    let start = loop.now
    // Delays in no order, each twice.
    for number in 0..<1000 {
      let delay = number * 7919 % 500 + 1
      let timer = turns.timers.schedule(at: start + .milliseconds(Int64(delay))) { order.append(delay) }
      timers.append((delay, timer))
    }
    for (index, timer) in timers.enumerated() {
      if index % 3 == 0 { timer.timer.cancel() } else { expected.append(timer.delay) }
    }
    #expect(turns.timers.count == expected.count)
    for _ in 0..<500 {
      #expect(order.allSatisfy { start + .milliseconds(Int64($0)) <= loop.now })
      loop.advanceTime(by: .milliseconds(1))
    }
    #expect(order == expected.sorted())
    for timer in timers { timer.timer.cancel() }
    loop.advanceTime(by: .seconds(10))
    #expect(order.count == expected.count && turns.timers.count == 0)
  }

  @Test("One that comes before all others is not late, and one may set the next or call off another")
  func changes() {
    var order = ""
    let start = loop.now
    let last = turns.timers.schedule(at: start + .seconds(3)) { order += "never" }
    _ = turns.timers.schedule(at: start + .seconds(1)) { [turns] in
      order += "a"
      _ = turns.timers.schedule(at: start + .seconds(2)) {
        order += "b"
        last.cancel()
      }
    }
    _ = turns.timers.schedule(at: start + .milliseconds(1)) { order += "0" }
    loop.advanceTime(by: .milliseconds(1))
    #expect(order == "0")
    loop.advanceTime(by: .milliseconds(998))
    #expect(order == "0")
    loop.advanceTime(by: .milliseconds(1))
    #expect(order == "0a")
    loop.advanceTime(by: .seconds(5))
    #expect(order == "0ab")
  }

  @Test("Where many are due, and set others, the loop looks at its sockets in between, and all of them run")
  func many() {
    let due = loop.now + .seconds(1)
    var (ran, again) = (0, 0)
    for _ in 0..<100 {
      _ = turns.timers.schedule(at: due) { [loop, turns] in
        ran += 1
        _ = turns.timers.schedule(at: due) { again += 1 }
        loop.advanceTime(by: Limits.round + .nanoseconds(1))
      }
    }
    loop.advanceTime(by: .seconds(1))
    #expect(ran == 1)
    var looks = 0
    while ran + again < 200, looks < 10_000 {
      let seen = ran
      loop.advanceTime(by: Limits.roundPause)
      #expect(ran <= seen + 1)
      looks += 1
    }
    #expect(ran == 100 && again == 100 && turns.timers.count == 0, "\(ran) and \(again) in \(looks) looks")
    // And the next one is not late.
    _ = turns.timers.schedule(at: loop.now + .seconds(1)) { ran += 1 }
    loop.advanceTime(by: .seconds(1))
    #expect(ran == 101)
  }

  @Test("What there is no time for does not run when it is called off meanwhile")
  func chores() {
    let due = loop.now + .seconds(1)
    var order = ""
    var timers: [LoopTimer] = []
    for name in ["a", "b", "c"] {
      timers.append(
        turns.timers.schedule(at: due) { [loop] in
          order += name
          loop.advanceTime(by: Limits.round)
        })
    }
    loop.advanceTime(by: .seconds(1))
    #expect(order.count == 1)
    for timer in timers { timer.cancel() }
    for _ in 0..<10 { loop.advanceTime(by: Limits.round) }
    #expect(order.count == 1, "\(order)")
    _ = turns.timers.schedule(at: loop.now + .seconds(1)) { order += "d" }
    loop.advanceTime(by: .seconds(1))
    #expect(order.hasSuffix("d"))
  }

  @Test("What is due when its server has gone hurts nobody")
  func outlives() {
    var turns: LoopTurns? = LoopTurns(loop)
    weak let kept = turns
    let timer = turns?.timers.schedule(at: loop.now + .seconds(1)) {}
    timer?.cancel()
    turns = nil
    loop.advanceTime(by: .seconds(2))
    timer?.cancel()
    #expect(kept == nil)
  }
}
