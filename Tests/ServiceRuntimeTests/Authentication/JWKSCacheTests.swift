import Cryptography
import GRPC
import Logging
import Synchronization
import Testing

@testable import ServiceRuntime

@Suite("Key cache")
struct JWKSCacheTests {
  /// An identity service whose answers a test decides.
  final class Identity: Sendable {
    private let state: Mutex<(answer: JSONWebKeySet?, calls: Int)>

    init(_ answer: JSONWebKeySet?) { state = Mutex((answer, 0)) }

    var calls: Int { state.withLock { $0.calls } }

    func answer(_ keys: JSONWebKeySet?) { state.withLock { $0.answer = keys } }

    @Sendable func fetch() async throws(RPCError) -> JSONWebKeySet {
      let answer = state.withLock { state in
        state.calls += 1
        return state.answer
      }
      guard let answer else { throw RPCError(.unavailable, "down") }
      return answer
    }
  }

  private func keys() throws -> JSONWebKeySet { JSONWebKeySet([try P256PrivateKey().publicKey]) }

  private func cache(
    _ identity: Identity,
    refresh: Duration = .seconds(60),
    retry: Duration = .milliseconds(1),
    distance: Duration = .milliseconds(1)
  ) -> JWKSCache {
    JWKSCache(
      refreshInterval: refresh,
      retryInterval: retry,
      minimumDistance: distance,
      logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
      fetch: identity.fetch
    )
  }

  /// Waits until `condition` holds; a minute is for ever.
  private func eventually(_ condition: () -> Bool) async throws {
    let deadline = ContinuousClock.now + .seconds(60)
    while !condition() {
      try #require(ContinuousClock.now < deadline, "it never came to hold")
      try await Task.sleep(for: .milliseconds(1))
    }
  }

  /// Runs the cache beside `body`.
  private func running(_ cache: JWKSCache, _ body: () async throws -> Void) async throws {
    let task = Task { await cache.run() }
    defer { task.cancel() }
    try await body()
  }

  @Test("keys are fetched at start, again and again until identity answers")
  func start() async throws {
    let identity = Identity(nil)
    let cache = cache(identity)
    #expect(cache.current == nil)
    #expect(cache.fetchMissing("any"))
    try await running(cache) {
      try await eventually { identity.calls >= 3 }
      #expect(cache.current == nil)
      let keys = try keys()
      identity.answer(keys)
      try await eventually { cache.current == keys }
    }
  }

