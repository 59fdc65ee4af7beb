import LatchkeyModel
import Storage
import Synchronization

/// Every session of this instance as its poller sees it: answered from memory, never from storage.
///
/// Sharded by the secret's hash. A poll takes one lock for well under a microsecond; sweeping takes each lock in turn,
/// for a bounded piece of work.
final class PollTable: Sendable {
  private final class Shard: Sendable {
    let state: Mutex<PollShard>
    /// Whether anybody waits here until some time. Written under the lock; read without, since nearly always nobody does.
    private let hasTimeouts = Atomic(false)

    init(now: Timestamp, memory: PollMemory) { state = Mutex(PollShard(now: now, memory: memory)) }

    func wait(
      _ secret: Digest256,
      after version: Int64,
      until due: ContinuousClock.Instant?,
      at now: Timestamp,
      waiter: PollWaiter
    ) -> PollShard.Registration {
      state.withLock { state in
        defer { hasTimeouts.store(state.hasTimeouts, ordering: .releasing) }
        return state.wait(secret, after: version, until: due, at: now, waiter: waiter)
      }
    }

    func takeTimedOut(at instant: ContinuousClock.Instant) -> [PollWaiter] {
      guard hasTimeouts.load(ordering: .acquiring) else { return [] }
      return state.withLock { state in
        defer { hasTimeouts.store(state.hasTimeouts, ordering: .releasing) }
        return state.takeTimedOut(at: instant)
      }
    }
  }

  private let shards: [Shard]
  private let memory = PollMemory()
  private let numbers = Atomic<UInt64>(0)

  init(now: Timestamp) {
    Limits.check()
    let memory = memory
    shards = (0..<Limits.pollShards).map { _ in Shard(now: now, memory: memory) }
  }

  private func shard(_ secret: Digest256) -> Shard {
    shards[Int(truncatingIfNeeded: secret.words.3 % UInt64(Limits.pollShards))]
  }

  var count: Int { shards.reduce(0) { $0 + $1.state.withLock { $0.count } } }

  var waiterCount: Int { shards.reduce(0) { $0 + $1.state.withLock { $0.waiterCount } } }

  func insert(_ session: QRSession) {
    shard(session.keys.pollSecret).state.withLock { $0.insert(session) }
  }

  /// Shows a change to its pollers. To be called once the change is durable.
  func publish(_ change: QRChange) {
    let waiters = shard(change.pollSecret).state.withLock { $0.publish(change) }
    for waiter in waiters { waiter.resume(.changed) }
  }

  func publish(_ session: QRSession) { publish(QRChange(session)) }

  func view(_ secret: Digest256, at now: Timestamp) -> PollView? {
    shard(secret).state.withLock { $0.view(secret, at: now) }
  }

  /// Huge pages that the entries take.
  var pieceCount: Int { memory.pieceCount }

  /// Has the processor fetch the part of the index that finds a session.
  func fetchIndex(_ secret: Digest256) {
    shard(secret).state.withLock { $0.fetchIndex(secret) }
  }

  /// Has the processor fetch a session's entry.
  func fetchEntry(_ secret: Digest256) {
    shard(secret).state.withLock { $0.fetchEntry(secret) }
  }

  func poll(
    _ secret: Digest256,
    lastVersion: Int64,
    waits: Bool,
    base: Duration,
    at now: Timestamp
  ) -> PollDecision {
    shard(secret).state.withLock { $0.poll(secret, lastVersion: lastVersion, waits: waits, base: base, at: now) }
  }

  /// Returns when the session has a later version than `version`, when it is over, at `due`, when the calling task is
  /// cancelled, when too many others wait, or when the service ends. Whatever it was, the session may have changed.
  func change(
    of secret: Digest256,
    after version: Int64,
    until due: ContinuousClock.Instant,
    at now: Timestamp
  ) async -> PollWake {
    let number = nextWaiterNumber()
    let shard = shard(secret)
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let waiter = PollWaiter(number: number, sleeper: .task(continuation))
        switch shard.wait(secret, after: version, until: due, at: now, waiter: waiter) {
        case .notNeeded:
          continuation.resume(returning: .changed)
        case .stopping:
          continuation.resume(returning: .stopping)
        case .waiting(let displaced):
          displaced?.resume(.displaced)
          // A cancellation that came before the waiter was in found nobody to wake.
          if Task.isCancelled { wake(number, of: secret, in: shard) }
        }
      }
    } onCancel: {
      wake(number, of: secret, in: shard)
    }
  }

  /// A number that tells a waiter from all others.
  func nextWaiterNumber() -> UInt64 { numbers.wrappingAdd(1, ordering: .relaxed).newValue }

  /// Lets a watch wait as `change` does, without a task. Nil: it waits. Otherwise why it does not have to.
  func park(
    _ watch: SessionWatch,
    number: UInt64,
    of secret: Digest256,
    after version: Int64,
    until due: ContinuousClock.Instant?,
    at now: Timestamp
  ) -> PollWake? {
    let waiter = PollWaiter(number: number, sleeper: .watch(watch))
    switch shard(secret).wait(secret, after: version, until: due, at: now, waiter: waiter) {
    case .notNeeded: return .changed
    case .stopping: return .stopping
    case .waiting(let displaced):
      displaced?.resume(.displaced)
      return nil
    }
  }

  /// A watch waits no more.
  func unpark(_ number: UInt64, of secret: Digest256) {
    _ = shard(secret).state.withLock { $0.removeWaiter(number, of: secret) }
  }

  private func wake(_ number: UInt64, of secret: Digest256, in shard: Shard) {
    shard.state.withLock { $0.removeWaiter(number, of: secret) }?.resume(.cancelled)
  }

  /// Answers the waiters whose time is over. Called every `Limits.tick`.
  func wakeTimedOut(at instant: ContinuousClock.Instant) {
    for shard in shards {
      for waiter in shard.takeTimedOut(at: instant) { waiter.resume(.timedOut) }
    }
  }

  /// Wakes the waiters of what has expired and forgets what ended long ago, a piece of it in one of `shardNumbers`.
  func sweep(_ number: Int, at now: Timestamp) -> PollShard.Sweep {
    let sweep = shards[number].state.withLock { $0.sweep(at: now) }
    for waiter in sweep.waiters { waiter.resume(.changed) }
    return sweep
  }

  var shardNumbers: Range<Int> { shards.indices }

  /// Sweeps all of it at once. Returns what expired undecided or unredeemed.
  func sweep(at now: Timestamp) -> [QRSessionID] {
    var expired: [QRSessionID] = []
    for number in shardNumbers {
      while true {
        let sweep = sweep(number, at: now)
        expired += sweep.expired
        if sweep.isDone { break }
      }
    }
    return expired
  }

  /// Answers every waiter and lets nobody wait from here on: the service ends.
  func stopWaiting() {
    for shard in shards {
      for waiter in shard.state.withLock({ $0.stopWaiting() }) {
        waiter.resume(.stopping)
      }
    }
  }
}
