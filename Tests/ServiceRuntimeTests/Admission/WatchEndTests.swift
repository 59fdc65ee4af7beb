import GRPC
import TestSupport
import Testing

@testable import ServiceRuntime

@Suite("How watches end")
struct WatchEndTests {
  @Test("Waits are spread evenly up to the longest, and none is longer")
  func spread() {
    let seed = SeededRandom.seed()
    var random = SeededRandom(seed: seed)
    var waits: [Duration] = []
    for _ in 0..<1000 { waits.append(.spread(upTo: .seconds(2), using: &random)) }
    #expect(waits.allSatisfy { $0 >= .zero && $0 <= .seconds(2) }, "seed \(seed)")
    for tenth in 0..<10 {
      let start = Duration.milliseconds(200 * tenth)
      let count = waits.count(where: { $0 >= start && $0 < start + .milliseconds(200) })
      // A hundred, give or take five standard deviations and more.
      #expect(count > 40 && count < 160, "seed \(seed)")
    }
    #expect(Duration.spread(upTo: .zero) == .zero)
  }

  @Test("Watchers of a service that stops are asked back at different times, within two seconds")
  func stopping() {
    var waits: Set<Duration> = []
    for _ in 0..<100 {
      let end = RPCError.watchEnded(isStopping: true)
      #expect(end.code == .unavailable && end.details.reason == nil)
      guard let wait = end.details.retryAfter else {
        Issue.record("nobody is told when to come back")
        return
      }
      #expect(wait >= .zero && wait <= .seconds(2))
      waits.insert(wait)
    }
    #expect(waits.count > 10)
  }

  @Test("R37: a watch whose place is another's ends with TOO_MANY_WATCHES")
  func displaced() {
    #expect(RPCError.watchEnded(isStopping: false) == .tooManyWatches)
    #expect(RPCError.tooManyWatches.code == .resourceExhausted)
    #expect(RPCError.tooManyWatches.details.reason == "TOO_MANY_WATCHES")
    #expect(RPCError.tooManyWatches.details.retryAfter == .seconds(30))
  }
}
