import LatchkeyModel
import Synchronization
import Testing

@testable import ServiceRuntime

@Suite struct RateLimiterTests {
  private let start = Timestamp(secondsSinceEpoch: 1_790_000_000)

  @Test("S13: a key spends its burst, waits exactly for the next event, and earns the burst back in one window")
  func burst() {
    let limiter = RateLimiter<String>(Rate(5, per: .seconds(50)))
    for _ in 0..<5 { #expect(limiter.spend("a", at: start) == nil) }
    #expect(limiter.spend("a", at: start) == .seconds(10))
    #expect(limiter.spend("b", at: start) == nil)
    #expect(limiter.spend("a", at: start + .milliseconds(9999)) == .milliseconds(1))
    #expect(limiter.spend("a", at: start + .seconds(10)) == nil)
    #expect(limiter.spend("a", at: start + .seconds(10)) == .seconds(10))
    for _ in 0..<5 { #expect(limiter.spend("a", at: start + .seconds(60)) == nil) }
    #expect(limiter.spend("a", at: start + .seconds(60)) != nil)
  }

  @Test("C8: of several instances each allows its part, rounded up, and another part when there are more or fewer")
  func parts() {
    let instances = Atomic(3)
    let limiter = RateLimiter<String>(
      Rate(10, per: .seconds(100)), among: InstanceCount { instances.load(ordering: .relaxed) })
    func allowed(_ key: String) -> Int { (0..<20).prefix { _ in limiter.spend(key, at: start) == nil }.count }
    #expect(allowed("a") == 4)
    #expect(limiter.spend("a", at: start) == .seconds(25))
    // What was spent of the small part is as much of the large one.
    instances.store(1, ordering: .relaxed)
    #expect(allowed("a") == 0 && allowed("b") == 10)
    instances.store(0, ordering: .relaxed)
    #expect(allowed("c") == 10)
    instances.store(1000, ordering: .relaxed)
    #expect(allowed("d") == 3 && limiter.spend("b", at: start) == .milliseconds(33_333))
    #expect(limiter.spend("b", at: start + .seconds(100)) == nil)
  }

  @Test(
    "G23: who asks one of several instances for too much is as far above the rate as at one alone",
    arguments: [1, 2, 7])
  func excess(_ instances: Int) {
    let limiter = RateLimiter<String>(Rate(60, per: .seconds(3600)), among: InstanceCount { instances })
    let free = (60 + instances - 1) / instances
    for _ in 0..<free { #expect(limiter.excess("a", at: start) == 0) }
    let first = limiter.excess("a", at: start)
    #expect(first >= 1 && first <= instances)
    for _ in 0..<200 { _ = limiter.excess("a", at: start) }
    #expect(limiter.excess("a", at: start) >= 60)
  }

  @Test("A refund gives one event back, and no more than were spent")
  func refund() {
    let limiter = RateLimiter<String>(Rate(2, per: .seconds(20)))
    _ = limiter.spend("a", at: start)
    _ = limiter.spend("a", at: start)
    limiter.refund("a", at: start)
    #expect(limiter.spend("a", at: start) == nil)
    #expect(limiter.spend("a", at: start) != nil)
    for _ in 0..<10 { limiter.refund("a", at: start) }
    for _ in 0..<2 { #expect(limiter.spend("a", at: start) == nil) }
    #expect(limiter.spend("a", at: start) != nil)
  }

  @Test("R26: memory stays bounded under a flood of keys, which have as much together as so many keys may have")
  func boundedMemory() {
    let limiter = RateLimiter<String>(Rate(5, per: .seconds(50)), capacity: 1000)
    var (allowed, most) = (0, 0)
    for key in 0..<100_000 {
      if limiter.spend("\(key)", at: start) == nil { allowed += 1 }
      most = max(most, limiter.rememberedKeys)
    }
    #expect(allowed == 5000 && most == 1000)
    // Who comes anew waits for one event to be earned back, as all of these do.
    #expect(limiter.spend("new", at: start) == .seconds(10))
    #expect(limiter.spend("new", at: start + .milliseconds(9999)) == .milliseconds(1))
    #expect(limiter.spend("new", at: start + .seconds(10)) == nil)
  }

  @Test("A clock that is set back delays nobody by more than one window")
  func clockSetBack() {
    let limiter = RateLimiter<String>(Rate(2, per: .seconds(20)))
    for _ in 0..<2 { _ = limiter.spend("a", at: start) }
    let early = start - .seconds(3600)
    #expect(limiter.spend("a", at: early) == .seconds(10))
    #expect(limiter.spend("a", at: early + .seconds(20)) != nil)
  }

  @Test(
    "R26: a key above its rate is told how far, what it owes is bounded, and one that cannot be remembered is above")
  func excess() {
    let limiter = RateLimiter<String>(Rate(5, per: .seconds(50)), capacity: 1)
    for _ in 0..<5 { #expect(limiter.excess("a", at: start) == 0) }
    #expect(limiter.excess("a", at: start) == 1)
    #expect(limiter.excess("a", at: start) == 2)
    for _ in 0..<1000 { _ = limiter.excess("a", at: start) }
    #expect(limiter.excess("b", at: start) == 1)
    #expect(limiter.excess("a", at: start + .seconds(100)) == 0)
  }
}
