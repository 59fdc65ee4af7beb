import LatchkeyModel
import Storage
import Testing

@testable import Domain

@Suite("C14: identity's upkeep, forty at once")
struct UpkeepAtOnceTests {
  /// Takes until nothing is due.
  private func takeAll<ID: Hashable & Sendable>(
    _ world: World, _ take: @escaping @Sendable () async throws -> [ID]
  ) async throws -> [ID] {
    var all: [ID] = []
    while true {
      let taken = try await world.forty { _ in try await take() }.flatMap { $0 }
      if taken.isEmpty { return all }
      all += taken
    }
  }

  @Test("What is due is taken once, and again when whoever took it did not come back", arguments: WorldEngine.allCases)
  func taken(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    let now = world.now
    let merges: [PendingMerge] = (0..<12).map { _ in
      PendingMerge(
        id: world.id(), guest: world.id(), guestSession: world.id(), target: world.id(), targetSession: world.id(),
        isFirstLoginOnDevice: false)
    }
    let address = try AccountIdentifier("ada@example.com").orThrow()
    try await world.write { rows throws(StorageError) in
      for merge in merges {
        try await rows.merges.insert(merge, dueAt: now, at: now)
        try await rows.purges.insert(merge.guest, dueAt: now)
        let notice = OwnerNotice(key: "\(merge.id)", .passwordSet, to: address, locale: nil, at: now)
        try await rows.notices.insert(notice, dueAt: now)
      }
    }
    for start in [now, now + .seconds(60)] {
      let offered = try await takeAll(world) {
        try await world.domain.perform(LeaseMerges(at: start, until: start + .seconds(60), limit: 3)).map(\.id)
      }
      #expect(offered.count == 12 && Set(offered) == Set(merges.map(\.id)))
      let purged = try await takeAll(world) {
        try await world.domain.perform(LeasePurges(at: start, until: start + .seconds(60), limit: 3)).map(\.subject)
      }
      #expect(purged.count == 12 && Set(purged) == Set(merges.map(\.guest)))
      // Of one recipient the first alone, so that they arrive in their order.
      let told = try await takeAll(world) {
        try await world.domain.perform(LeaseNotices(under: NoticePolicy(), on: .mail, limit: 3, at: start)).notices.map(
          \.key)
      }
      #expect(told == [merges.map { "\($0.id)" }.min()])
    }
  }

  @Test(
    "Of forty who take a chore on one has it; who stood still until another had it deletes nobody",
    arguments: WorldEngine.allCases)
  func chores(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    func lease() -> UpkeepLease { UpkeepLease("chore", holder: world.id(SubjectID.self).value, duration: .seconds(60)) }
    let guests = [try await world.guest("one").subject, try await world.guest("two").subject]
    world.clock.advance(by: .seconds(3600))
    let before = world.now
    func delete(_ guest: SubjectID, _ lease: UpkeepLease) async throws -> DeleteSubject.Outcome {
      try await world.domain.perform(
        DeleteSubject(
          subject: guest, authority: .unused(before: before, by: lease), now: world.now, purgeDueAt: world.now))
    }
    let leases = (0..<40).map { _ in lease() }
    let outcomes = try await world.forty { number in
      (number, try await world.domain.perform(TakeUpkeep(leases[number], at: before)))
    }
    let winners = outcomes.filter(\.1).map(\.0)
    try #require(winners.count == 1)
    let (first, second) = (leases[winners[0]], lease())
    world.clock.advance(by: .seconds(50))
    #expect(try await delete(guests[0], first) == .deleted(sessionsEnded: 1))
    world.clock.advance(by: .seconds(50))
    // The deletion renewed it.
    #expect(try await !world.domain.perform(TakeUpkeep(second, at: world.now)))
    #expect(try await delete(guests[1], second) == .overtaken)
    world.clock.advance(by: .seconds(10))
    #expect(try await world.domain.perform(TakeUpkeep(second, at: world.now)))
    #expect(try await delete(guests[1], first) == .overtaken)
    try await world.domain.perform(LeaveUpkeep(first))
    #expect(try await delete(guests[1], second) == .deleted(sessionsEnded: 1))
    try await world.domain.perform(LeaveUpkeep(second))
    #expect(try await world.domain.perform(TakeUpkeep(lease(), at: world.now)))
    // The clock was set back by more than any turn lasts.
    #expect(try await world.domain.perform(TakeUpkeep(lease(), at: world.now - .seconds(3600))))
  }

  @Test(
    "C14: whoever did nothing for longer than a turn goes on, unless another has taken the chore on meanwhile",
    arguments: WorldEngine.allCases)
  func lapsed(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    func lease() -> UpkeepLease { UpkeepLease("chore", holder: world.id(SubjectID.self).value, duration: .seconds(60)) }
    let (first, second) = (lease(), lease())
    let guest = try await world.guest("one").subject
    #expect(try await world.domain.perform(TakeUpkeep(first, at: world.now)))
    world.clock.advance(by: .seconds(3600))
    #expect(try await world.domain.perform(RenewUpkeep(first, at: world.now)))
    #expect(try await !world.domain.perform(TakeUpkeep(second, at: world.now + .seconds(59))))
    world.clock.advance(by: .seconds(3600))
    let deletion = DeleteSubject(
      subject: guest, authority: .unused(before: world.now, by: first), now: world.now, purgeDueAt: world.now)
    #expect(try await world.domain.perform(deletion) == .deleted(sessionsEnded: 1))
    world.clock.advance(by: .seconds(60))
    #expect(try await world.domain.perform(TakeUpkeep(second, at: world.now)))
    #expect(try await !world.domain.perform(RenewUpkeep(first, at: world.now)))
    try await world.domain.perform(LeaveUpkeep(second))
    #expect(try await !world.domain.perform(RenewUpkeep(first, at: world.now)))
  }

  @Test("C13: instances whose clocks are apart take no chore from one another", arguments: WorldEngine.allCases)
  func clocks(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    func lease() -> UpkeepLease { UpkeepLease("chore", holder: world.id(SubjectID.self).value, duration: .seconds(60)) }
    let (ahead, behind) = (world.now + .seconds(1), world.now)
    #expect(try await world.domain.perform(TakeUpkeep(lease(), at: ahead)))
    #expect(try await !world.domain.perform(TakeUpkeep(lease(), at: behind)))
    #expect(try await !world.domain.perform(TakeUpkeep(lease(), at: ahead + .seconds(59))))
    #expect(try await world.domain.perform(TakeUpkeep(lease(), at: ahead + .seconds(60))))
  }
}
