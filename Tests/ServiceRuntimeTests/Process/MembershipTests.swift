import LatchkeyModel
import Logging
import Storage
import StoragePostgreSQL
import Synchronization
import TestSupport
import Testing

@testable import ServiceRuntime

@Suite("An instance among others")
struct MembershipTests {
  /// After which what was to be seen does not come any more: each is two statements.
  private static let looks = 1000

  private struct Rows {
    let server: PostgreSQLServer
    let url: String
    let members: PostgreSQLMembers

    init() async throws {
      server = try .shared()
      url = try server.database()
      members = PostgreSQLMembers(
        try await PostgreSQLDatabase.open(url: PostgreSQLURL(url), schema: .qr, connections: 2))
    }

    func join(_ address: String, clock: any WallClock = SystemClock()) async throws -> Membership {
      try await Membership.join(
        members, address: address, clock: clock,
        logger: Logger(label: "members", factory: { _ in SwiftLogNoOpLogHandler() }))
    }
  }

  @Test("instances have numbers of their own and know of each other, until one leaves")
  func others() async throws {
    let rows = try await Rows()
    let one = try await rows.join("one:7402")
    #expect(one.number == 0 && one.others.isEmpty && one.obstacle(at: one.heard) == nil)
    let two = try await rows.join("two:7402")
    #expect(two.number == 1)
    let mayServe = Atomic(true)
    // However long a look takes here, some two signs come within five seconds.
    func see(_ seen: () -> Bool) async throws {
      for _ in 0..<Self.looks where !seen() {
        try await one.beat()
        try await two.beat()
      }
      try #require(seen())
    }
    try await see { two.others.map(\.address) == ["one:7402"] }
    // While none of them serves, all of them have their part.
    try await see { one.others.map(\.address) == ["two:7402"] && one.others.map(\.isDraining) == [true] }
    #expect(one.count == 2 && two.count == 2)
    // Beside one that serves, nobody has before it serves, nor while it may not.
    one.serves { true }
    try await see { one.count == 1 }
    two.serves { mayServe.load(ordering: .relaxed) }
    try await see { one.count == 2 && one.others.map(\.isDraining) == [false] }
    #expect(two.count == 2)
    mayServe.store(false, ordering: .relaxed)
    try await see { one.count == 1 }
    mayServe.store(true, ordering: .relaxed)
    try await see { one.count == 2 }
    two.drain()
    try await see { one.others.map(\.isDraining) == [true] }
    #expect(one.count == 1)
    // A sign of life that is still on its way makes it one of them again.
    for look in 0..<Self.looks where look == 0 || !one.others.isEmpty {
      await two.leave()
      try await one.beat()
    }
    #expect(one.others.isEmpty)
  }

  @Test("an instance whose sign of life is not taken for five seconds must not serve")
  func silence() async throws {
    let one = try await Rows().join("one:7402")
    #expect(one.obstacle(at: one.heard + .seconds(4)) == nil)
    #expect(one.obstacle(at: one.heard + .seconds(5))?.contains("no sign of life for 5 s") == true)
  }

  @Test("C13: an instance whose clock is off by more than a second must not serve, until it is right again")
  func clock() async throws {
    let rows = try await Rows()
    let clock = ManualClock(SystemClock().now() + .seconds(3600))
    let one = try await rows.join("one:7402", clock: clock)
    #expect(one.obstacle(at: one.heard)?.contains("s ahead of the database's") == true)
    clock.advance(by: .seconds(-7200))
    try await one.beat()
    #expect(one.obstacle(at: one.heard)?.hasPrefix("the clock is 3") == true)
    #expect(one.obstacle(at: one.heard)?.hasSuffix("s behind the database's") == true)
    let right = try await rows.join("two:7402")
    #expect(right.obstacle(at: right.heard) == nil)
  }

  @Test("an instance that comes back after its number went to another ends")
  func lost() async throws {
    let rows = try await Rows()
    let one = try await rows.join("one:7402")
    try rows.server.run(sql: "UPDATE qr.members SET heartbeat = heartbeat - 750001", in: rows.url)
    let two = try await rows.join("two:7402")
    #expect(two.number == one.number)
    await #expect(throws: Membership.NumberLost.self) { try await one.task.run() }
  }
}
