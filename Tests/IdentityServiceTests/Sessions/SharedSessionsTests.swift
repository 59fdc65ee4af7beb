import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Storage
import StoragePostgreSQL
import Synchronization
import TestSupport
import Testing

@testable import IdentityService

/// Two instances over one database, each with its own memory. What an instance looks for by itself is looked for here when
/// the test says so.
@Suite("C6: sessions that end on another instance")
struct SharedSessionsTests {
  private struct Instances {
    let one: IdentityHarness
    let other: IdentityHarness

    init() async throws {
      let (url, folder) = (try PostgreSQLServer.shared().database(), try TemporaryFolder())
      func open() async throws -> IdentityHarness {
        let database = try await PostgreSQLDatabase.open(
          url: PostgreSQLURL(url), schema: .identity, connections: 2)
        return try await IdentityHarness(folder: folder, storage: PostgreSQLIdentityStorage(database))
      }
      one = try await open()
      other = try await open()
    }
  }

  private func introspect(_ tokens: CommonV1.TokenSet, at harness: IdentityHarness) async throws {
    _ = try await harness.sessions.listSessions(IdentityV1.ListSessionsRequest(), options: .bearer(tokens))
  }

  @Test(
    "C6: a session that one instance ended is refused by another once it has looked, and whoever watches hears it once")
  func elsewhere() async throws {
    let instances = try await Instances()
    let (one, other) = (instances.one, instances.other)
    let tail = try other.rooms.upkeep.sessions.tail.orThrow()
    let owner = try await one.register("ada@example.com").tokens.orThrow()
    let stolen = try await one.signIn("ada@example.com").tokens.orThrow()
    let watch = try other.core.endedSessions.watches.watch().orThrow()
    var told: [IdentityV1.WatchSessionEventsResponse] = []
    try await other.sessions.watchSessionEvents(
      IdentityV1.WatchSessionEventsRequest(), options: .bearer(owner)
    ) { (events) throws(RPCError) in
      for try await event in events {
        told.append(event)
        guard told.count == 1 else { return }
        _ = try await one.auth.revoke(IdentityV1.RevokeRequest(token: stolen.refreshToken))
        do throws(StorageError) {
          var reading = tail.start
          try await tail.look(&reading)
        } catch {
          throw RPCError(storage: error)
        }
      }
    }
    #expect(told.map(\.event) == [.watching, .ended] && told.last?.sid == stolen.sid)
    await expectRefusal(.unauthenticated, "SESSION_REVOKED") { try await introspect(stolen, at: other) }
    try await introspect(owner, at: other)
    // Again, as when its mark was lost: nothing is new.
    var reading = tail.start
    try await tail.look(&reading)
    other.core.endedSessions.watches.drain()
    var batches: [[String]] = []
    for await batch in watch.batches { batches.append(batch.map(\.description)) }
    #expect(batches == [[stolen.sid]])
  }

  @Test("an end that a call of this instance made is told before the call is answered, and not again by the rows")
  func here() async throws {
    let one = try await Instances().one
    let tail = try one.rooms.upkeep.sessions.tail.orThrow()
    let tokens = try await one.register("ada@example.com").tokens.orThrow()
    let watch = try one.core.endedSessions.watches.watch().orThrow()
    _ = try await one.logOut(tokens)
    await expectRefusal(.unauthenticated, "SESSION_REVOKED") { try await introspect(tokens, at: one) }
    var reading = tail.start
    try await tail.look(&reading)
    one.core.endedSessions.watches.drain()
    var batches: [[String]] = []
    for await batch in watch.batches { batches.append(batch.map(\.description)) }
    #expect(batches == [[tokens.sid]])
  }

  @Test("what ended before an instance started is known to it")
  func start() async throws {
    let instances = try await Instances()
    let tokens = try await instances.one.register("ada@example.com").tokens.orThrow()
    _ = try await instances.one.logOut(tokens)
    let tail = try instances.other.rooms.upkeep.sessions.tail.orThrow()
    var reading = EndedSessionTail.Reading()
    try await tail.look(&reading)
    await expectRefusal(.unauthenticated, "SESSION_REVOKED") { try await introspect(tokens, at: instances.other) }
  }

  @Test("C6: an instance that has not looked for a moment tells no other service that it knows all")
  func stale() async throws {
    let one = try await Instances().one
    let tail = try one.rooms.upkeep.sessions.tail.orThrow()
    try await eventually { !one.core.endedSessions.isFresh }
    var told: [Bool] = []
    try await one.grants.watchRevocations(
      IdentityV1.WatchRevocationsRequest(), options: .service
    ) { (responses) throws(RPCError) in
      for try await response in responses {
        told.append(response.caughtUp)
        // By then a look may be old again on a slow machine: another one.
        if response.caughtUp { return }
        do throws(StorageError) {
          var reading = tail.start
          try await tail.look(&reading)
        } catch {
          throw RPCError(storage: error)
        }
        one.core.endedSessions.watches.beat()
      }
    }
    #expect(told.count > 1 && told.first == false && told.last == true)
  }

