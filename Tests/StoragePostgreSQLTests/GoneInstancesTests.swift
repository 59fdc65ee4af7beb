import LatchkeyModel
import Storage
import TestSupport
import Testing

@testable import StoragePostgreSQL

@Suite("S25: the ends of codes whose instance is gone")
struct GoneInstancesTests {
  private struct Rows {
    let server: PostgreSQLServer
    let url: String
    let store: PostgreSQLQRSessionStore
    let members: PostgreSQLMembers
    let start = SystemClock().now()

    init() async throws {
      server = try .shared()
      url = try server.database()
      let database = try await PostgreSQLDatabase.open(url: PostgreSQLURL(url), schema: .qr, connections: 4)
      store = PostgreSQLQRSessionStore(database: database)
      members = PostgreSQLMembers(database)
    }

    func join(_ boot: UInt8) async throws -> Member {
      try await members.join(boot: [UInt8](repeating: boot, count: 16), address: "one:7402")
    }

    /// The member's last sign of life was so many seconds ago.
    func silence(_ member: Member, seconds: Int) throws {
      let beat = start.millisecondsSinceEpoch - Int64(seconds) * 1000
      try server.run(sql: "UPDATE qr.members SET heartbeat = \(beat) WHERE instance = \(member.number)", in: url)
    }

    /// Up to when the ends of the codes of whoever is gone were told, so many seconds from now.
    func tell(untilIn seconds: Int) throws {
      try server.run(
        sql: "UPDATE qr.qr_expiries SET told = \(start.millisecondsSinceEpoch + Int64(seconds) * 1000)", in: url)
    }

    /// After times were changed by hand.
    func keepHours() throws {
      try server.run(sql: "UPDATE qr.qr_sessions SET expires_hour = expires_at / 3600000", in: url)
    }

    /// A code whose time ends so many seconds from now.
    func insert(_ number: UInt8, of member: Member, endingIn seconds: Int) async throws -> QRSession {
      func digest(_ part: UInt8) throws -> Digest256 {
        try #require(Digest256([UInt8](repeating: number &+ part, count: 32)))
      }
      let session = QRSession(
        id: QRSessionID(instance: member.number, from: RandomSource { [UInt8](repeating: number, count: $0) }),
        keys: QRSessionKeys(pollSecret: try digest(0), reference: try digest(80), userCode: try digest(160)),
        request: QRSessionRequest(
          purpose: .login, clientID: try #require(ClientID("latchkey-demo")), scope: .screen,
          challenge: PKCEChallenge(digest: try digest(9)),
          initiator: QRInitiator(label: nil, platform: nil, app: nil, address: "192.0.2.1")),
        issued: start + .seconds(seconds - 120), lifetime: .seconds(120))
      try await store.insert(session)
      return session
    }

    func take(_ member: Member, limit: Int = 100) async throws -> Set<QRSessionID> {
      Set(try await store.takeExpired(by: member.number, limit: limit))
    }
  }

  @Test("S25: the lowest living member gets each ended code of members that are gone, once, and nobody else any")
  func gone() async throws {
    let rows = try await Rows()
    var members: [Member] = []
    for boot in 1...4 as ClosedRange<UInt8> { members.append(try await rows.join(boot)) }
    // The first two are gone, the others live.
    for member in members[..<2] { try rows.silence(member, seconds: 60) }
    for member in members[2...] { try rows.silence(member, seconds: -600) }
    // Told by itself, while it lived; ended since, of both; still to be scanned; cancelled; of one that lives.
    _ = try await rows.insert(1, of: members[0], endingIn: -70)
    let ended = [
      try await rows.insert(2, of: members[0], endingIn: -30), try await rows.insert(3, of: members[0], endingIn: -29),
      try await rows.insert(4, of: members[1], endingIn: -10),
    ]
    _ = try await rows.insert(5, of: members[0], endingIn: 3600)
    let open = try await rows.insert(6, of: members[1], endingIn: 3600)
    var cancelled = open
    _ = cancelled.cancel(at: rows.start)
    #expect(try await rows.store.exchange(open, for: cancelled, at: rows.start))
    try rows.server.run(
      sql: "UPDATE qr.qr_sessions SET expires_at = \(rows.start.millisecondsSinceEpoch - 5000) WHERE state = 6",
      in: rows.url)
    try rows.keepHours()
    _ = try await rows.insert(7, of: members[2], endingIn: -20)

    #expect(try await rows.take(members[3]) == [])
    // One that stood still, and wakes.
    #expect(try await rows.take(members[0]) == [])
    #expect(try await rows.take(members[2]) == Set(ended.map(\.id)))
    #expect(try await rows.take(members[2]) == [])
    // The lowest dies as well: the next one goes on where it was, with its codes besides.
    try rows.silence(members[2], seconds: 25)
    let late = try await rows.insert(8, of: members[2], endingIn: -15)
    #expect(try await rows.take(members[3]).contains(late.id))
    #expect(try await rows.take(members[3]) == [])
  }

