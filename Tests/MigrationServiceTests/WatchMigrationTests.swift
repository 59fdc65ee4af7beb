import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Testing

@testable import MigrationService

@Suite("Watches of migrations")
struct WatchMigrationTests {
  /// A merge into this account that does not end, since identity is away.
  private func merge(_ harness: MigratorHarness, into account: MigratorHarness.Person) async throws -> String {
    let guest = try harness.person(isGuest: true)
    try await harness.put([MigratorHarness.record("cart", "a")], as: guest)
    return try await harness.start(try await harness.plan(guest, into: account), options: account.options)
  }

  /// The account in a session of its own.
  private func session(of account: MigratorHarness.Person, _ harness: MigratorHarness) throws -> CallOptions {
    let token = try harness.token(of: account.id, isGuest: false, session: SessionID(from: harness.core.random))
    return MigratorHarness.Person(id: account.id, isGuest: false, token: token).options
  }

  /// Watches until the watch is ended, and answers how.
  private func end(_ id: String, _ options: CallOptions, _ harness: MigratorHarness) async -> RPCError? {
    do {
      _ = try await harness.states(id, options: options)
      return nil
    } catch {
      return error as? RPCError
    }
  }

  /// Waits until so many watches are open.
  private func opened(_ count: Int, at harness: MigratorHarness) async throws {
    let deadline = ContinuousClock.now + .seconds(15)
    while harness.core.signals.watchCount != count {
      try #require(ContinuousClock.now < deadline, "\(harness.core.signals.watchCount) watches are open, not \(count)")
      try await Task.sleep(for: .milliseconds(5))
    }
  }

  @Test("R37, R50: an account with all the watches it gets keeps nobody else from one, nor another session of its own")
  func manyWatches() async throws {
    try await MigratorHarness.run(switcher: ScriptedSwitch(failures: .max)) { harness in
      let (account, other) = (try harness.person(isGuest: false), try harness.person(isGuest: false))
      let (own, others) = (try await merge(harness, into: account), try await merge(harness, into: other))
      try await withThrowingTaskGroup(of: RPCError?.self) { group in
        let stolen = try session(of: account, harness)
        var sessions = [stolen]
        while sessions.count < Limits.watchesPerAccount / Limits.watchesPerSession {
          sessions.append(try session(of: account, harness))
        }
        for options in sessions {
          for _ in 0..<Limits.watchesPerSession { group.addTask { await end(own, options, harness) } }
        }
        try await opened(Limits.watchesPerAccount, at: harness)

        let refused = await end(own, stolen, harness)
        #expect(refused?.code == .resourceExhausted && refused?.details.reason == "TOO_MANY_WATCHES")
        let first = try await harness.migrations.watchMigration(
          MigrationV1.WatchMigrationRequest(migrationID: others), options: other.options
        ) { (responses) throws(RPCError) -> MigrationV1.WatchMigrationResponse? in
          var iterator = responses.makeAsyncIterator()
          return try await iterator.next()
        }
        #expect(first?.migration?.migrationID == others)

        let owner = try session(of: account, harness)
        group.addTask { await end(own, owner, harness) }
        let lost: RPCError? = try await group.next() ?? nil
        #expect(lost?.code == .resourceExhausted && lost?.details.reason == "TOO_MANY_WATCHES")
        #expect(lost?.details.retryAfter == .seconds(30))
        try await opened(Limits.watchesPerAccount, at: harness)
        group.cancelAll()
      }
      try await opened(0, at: harness)
      #expect(harness.core.signals.watched.isEmpty)
    }
  }

  private static func holder(_ session: UInt8, of account: UInt8, at source: String) -> WatchHolder {
    WatchHolder(
      subject: SubjectID(from: RandomSource { [UInt8](repeating: account, count: $0) }),
      session: SessionID(from: RandomSource { [UInt8](repeating: session, count: $0) }),
      source: source)
  }

  private static func migration(_ number: UInt8) -> MigrationID {
    MigrationID(from: RandomSource { [UInt8](repeating: number, count: $0) })
  }

  @Test("R50: when every place is taken, who has the most is woken and loses one to whoever has none")
  func everyPlace() async throws {
    let signals = MigrationSignals(WatchBounds(total: 16, perSubject: 16, perDevice: 8, perSession: 4))
    var held: [MigrationSignals.Watch] = []
    for place in 0..<16 as Range<UInt8> {
      let holder = Self.holder(place / 4, of: 1, at: "192.0.2.7")
      held.append(try #require(signals.watch(Self.migration(1), by: holder)))
    }
    let other = try #require(signals.watch(Self.migration(2), by: Self.holder(9, of: 2, at: "192.0.2.8")))
    #expect(signals.watchCount == 16 && signals.holdsPlace(other))
    let lost = held.filter { !signals.holdsPlace($0) }
    #expect(lost.count == 1)
    for watch in lost { #expect(await watch.next(within: .seconds(60))) }
    signals.moved(Self.migration(2))
    #expect(await other.next(within: .seconds(60)))
    // Leaving twice gives back one place.
    for watch in held + held { signals.unwatch(watch) }
    #expect(signals.watchCount == 1 && signals.watched == [Self.migration(2)])
    signals.unwatch(other)
    #expect(signals.watchCount == 0 && signals.watched.isEmpty)
  }

  @Test("Services watch what they may, and an account's own watches go beside theirs")
  func services() async throws {
    try await MigratorHarness.run(switcher: ScriptedSwitch(failures: .max)) { harness in
      let account = try harness.person(isGuest: false)
      let id = try await merge(harness, into: account)
      try await withThrowingTaskGroup(of: RPCError?.self) { group in
        let (service, own) = (harness.service, account.options)
        for _ in 0..<Limits.watchesPerDevice { group.addTask { await end(id, service, harness) } }
        try await opened(Limits.watchesPerDevice, at: harness)
        for _ in 0..<Limits.watchesPerSession { group.addTask { await end(id, own, harness) } }
        try await opened(Limits.watchesPerDevice + Limits.watchesPerSession, at: harness)
        group.cancelAll()
      }
      try await opened(0, at: harness)
    }
  }

  @Test("A watch ends with UNAVAILABLE when the service stops, and says when to watch elsewhere")
  func stopping() async throws {
    try await MigratorHarness.run(switcher: ScriptedSwitch(failures: .max)) { harness in
      let account = try harness.person(isGuest: false)
      let id = try await merge(harness, into: account)
      let watched = Task { await end(id, account.options, harness) }
      try await opened(1, at: harness)
      harness.core.signals.drain()
      let ended = await watched.value
      let wait = try #require(ended?.details.retryAfter)
      #expect(ended?.code == .unavailable && wait >= .zero && wait <= .seconds(2))
      try await opened(0, at: harness)
    }
  }
}