  @Test("C6: what a server says that did not take the last sign of life counts for nothing")
  func otherServer() async throws {
    func open(_ server: PostgreSQLServer) async throws -> PostgreSQLDatabase {
      try await PostgreSQLDatabase.open(url: PostgreSQLURL(try server.database()), schema: .identity, connections: 2)
    }
    let (here, elsewhere) = (try PostgreSQLServer.shared(), try PostgreSQLServer())
    let endings = try #require(PostgreSQLIdentityStorage(try await open(here)).sharedEndings)
    func start(_ server: PostgreSQLServer, _ sessions: EndedSessions) async throws {
      let membership = try await Membership.join(
        PostgreSQLMembers(try await open(server)), address: "one:7401", clock: SystemClock(),
        logger: IdentityHarness.logger)
      let surroundings = Surroundings(
        clock: SystemClock(), random: RandomSource { SecureRandom.bytes($0) }, logger: IdentityHarness.logger)
      _ = try await EndedSessionTail(
        endings, sessions, SessionNews(sessions, []), membership: membership, surroundings)
    }
    func sessions() -> EndedSessions { EndedSessions(keepingFor: .seconds(60), clock: SystemClock(), isShared: true) }
    try await start(here, sessions())
    let unknown = sessions()
    await #expect(throws: StorageError.self) { try await start(elsewhere, unknown) }
    #expect(!unknown.isCurrent)
  }

  /// A page for each end, and what was known while it was asked for.
  private final class SmallPages: SharedEndings {
    private let endings: any SharedEndings
    private let sessions: EndedSessions
    private let seen = Mutex<[Bool]>([])
    /// Whether everything counted as known when a page was asked for.
    var wasCurrent: [Bool] { seen.withLock { $0 } }

    init(_ endings: any SharedEndings, _ sessions: EndedSessions) {
      (self.endings, self.sessions) = (endings, sessions)
    }

    func ended(
      after mark: EndingsMark?, since time: Timestamp, limit: Int
    ) async throws(StorageError) -> EndingsNews {
      seen.withLock { $0.append(sessions.isCurrent) }
      return try await endings.ended(after: mark, since: time, limit: 1)
    }

    func forgetNews(before time: Timestamp, limit: Int) async throws(StorageError) -> Int { 0 }
  }

  @Test("C6: an instance that reads in pages which sessions ended knows that with the last page, and not before")
  func pages() async throws {
    let database = try await PostgreSQLDatabase.open(
      url: PostgreSQLURL(try PostgreSQLServer.shared().database()), schema: .identity, connections: 2)
    let storage = PostgreSQLIdentityStorage(database)
    let one = try await IdentityHarness(folder: try TemporaryFolder(), storage: storage)
    var ended: Set<SessionID> = []
    for number in 0..<3 {
      let tokens = try await one.register("ada-\(number)@example.com").tokens.orThrow()
      ended.insert(try SessionID(tokens.sid).orThrow())
      _ = try await one.logOut(tokens)
    }
    let sessions = EndedSessions(keepingFor: .seconds(60), clock: one.clock, isShared: true)
    let rows = SmallPages(try storage.sharedEndings.orThrow(), sessions)
    let surroundings = Surroundings(
      clock: one.clock, random: RandomSource { SecureRandom.bytes($0) }, logger: IdentityHarness.logger)
    _ = try await EndedSessionTail(rows, sessions, SessionNews(sessions, []), surroundings)
    #expect(rows.wasCurrent == [false, false, false, false])
    #expect(sessions.isCurrent)
    #expect(sessions.all == ended)
  }

  @Test(
    "C6: five seconds after the last look no token is accepted and the service is not ready; one that is alone always is"
  )
  func grace() {
    let clock = ManualClock()
    let shared = EndedSessions(keepingFor: .seconds(60), clock: clock, isShared: true)
    let now = ContinuousClock.now
    #expect(!shared.isCurrent && shared.obstacle != nil)
    shared.isKnown(at: now)
    #expect(shared.isCurrent(at: now + .seconds(4)) && !shared.isCurrent(at: now + .seconds(5)))
    #expect(shared.isFresh(at: now + .seconds(1)) && !shared.isFresh(at: now + .seconds(2)))
    // A look that took longer than the one after it.
    shared.isKnown(at: now - .seconds(3))
    #expect(shared.isCurrent(at: now + .seconds(4)))
    let alone = EndedSessions(keepingFor: .seconds(60), clock: clock)
    #expect(alone.isCurrent(at: now + .seconds(3600)) && alone.isFresh(at: now + .seconds(3600)))
    #expect(alone.obstacle == nil)
  }

  @Test("R24: two instances whose clocks differ by hours give nobody a try before its time, whichever is called")
  func clocksApart() async throws {
    let instances = try await Instances()
    let (early, late) = (instances.one, instances.other)
    _ = try await early.register("ada@example.com")
    late.clock.advance(by: .seconds(7200))
    func isLookedAt(_ harness: IdentityHarness) async -> Bool {
      do {
        _ = try await harness.signIn("ada@example.com", password: "not the password")
        return true
      } catch {
        return (error as? RPCError)?.details.reason == "INVALID_CREDENTIALS"
      }
    }
    var tries = 0
    for _ in 0..<30 {
      for harness in [late, early] where await isLookedAt(harness) { tries += 1 }
    }
    #expect(tries == 10)
  }
}
