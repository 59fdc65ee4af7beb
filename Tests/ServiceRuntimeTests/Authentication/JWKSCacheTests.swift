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
    #expect(cache.fetchMissing())
    try await running(cache) {
      try await eventually { identity.calls >= 3 }
      #expect(cache.current == nil)
      let keys = try keys()
      identity.answer(keys)
      try await eventually { cache.current == keys }
    }
  }

  @Test("an unknown key brings one early fetch, however many ask")
  func singleFlight() async throws {
    let (old, new) = (try keys(), try keys())
    let identity = Identity(old)
    let cache = cache(identity, distance: .milliseconds(20))
    try await running(cache) {
      try await eventually { cache.current == old }
      identity.answer(new)
      // Refused while the first fetch is a moment ago.
      try await eventually { cache.fetchMissing() }
      for _ in 0..<1000 { #expect(cache.fetchMissing() || cache.current == new) }
      try await eventually { cache.current == new }
      #expect(identity.calls == 2)
    }
  }

  @Test("early fetches keep their distance")
  func distance() async throws {
    let identity = Identity(try keys())
    let cache = cache(identity, distance: .seconds(3600))
    try await running(cache) {
      try await eventually { cache.current != nil }
      for _ in 0..<1000 { #expect(!cache.fetchMissing()) }
      try await Task.sleep(for: .milliseconds(20))
      #expect(identity.calls == 1)
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

  @Test("cancelled, it ends")
  func cancel() async throws {
    let cache = cache(Identity(try keys()))
    let task = Task { await cache.run() }
    try await eventually { cache.current != nil }
    task.cancel()
    await task.value
  }
}
