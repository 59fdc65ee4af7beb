package import Cryptography
package import GRPC
internal import LatchkeyModel
internal import LatchkeyProtos
package import Logging
internal import Synchronization

/// The identity service's keys, kept fresh (R6: from the configured service only).
///
/// `run` fetches until it succeeds, then again at an interval shorter than the time for which identity publishes a key
/// before it signs with it. A token of an unknown key asks for an early fetch; one fetch runs at a time and they keep a
/// distance, so made-up key names cannot turn into load on identity. A key is unknown only once a fetch that began after it
/// was asked for did not have it: until then its tokens may hold. A key that identity had and has no more needs no fetch, so
/// that its tokens are told so however many names are made up beside it. While no keys are known nothing verifies: the cache
/// fails closed (R41).
package final class JWKSCache: VerificationKeys {
  package typealias Fetch = @Sendable () async throws(RPCError) -> JSONWebKeySet

  private let fetch: Fetch
  private let refreshInterval: Duration
  private let retryInterval: Duration
  private let minimumDistance: Duration
  private let clock: any Clock<Duration>
  private let logger: Logger
  private let state = Mutex(State())

  private struct State {
    var keys: JSONWebKeySet?
    /// Keys that tokens named, and that the next fetch may bring.
    var asked: Set<String> = []
    /// Those that a fetch was to bring and did not, until they may be asked for again.
    var absent: [String: ContinuousClock.Instant] = [:]
    /// Keys that identity had and has no more, the latest last.
    var retired: [String] = []
    /// Ends the wait for the next fetch, while there is one.
    var wakeUp: AsyncStream<Void>.Continuation?

    /// Takes over what a fetch that was to bring the keys `names` came back with.
    mutating func fetched(_ new: JSONWebKeySet, for names: Set<String>, absentUntil end: ContinuousClock.Instant) {
      let now = ContinuousClock.now
      retired += keys?.keys.map(\.id).filter { new[$0] == nil } ?? []
      retired = retired.filter { new[$0] == nil }.suffix(Limits.retiredKeys)
      keys = new
      asked.subtract(names)
      absent = absent.filter { now < $0.value && new[$0.key] == nil }
      for name in names where new[name] == nil && absent.count < Limits.absentKeys { absent[name] = end }
    }
  }

  package init(
    refreshInterval: Duration = Limits.keyRefreshInterval,
    retryInterval: Duration = Limits.keyRetryInterval,
    minimumDistance: Duration = Limits.keyFetchDistance,
    clock: any Clock<Duration> = ContinuousClock(),
    logger: Logger,
    fetch: @escaping Fetch
  ) {
    self.fetch = fetch
    self.refreshInterval = refreshInterval
    self.retryInterval = retryInterval
    self.minimumDistance = minimumDistance
    self.clock = clock
    self.logger = logger
  }

  /// Asks identity's `GetJwks` over a channel.
  package convenience init(identity channel: any RPCChannel, logger: Logger) {
    let client = IdentityV1.AuthServiceClient(channel: channel)
    self.init(logger: logger) { () async throws(RPCError) -> JSONWebKeySet in
      let options = CallOptions(timeout: Limits.keyFetchTimeout)
      let response = try await client.getJwks(IdentityV1.GetJwksRequest(), options: options)
      do throws(CryptographyError) {
        return try JSONWebKeySet(parsing: Array(response.jwksJSON.utf8))
      } catch {
        throw RPCError(.dataLoss, "identity answered with no usable key set: \(error)")
      }
    }
  }

  package var current: JSONWebKeySet? { state.withLock { $0.keys } }

  package func fetchMissing(_ keyID: String) -> Bool {
    let (isComing, wakeUp) = state.withLock { state -> (Bool, AsyncStream<Void>.Continuation?) in
      guard let keys = state.keys else { return (true, nil) }
      if keys[keyID] != nil { return (true, nil) }
      if !Self.isKeyName(keyID) || state.retired.contains(keyID) { return (false, nil) }
      if let end = state.absent[keyID], ContinuousClock.now < end { return (false, nil) }
      // Of more than these a fetch tells nothing: they are asked for again.
      guard state.asked.count < Limits.missingKeys else { return (true, nil) }
      // Where a fetch runs or was a moment ago, it is seen when the next wait begins.
      return (true, state.asked.insert(keyID).inserted ? state.wakeUp : nil)
    }
    wakeUp?.yield()
    return isComing
  }

  /// Whether identity might call a key so: a thumbprint is base64url.
  private static func isKeyName(_ text: String) -> Bool {
    text.utf8.count <= Limits.keyNameBytes
      && text.utf8.allSatisfy { $0.isASCIIAlphanumeric || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_") }
  }

  /// Fetches until cancelled. To be run once, by the service's lifecycle.
  package func run() async {
    var warning = PatientWarning()
    while !Task.isCancelled {
      guard await fetchOnce(&warning) else {
        try? await clock.sleep(for: retryInterval)
        continue
      }
      try? await clock.sleep(for: minimumDistance)
      await waitForRefresh()
    }
  }

  private func fetchOnce(_ warning: inout PatientWarning) async -> Bool {
    let asked = state.withLock { $0.asked }
    do throws(RPCError) {
      let keys = try await fetch()
      let end = ContinuousClock.now + refreshInterval
      state.withLock { $0.fetched(keys, for: asked, absentUntil: end) }
      warning.succeeded()
      return true
    } catch {
      if !Task.isCancelled, warning.failed() {
        logger.warning(
          "the keys of the identity service cannot be fetched; trying again",
          metadata: ["code": "\(error.code)", "reason": "\(error.message)"]
        )
      }
      return false
    }
  }

  /// Returns when the interval is over or an early fetch is asked for.
  private func waitForRefresh() async {
    // One for each wait: a stream is over once somebody who waits for it is cancelled.
    let (wakeUps, wakeUp) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    let isAsked = state.withLock { state in
      state.wakeUp = wakeUp
      return !state.asked.isEmpty
    }
    defer { state.withLock { $0.wakeUp = nil } }
    if isAsked { return }
    await withTaskGroup { group in
      group.addTask { [clock, refreshInterval] in try? await clock.sleep(for: refreshInterval) }
      group.addTask {
        var iterator = wakeUps.makeAsyncIterator()
        await iterator.next()
      }
      await group.next()
      group.cancelAll()
    }
  }
}
