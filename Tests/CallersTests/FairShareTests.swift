import TestSupport
import Testing

@testable import Callers

@Suite("Fair shares")
struct FairShareTests {
  private typealias Share = FairShare<String>

  /// Each holding at a capacity of 10, and what a further place for "a" comes to.
  @Test(
    "R50: while there is room all are served; then the largest makes room for the smaller, and is refused itself",
    arguments: [
      ([:], .granted),
      (["a": 9], .granted),
      (["b": 9], .granted),
      (["a": 10], .refused),
      (["b": 10], .inPlaceOf("b")),
      (["a": 1, "b": 9], .inPlaceOf("b")),
      (["a": 4, "b": 6], .inPlaceOf("b")),
      (["a": 5, "b": 5], .refused),
      // Taking turns would help nobody.
      (["a": 4, "b": 5, "c": 1], .refused),
      (["a": 3, "b": 3, "c": 4], .refused),
      (["a": 2, "b": 4, "c": 4], .inPlaceOf("b")),
      (["b": 3, "c": 3, "d": 4], .inPlaceOf("d")),
    ] as [([String: Int], FairShare<String>.Verdict)])
  func verdicts(holdings: [String: Int], expected: FairShare<String>.Verdict) {
    var share = Share(capacity: 10)
    for (holder, held) in holdings.sorted(by: { $0.key < $1.key }) {
      let first = share.take(held, for: holder)
      #expect(first == .granted)
    }
    let before = share.held(by: "a")
    let verdict = share.take(for: "a")
    if expected == .inPlaceOf("b"), holdings["b"] == holdings["c"] {
      // Either of two that hold the same.
      #expect([.inPlaceOf("b"), .inPlaceOf("c")].contains(verdict))
    } else {
      #expect(verdict == expected)
    }
    #expect(share.held(by: "a") == (verdict == .refused ? before : before + 1))
  }

  @Test("A holder that gives back what it has is forgotten, and no more is given back than was taken")
  func givingBack() {
    var share = Share(capacity: 10)
    let verdicts = [share.take(3, for: "a"), share.take(4, for: "b")]
    #expect(verdicts == [.granted, .granted])
    share.giveBack(1, of: "b")
    #expect(share.held(by: "b") == 3)
    share.giveBack(100, of: "a")
    share.giveBack(of: "nobody")
    #expect((share.total, share.holders, share.held(by: "a")) == (3, 1, 0))
    share.giveBack(3, of: "b")
    #expect((share.total, share.holders) == (0, 0))
    #expect(share.largest == nil)
  }

  @Test("Amounts of any size neither overflow nor pass the capacity")
  func hugeAmounts() {
    var share = Share(capacity: .max / 4)
    let verdicts = [.max, .max / 4, .max].map { share.take($0, for: "a") }
    #expect(verdicts == [.refused, .granted, .refused])
    let (late, kept) = (share.take(.max, for: "b"), share.takeForKeeps(.max, for: "b"))
    #expect(late == .refused && !kept)
    var small = Share(capacity: 10)
    let amounts = [11, 6, 5].map { small.takeForKeeps($0, for: "a") }
    #expect(amounts == [false, false, true])
  }

  @Test("R50: what is kept for good leaves room: one holder comes to half, and each of many to its part")
  func keeping() {
    for greedy in [1, 2, 3, 10, 200] {
      var share = FairShare<Int>(capacity: 20_000)
      var isGoingOn = true
      while isGoingOn {
        isGoingOn = false
        for holder in 1...greedy where share.takeForKeeps(for: holder) { isGoingOn = true }
      }
      let part = 20_000 / (greedy + 1)
      for holder in 1...greedy { #expect(abs(share.held(by: holder) - part) <= 1, "\(greedy) holders") }
      var honest = 0
      while share.takeForKeeps(for: 0) { honest += 1 }
      #expect(honest >= part / 2 - 1, "\(greedy) holders")
    }
  }

  @Test("R50: one that comes last among many that hold everything gets as much as each of them")
  func lateComer() {
    for greedy in [1, 7, 200] {
      var share = FairShare<Int>(capacity: 10_000)
      var holder = 0
      while share.take(for: 1 + holder % greedy) == .granted { holder += 1 }
      var honest = 0
      while case .inPlaceOf(let largest) = share.take(for: 0) {
        honest += 1
        share.giveBack(of: largest)
        #expect(share.total == 10_000)
      }
      #expect(honest >= 10_000 / (greedy + 1) - 1, "\(greedy) holders")
    }
  }

  @Test("Any sequence keeps to the sums, finds the largest, and refuses nobody while somebody has more")
  func sequences() {
    let seed = SeededRandom.seed()
    var random = SeededRandom(seed: seed)
    for _ in 0..<50 {
      let capacity = Int.random(in: 1...60, using: &random)
      var share = FairShare<Int>(capacity: capacity)
      var model: [Int: Int] = [:]
      for _ in 0..<400 {
        let holder = Int.random(in: 0..<12, using: &random)
        let amount = Int.random(in: 1...4, using: &random)
        let (held, total) = (model[holder] ?? 0, model.values.reduce(0, +))
        switch Int.random(in: 0..<3, using: &random) {
        case 0:
          switch share.take(amount, for: holder) {
          case .granted:
            model[holder, default: 0] += amount
            #expect(total + amount <= capacity, "seed \(seed)")
          case .inPlaceOf(let largest):
            #expect(total + amount > capacity && model[largest] == model.values.max(), "seed \(seed)")
            model[holder, default: 0] += amount
            share.giveBack(amount, of: largest)
            model[largest, default: 0] -= amount
          case .refused:
            #expect(total + amount > capacity, "seed \(seed)")
            #expect((model.values.max() ?? 0) - amount < held + amount, "seed \(seed)")
          }
        case 1:
          let isTaken = share.takeForKeeps(amount, for: holder)
          #expect(isTaken == (held + amount <= capacity - total - amount), "seed \(seed)")
          if isTaken { model[holder, default: 0] += amount }
        default:
          share.giveBack(amount, of: holder)
          model[holder] = max(0, held - amount)
        }
        model = model.filter { $0.value > 0 }
        #expect(share.total == model.values.reduce(0, +), "seed \(seed)")
        #expect(share.holders == model.count, "seed \(seed)")
        #expect(share.largest?.held == model.values.max(), "seed \(seed)")
        for (holder, held) in model { #expect(share.held(by: holder) == held, "seed \(seed)") }
      }
    }
  }

  @Test(
    "The level is the greatest at which all fits, and nobody's first is above it",
    arguments: [
      ([], 10, Int.max), ([10], 10, Int.max), ([11], 10, 10), ([1, 1, 100], 10, 8), ([4, 4, 4], 10, 3),
      ([5, 5], 10, Int.max), ([1, 1, 1, 1], 2, 1), ([0, 0, 20], 10, 10), ([3, 4, 5], 11, 4),
    ])
  func levels(holdings: [Int], capacity: Int, expected: Int) {
    #expect(FairLevel.level(of: holdings, capacity: capacity) == expected)
  }
}