  @Test("S25: of forty that ask at once each code is given to one, in parts where there are many")
  func atOnce() async throws {
    let rows = try await Rows()
    let (gone, living) = (try await rows.join(1), try await rows.join(2))
    try rows.silence(gone, seconds: 100)
    try rows.silence(living, seconds: -600)
    var ended: Set<QRSessionID> = []
    for number in 1...30 as ClosedRange<UInt8> {
      // Some end at the same moment.
      ended.insert(try await rows.insert(number, of: gone, endingIn: -90 + Int(number) / 4).id)
    }
    let taken = try await withThrowingTaskGroup(of: [QRSessionID].self) { group in
      for _ in 0..<40 { group.addTask { try await rows.store.takeExpired(by: living.number, limit: 3) } }
      return try await group.reduce(into: [QRSessionID]()) { $0 += $1 }
    }
    #expect(taken.count == 30 && Set(taken) == ended)
  }

  @Test("S25: one that left said of its codes what there was to say until then")
  func left() async throws {
    let rows = try await Rows()
    let (gone, living) = (try await rows.join(1), try await rows.join(2))
    try rows.silence(living, seconds: -600)
    let before = try await rows.insert(1, of: gone, endingIn: -2)
    try await rows.members.leave(gone)
    #expect(try await rows.take(living) == [])
    try rows.server.run(
      sql:
        "UPDATE qr.qr_sessions SET expires_at = expires_at + 2500 + \(SystemClock().now().millisecondsSinceEpoch - rows.start.millisecondsSinceEpoch)",
      in: rows.url)
    try rows.keepHours()
    var taken: Set<QRSessionID> = []
    while taken.isEmpty { taken = try await rows.take(living) }
    #expect(taken == [before.id])
  }

  @Test("S25: one that was silent, lived on and then died told of its codes in between by itself")
  func recovered() async throws {
    let rows = try await Rows()
    let (gone, living) = (try await rows.join(1), try await rows.join(2))
    try rows.silence(living, seconds: -600)
    try rows.silence(gone, seconds: 100)
    let silent = try await rows.insert(1, of: gone, endingIn: -95)
    #expect(try await rows.take(living) == [silent.id])
    try rows.tell(untilIn: -90)
    try rows.silence(gone, seconds: 30)
    _ = try await rows.insert(2, of: gone, endingIn: -60)
    let late = try await rows.insert(3, of: gone, endingIn: -20)
    #expect(try await rows.take(living) == [late.id])
  }

  @Test("S25: one that was killed while it drained has told until its last sign of life and no longer")
  func killedWhileDraining() async throws {
    let rows = try await Rows()
    let (gone, living) = (try await rows.join(1), try await rows.join(2))
    try rows.silence(living, seconds: -600)
    let draining = Member(number: gone.number, boot: gone.boot, address: gone.address, isDraining: true)
    #expect(try await rows.members.beat(draining, clock: SystemClock()) != nil)
    try rows.silence(gone, seconds: 30)
    _ = try await rows.insert(1, of: gone, endingIn: -31)
    let ended = try await rows.insert(2, of: gone, endingIn: -28)
    #expect(try await rows.take(living) == [ended.id])
  }

  @Test("S25: what was told stays told when the database's clock is set back")
  func clockSetBack() async throws {
    let rows = try await Rows()
    let (gone, living) = (try await rows.join(1), try await rows.join(2))
    try rows.silence(living, seconds: -600)
    try rows.silence(gone, seconds: 100)
    #expect(try await rows.take(living) == [])
    // By a clock that was ahead.
    try rows.tell(untilIn: 400)
    #expect(try await rows.take(living) == [])
    let until = rows.start.millisecondsSinceEpoch + 400_000
    // Fails where there is none.
    try rows.server.run(sql: "SELECT 1 / count(*) FROM qr.qr_expiries WHERE told = \(until)", in: rows.url)
  }

  @Test("S25: of one whose last code has ended nothing is looked for any more")
  func allTold() async throws {
    let rows = try await Rows()
    let (gone, living) = (try await rows.join(1), try await rows.join(2))
    try rows.silence(living, seconds: -600)
    try rows.silence(gone, seconds: 800)
    let last = try await rows.insert(1, of: gone, endingIn: -145)
    #expect(try await rows.take(living) == [last.id])
    // That it cannot have: by this is seen whether its codes are read.
    _ = try await rows.insert(2, of: gone, endingIn: -30)
    try rows.tell(untilIn: -79)
    #expect(try await rows.take(living) == [])
    try rows.tell(untilIn: -81)
    #expect(try await rows.take(living).count == 1)
  }
}
