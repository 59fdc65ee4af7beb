import LatchkeyModel
import Storage
import TestSupport
import Testing

@testable import StoragePostgreSQL

@Suite("The instances of a service, as PostgreSQL keeps them")
struct MembersTests {
  private struct Rows {
    let server: PostgreSQLServer
    let url: String
    let members: PostgreSQLMembers

    init() async throws {
      server = try .shared()
      url = try server.database()
      members = PostgreSQLMembers(try await Self.open(url, connections: 4))
    }

    static func open(_ url: String, connections: Int) async throws -> PostgreSQLDatabase {
      let schema = PostgreSQLSchema(
        part: "test", steps: [.expand("members", PostgreSQLMembers.statements + CommitLane.statements)])
      return try await PostgreSQLDatabase.open(url: PostgreSQLURL(url), schema: schema, connections: connections)
    }

    /// The member's last sign of life was earlier.
    func age(_ member: Member, seconds: Int) throws {
      try server.run(
        sql: "UPDATE test.members SET heartbeat = heartbeat - \(seconds * 1000) WHERE instance = \(member.number)",
        in: url)
    }
  }

  private func boot(_ number: Int) -> [UInt8] { [UInt8](repeating: UInt8(number), count: 16) }

  private let clock = SystemClock()

  @Test("forty that join at once have forty numbers, from 0 on")
  func join() async throws {
    let rows = try await Rows()
    let numbers = try await withThrowingTaskGroup(of: UInt16.self) { group in
      for index in 0..<40 {
        group.addTask { try await rows.members.join(boot: boot(index), address: "one:1").number }
      }
      return try await group.reduce(into: []) { $0.append($1) }
    }
    #expect(numbers.sorted() == Array(0..<40))
  }

  @Test("whoever gave a sign of life within five seconds lives, and says whether it is about to end")
  func beat() async throws {
    let rows = try await Rows()
    let one = try await rows.members.join(boot: boot(1), address: "one:7402")
    let two = try await rows.members.join(boot: boot(2), address: "two:7402")
    // However long a look takes here, some two signs come within five seconds.
    while try await rows.members.beat(one, clock: clock)?.live != [one, two] {
      _ = try await rows.members.beat(two, clock: clock)
    }
    try rows.age(two, seconds: 6)
    #expect(try await rows.members.beat(one, clock: clock)?.live == [one])
    let draining = Member(number: two.number, boot: two.boot, address: two.address, isDraining: true)
    while try await rows.members.beat(draining, clock: clock)?.live != [one, draining] {
      _ = try await rows.members.beat(one, clock: clock)
    }
    try await rows.members.leave(two)
    #expect(try await rows.members.beat(one, clock: clock)?.live == [one])
  }

  @Test("a number is given again long after its last sign of life, and then it is not its first member's any more")
  func lease() async throws {
    let rows = try await Rows()
    let first = try await rows.members.join(boot: boot(1), address: "a:1")
    let left = try await rows.members.join(boot: boot(2), address: "b:1")
    try await rows.members.leave(left)
    try rows.age(first, seconds: 400)
    #expect(try await rows.members.join(boot: boot(3), address: "c:1").number == 2)
    try rows.age(first, seconds: 351)
    let second = try await rows.members.join(boot: boot(4), address: "d:1")
    #expect(second.number == first.number)
    #expect(try await rows.members.beat(first, clock: clock) == nil)
    try await rows.members.leave(first)
    #expect(try await rows.members.beat(second, clock: clock)?.live.contains(second) == true)
  }

  @Test("C14: what an instance holds that stands still in the midst of sending is let go by another's sign of life")
  func stalled() async throws {
    let rows = try await Rows()
    let member = try await rows.members.join(boot: boot(1), address: "a:1")
    let other = try await Rows.open(rows.url, connections: 1)
    let (entered, gate, runs) = (ThreadGate(), ThreadGate(), Counter())
    let change = "UPDATE members SET address = $1"
    let stalled = Task {
      try await other.write("stand still") { db throws(StorageError) in
        runs.add()
        // More than is kept to be sent with what follows: the server has some of it, and waits for the rest.
        try await db.execute(change, .text("b:1"))
        try await db.execute(change, .text(String(repeating: "b", count: 100_000)))
        entered.open()
        gate.wait()
      }
    }
    entered.wait()
    let third = try await Rows.open(rows.url, connections: 1)
    let waiting =
      "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'ClientRead' AND state = 'active'"
    while try await third.find(waiting, [], map: { _ in true }) == nil {}
    var members = rows.members
    members.silenceMilliseconds = 500
    var isHeld = true
    for _ in 0..<10 where isHeld {
      // Its own row is what is held.
      if (try? await members.beat(member, clock: clock)) != nil { isHeld = false }
    }
    #expect(!isHeld)
    gate.open()
    // What it goes on with is nothing any more, and done once more.
    try await stalled.value
    #expect(runs.value == 2)
  }

  @Test("C13: how far a clock is from the database's is measured, but for the time that it took to ask")
  func lead() async throws {
    let rows = try await Rows()
    let member = try await rows.members.join(boot: boot(1), address: "a:1")
    let right = try #require(try await rows.members.beat(member, clock: clock))
    #expect(right.before <= right.time && right.time <= right.after && right.lead == .zero)
    let ahead = ManualClock(clock.now() + .seconds(3600))
    let lead = try #require(try await rows.members.beat(member, clock: ahead)).lead
    #expect(lead > .seconds(1800) && lead <= .seconds(3600))
    let behind = ManualClock(clock.now() - .seconds(3600))
    #expect(try #require(try await rows.members.beat(member, clock: behind)).lead <= .seconds(-3600))
  }
}
