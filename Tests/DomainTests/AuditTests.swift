import Domain
import LatchkeyModel
import Storage
import Testing

@Suite("The audit log, by the rules")
struct AuditTests {
  private let world = World()

  private func record(at times: [Int]) async throws {
    let began = world.now
    try await world.domain.perform(
      RecordEvents(times.map { AuditNote(.callRefused, at: began + .seconds($0), detail: "\($0)") }))
  }

  private func trim(before seconds: Int, limit: Int = 100) async throws -> Int {
    try await world.domain.perform(
      TrimAuditLog(before: world.now + .seconds(seconds), limit: limit, at: world.now, World.chain))
  }

  @Test("What is forgotten is a run from the beginning, sealed where the chain goes on; new events follow the old ones")
  func trims() async throws {
    try await record(at: [0, 1, 2, 9, 3, 10])
    #expect(try await world.domain.look(FindCheckpoint()) == nil)
    #expect(try await world.domain.look(CountEvents(of: .callRefused)) == 6)
    #expect(try await trim(before: 0) == 0)
    let events = try await world.domain.look(ListEvents(after: 0, limit: 100))
    #expect(try await trim(before: 5, limit: 2) == 2)
    #expect(try await trim(before: 5, limit: 2) == 1)
    // The old event behind a newer one waits for that.
    #expect(try await trim(before: 5) == 0)
    let checkpoint = try await world.domain.look(FindCheckpoint()).orThrow()
    #expect(checkpoint.end == AuditEnd(events[2]) && checkpoint.number == 3)
    #expect(checkpoint.seal == World.chain.seal(checkpoint.end))
    #expect(try await world.domain.look(FindCheckpoints()) == [checkpoint])
    #expect(try await world.domain.look(ListEvents(after: 0, limit: 100)) == Array(events[3...]))
    // The last one stays, so that it is known where the log ended.
    for forgotten in [2, 0] { #expect(try await trim(before: 100) == forgotten) }
    try await record(at: [11])
    for forgotten in [1, 0] { #expect(try await trim(before: 100) == forgotten) }
    let last = try await world.domain.look(ListEvents(after: 0, limit: 100))
    #expect(last.map(\.sequence) == [7])
    #expect(last[0].link == World.chain.link(after: AuditEnd(events[5]), last[0].note))
  }

  @Test("Of forty who record at once each has a number, and the chain holds")
  func atOnce() async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<40 { group.addTask { try await record(at: [number]) } }
      try await group.waitForAll()
    }
    let events = try await world.domain.look(ListEvents(after: 0, limit: 100))
    #expect(events.map(\.sequence) == Array(1...40))
    var end = AuditEnd()
    for event in events {
      #expect(event.link == World.chain.link(after: end, event.note))
      end = AuditEnd(event)
    }
    #expect(try await world.domain.look(ListEvents(after: 0, of: world.id(), limit: 100)).isEmpty)
  }
}
