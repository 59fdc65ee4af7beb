package import Cryptography
package import GRPC
internal import LatchkeyProtos
package import Logging
internal import Synchronization

/// The identity service's keys, kept fresh (R6: from the configured service only).
///
/// `run` fetches until it succeeds, then again at an interval shorter than the time for which identity publishes a key
/// before it signs with it. A token of an unknown key asks for an early fetch; one fetch runs at a time and they keep a
/// distance, so made-up key names cannot turn into load on identity. While no keys are known nothing verifies: the
/// cache fails closed (R41).
package final class JWKSCache: VerificationKeys {
  package typealias Fetch = @Sendable () async throws(RPCError) -> JSONWebKeySet

  private let fetch: Fetch
  private let refreshInterval: Duration
  private let retryInterval: Duration
  private let minimumDistance: Duration
  private let clock: any Clock<Duration>
  private let logger: Logger
  private let wakeUps: AsyncStream<Void>
  private let wakeUp: AsyncStream<Void>.Continuation
  private let state = Mutex(State())

  private struct State {
    var keys: JSONWebKeySet?
    /// A fetch was asked for or runs.
    var isPending = false
    /// The last fetch was a moment ago: early ones are not accepted now.
    var isResting = false
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
    (wakeUps, wakeUp) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
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

  package func fetchMissing() -> Bool {
    let (isComing, mustWake) = state.withLock { state -> (Bool, Bool) in
      if state.isPending || state.keys == nil { return (true, false) }
      if state.isResting { return (false, false) }
      state.isPending = true
      return (true, true)
    }
    if mustWake { wakeUp.yield() }
    return isComing
  }

  /// Fetches until cancelled. To be run once, by the service's lifecycle.
  package func run() async {
    var warning = PatientWarning()
    while !Task.isCancelled {
      state.withLock { $0.isPending = true }
      let succeeded = await fetchOnce(&warning)
      state.withLock { state in
        state.isPending = false
        state.isResting = true
      }
      guard succeeded else {
        try? await clock.sleep(for: retryInterval)
        continue
      }
      try? await clock.sleep(for: minimumDistance)
      state.withLock { $0.isResting = false }
      await waitForRefresh()
    }
  }

  private func fetchOnce(_ warning: inout PatientWarning) async -> Bool {
    do throws(RPCError) {
      let keys = try await fetch()
      state.withLock { $0.keys = keys }
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
    await withTaskGroup { group in
      group.addTask { [clock, refreshInterval] in try? await clock.sleep(for: refreshInterval) }
      group.addTask { [wakeUps] in
        var iterator = wakeUps.makeAsyncIterator()
        await iterator.next()
      }
      await group.next()
      group.cancelAll()
    }
  }
}