  @Test("an unknown key brings one early fetch, however many ask, and is nobody's once that does not have it")
  func singleFlight() async throws {
    let (old, new) = (try keys(), try keys())
    let identity = Identity(old)
    let cache = cache(identity, distance: .milliseconds(20))
    let name = try #require(new.keys.first?.id)
    try await running(cache) {
      try await eventually { cache.current == old }
      identity.answer(new)
      for _ in 0..<1000 { #expect(cache.fetchMissing(name)) }
      #expect(cache.fetchMissing("made-up"))
      try await eventually { cache.current == new }
      try await eventually { !cache.fetchMissing("made-up") }
      #expect(cache.fetchMissing(name))
      for name in [String(repeating: "x", count: 129), "../key"] { #expect(!cache.fetchMissing(name)) }
      #expect((2...3).contains(identity.calls))
    }
  }

  @Test(
    "a key that came about just after a fetch may be there soon: early fetches keep their distance, and nobody is told no"
  )
  func distance() async throws {
    let identity = Identity(try keys())
    let cache = cache(identity, distance: .seconds(3600))
    try await running(cache) {
      try await eventually { cache.current != nil }
      for number in 0..<1000 { #expect(cache.fetchMissing("key-\(number)")) }
      try await Task.sleep(for: .milliseconds(20))
      #expect(identity.calls == 1)
    }
  }

  @Test("a key that a failed fetch could not bring is still looked for")
  func failedFetch() async throws {
    let (old, new) = (try keys(), try keys())
    let identity = Identity(old)
    let cache = cache(identity)
    let name = try #require(new.keys.first?.id)
    try await running(cache) {
      try await eventually { cache.current == old }
      identity.answer(nil)
      #expect(cache.fetchMissing(name))
      let calls = identity.calls
      try await eventually { identity.calls >= calls + 3 }
      #expect(cache.fetchMissing(name))
      identity.answer(new)
      try await eventually { cache.current == new }
    }
  }

  @Test("keys are fetched again at the interval, and kept while identity is down")
  func refresh() async throws {
    let first = try keys()
    let identity = Identity(first)
    let cache = cache(identity, refresh: .milliseconds(5))
    try await running(cache) {
      try await eventually { identity.calls >= 3 }
      identity.answer(nil)
      let calls = identity.calls
      try await eventually { identity.calls >= calls + 3 }
      #expect(cache.current == first)
    }
  }

  /// A clock by which every sleep lasts until the test ends it.
  final class HeldClock: Clock, Sendable {
    private let ends = Mutex(0)

    var now: ContinuousClock.Instant { .now }
    var minimumResolution: Duration { .zero }

    func endSleep() { ends.withLock { $0 += 1 } }

    func sleep(until deadline: ContinuousClock.Instant, tolerance: Duration?) async throws {
      while !ends.withLock({ ends in
        guard ends > 0 else { return false }
        ends -= 1
        return true
      }) {
        try await Task.sleep(for: .milliseconds(1))
      }
    }
  }

  /// Runs the cache through its first fetch and the second, an interval later.
  private func afterQuietInterval(
    _ old: JSONWebKeySet, _ new: JSONWebKeySet,
    _ body: (JWKSCache, Identity, HeldClock) async throws -> Void
  ) async throws {
    let (identity, clock) = (Identity(old), HeldClock())
    let cache = JWKSCache(
      clock: clock, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, fetch: identity.fetch)
    try await running(cache) {
      try await eventually { cache.current == old }
      identity.answer(new)
      for _ in 0..<2 { clock.endSleep() }
      try await eventually { cache.current == new }
      try await body(cache, identity, clock)
    }
  }

  @Test("after a quiet interval keys are fetched at the next one, or early when an unknown key is asked for")
  func quietInterval() async throws {
    let (old, new) = (try keys(), try keys())
    try await afterQuietInterval(old, old) { cache, identity, clock in
      try await eventually { identity.calls == 2 }
      clock.endSleep()
      // Long enough for another fetch, which nobody has asked for.
      try await Task.sleep(for: .milliseconds(100))
      #expect(identity.calls == 2)
      identity.answer(new)
      #expect(cache.fetchMissing(try #require(new.keys.first?.id)))
      try await eventually { cache.current == new }
    }
  }

  @Test("tokens of a retired key are told so, however many key names are made up beside it")
  func retired() async throws {
    let (old, new) = (try keys(), try keys())
    let name = try #require(old.keys.first?.id)
    try await afterQuietInterval(old, new) { cache, identity, clock in
      for number in 0..<1000 { #expect(cache.fetchMissing("key-\(number)")) }
      #expect(!cache.fetchMissing(name))
      // Identity has it again: an operator put it back.
      identity.answer(old)
      clock.endSleep()
      try await eventually { cache.current == old }
      #expect(cache.fetchMissing(name))
    }
  }

  @Test("a name that nobody had is asked for again after an interval")
  func absentAgain() async throws {
    let identity = Identity(try keys())
    let cache = cache(identity, refresh: .milliseconds(200))
    try await running(cache) {
      try await eventually { cache.current != nil }
      #expect(cache.fetchMissing("made-up"))
      try await eventually { !cache.fetchMissing("made-up") }
      try await eventually { cache.fetchMissing("made-up") }
    }
  }

  @Test("cancelled, it ends")
  func cancel() async throws {
    let cache = cache(Identity(try keys()))
    let task = Task { await cache.run() }
    try await eventually { cache.current != nil }
    task.cancel()
    await task.value
  }
}
