import Testing

@testable import LatchkeyModel

@Suite("Guests and accounts")
struct SubjectTests {
  private static let guest = id(1)
  private static let account = id(2)
  private static let other = id(3)

  private static func id(_ byte: UInt8) -> SubjectID {
    SubjectID(from: RandomSource { count in [UInt8](repeating: byte, count: count) })
  }

  private func subject(_ kind: Subject.Kind) -> Subject {
    Subject(id: Self.guest, kind: kind, createdAt: Timestamp(secondsSinceEpoch: 1))
  }

  @Test("R10: a sub stays its own through promotion, and resolves to the account after a merge")
  func transitions() {
    var promoted = subject(.guest)
    #expect(promoted.promote() == .done)
    #expect(promoted.id == Self.guest && promoted.isAccount && promoted.resolved == Self.guest)
    #expect(promoted.promote() == .already)
    #expect(promoted.merge(into: Self.account) == .refused)

    var merged = subject(.guest)
    #expect(merged.merge(into: Self.account) == .done)
    #expect(merged.resolved == Self.account && !merged.isGuest && !merged.isAccount)
    #expect(merged.merge(into: Self.account) == .already)
    #expect(merged.merge(into: Self.other) == .refused)
    #expect(merged.promote() == .refused)

    var selfMerge = subject(.guest)
    #expect(selfMerge.merge(into: Self.guest) == .refused)
  }
}
