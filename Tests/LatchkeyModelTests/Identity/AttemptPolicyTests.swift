import Testing

@testable import LatchkeyModel

@Suite("How soon a secret may be tried again")
struct AttemptPolicyTests {
  private let policy = AttemptPolicy()
  private let last = Timestamp(secondsSinceEpoch: 1_000_000)

  @Test("R24: ten tries are free, then each doubles the wait up to five minutes, and the 101st waits an hour")
  func delays() {
    for failures in Int64(0)..<10 { #expect(policy.wait(after: failures, last: last, at: last) == nil) }
    #expect(policy.wait(after: 10, last: last, at: last) == .seconds(1))
    #expect(policy.wait(after: 13, last: last, at: last) == .seconds(8))
    #expect(policy.wait(after: 30, last: last, at: last) == .seconds(300))
    #expect(policy.wait(after: 99, last: last, at: last) == .seconds(300))
    #expect(policy.wait(after: 100, last: last, at: last) == .seconds(3600))
    #expect(policy.wait(after: Int64.max, last: last, at: last) == .seconds(3600))
  }

  @Test("A wait ends at its second, and a clock that went back does not stretch it")
  func ends() {
    #expect(policy.wait(after: 13, last: last, at: last + .seconds(7)) == .seconds(1))
    #expect(policy.wait(after: 13, last: last, at: last + .seconds(8)) == nil)
    #expect(policy.wait(after: 13, last: last, at: last - .seconds(86_400)) == .seconds(8))
    // One that was counted before, by a clock that is ahead, is no reason to wait while tries are free.
    #expect(policy.wait(after: 4, last: last, at: last - .milliseconds(5)) == nil)
  }
}
