import TestSupport
import Testing

@testable import LatchkeyModel

@Suite("The numbers of a key's proofs")
struct ProofCounterTests {
  @Test("D3: each number is taken once, in whatever order they come, as far back as is remembered")
  func window() {
    let seed = SeededRandom.seed()
    var random = SeededRandom(seed: seed)
    var counter = ProofCounter(first: 1)
    var seen: Set<Int64> = [1]
    var highest: Int64 = 1
    for _ in 0..<20_000 {
      let jump: ClosedRange<Int64> = random.next() % 50 == 0 ? -200...200 : -70...3
      let number = max(-1, highest + Int64.random(in: jump, using: &random))
      let isFresh = number > 0 && !seen.contains(number) && number > highest - ProofCounter.window
      #expect(counter.take(number) == isFresh, "LATCHKEY_TEST_SEED=\(seed): \(number) after \(highest)")
      if isFresh { seen.insert(number) }
      highest = max(highest, isFresh ? number : highest)
      #expect(counter.highest == highest)
    }
  }

  @Test("D3: the highest numbers there are overflow nothing")
  func ends() {
    var counter = ProofCounter(first: 1)
    #expect(counter.take(.max) && !counter.take(.max) && counter.take(.max - 1) && !counter.take(1))
    #expect(!counter.take(0) && !counter.take(.min))
  }
}
