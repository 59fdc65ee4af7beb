import TestSupport
import Testing

@testable import LatchkeyModel

@Suite("Refresh families")
struct RefreshFamilyTests {
  private static let lifetimes = RefreshFamily.Lifetimes(
    idle: .seconds(100), absolute: .seconds(1000), parentGrace: .seconds(24))
  private static let start = Timestamp(secondsSinceEpoch: 1_000_000)

  private func present(
    _ family: inout RefreshFamily, _ generation: Int64, after seconds: Int
  ) -> RefreshFamily.Action {
    family.present(generation: generation, at: Self.start + .seconds(seconds), lifetimes: Self.lifetimes)
  }

  @Test("R18: each use of the newest token makes the next")
  func rotates() {
    var family = RefreshFamily(beginningAt: Self.start, lifetimes: Self.lifetimes)
    #expect(present(&family, 1, after: 1) == .rotate(to: 2))
    #expect(present(&family, 2, after: 2) == .rotate(to: 3))
    #expect(present(&family, 3, after: 3) == .rotate(to: 4))
  }

  @Test("R19: the parent brings back the same child until the child is used")
  func parentRepeats() {
    var family = RefreshFamily(beginningAt: Self.start, lifetimes: Self.lifetimes)
    #expect(present(&family, 1, after: 1) == .rotate(to: 2))
    let afterRotation = family
    #expect(present(&family, 1, after: 2) == .repeatNewest(2))
    #expect(present(&family, 1, after: 25) == .repeatNewest(2))
    #expect(family == afterRotation)
    #expect(present(&family, 2, after: 26) == .rotate(to: 3))
    #expect(present(&family, 1, after: 27) == .endForReuse)
  }

  @Test("R19: after its grace the parent is reuse")
  func parentLate() {
    var family = RefreshFamily(beginningAt: Self.start, lifetimes: Self.lifetimes)
    #expect(present(&family, 1, after: 1) == .rotate(to: 2))
    #expect(present(&family, 1, after: 26) == .endForReuse)
  }

  @Test("R18: anything older than the parent is reuse, whatever the age of the family")
  func olderIsReuse() {
    var family = RefreshFamily(beginningAt: Self.start, lifetimes: Self.lifetimes)
    for generation in 1...4 { _ = present(&family, Int64(generation), after: generation) }
    for old in 1...3 { #expect(present(&family, Int64(old), after: 5) == .endForReuse) }
    #expect(present(&family, 4, after: 5) == .repeatNewest(5))
  }

  @Test("R20: idle and absolute limits end a family at their second, whoever asks")
  func expires() {
    var family = RefreshFamily(beginningAt: Self.start, lifetimes: Self.lifetimes)
    #expect(!family.isExpired(at: Self.start + .seconds(99)))
    #expect(family.isExpired(at: Self.start + .seconds(100)))
    #expect(present(&family, 1, after: 100) == .expired)
    var used = RefreshFamily(beginningAt: Self.start, lifetimes: Self.lifetimes)
    for step in 1...19 { #expect(present(&used, Int64(step), after: step * 52) == .rotate(to: Int64(step) + 1)) }
    #expect(used.idleExpiry == used.absoluteExpiry)
    #expect(present(&used, 20, after: 1000) == .expired)
  }

  @Test("A token of a generation that was never made is unknown", arguments: [0, 2, -1, Int64.max, Int64.min])
  func unknown(generation: Int64) {
    var family = RefreshFamily(beginningAt: Self.start, lifetimes: Self.lifetimes)
    #expect(present(&family, generation, after: 1) == .unknown)
    #expect(family.generation == 1)
  }

  @Test("R18: in any order of presentations only the newest token makes another")
  func randomOrders() {
    var generator = SeededRandom(seed: 7401)
    for _ in 0..<200 {
      var family = RefreshFamily(beginningAt: Self.start, lifetimes: Self.lifetimes)
      var newest: Int64 = 1
      for second in 0..<60 {
        let presented = Int64.random(in: 1...newest, using: &generator)
        let action = present(&family, presented, after: second)
        if presented == newest {
          newest += 1
          #expect(action == .rotate(to: newest))
        } else if presented == newest - 1 {
          #expect(action == .repeatNewest(newest) || action == .endForReuse)
        } else {
          #expect(action == .endForReuse)
        }
        if action == .endForReuse { break }
      }
    }
  }
}
