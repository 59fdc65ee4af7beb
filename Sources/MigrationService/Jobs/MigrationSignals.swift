import Domain
import LatchkeyModel
import Synchronization

/// Wakes workers when there is work and watchers when a migration moved. Only hints: whoever is woken reads the store,
/// and reads it now and then without being woken. Of what other instances do the hints come from ``MigrationTail``.
final class MigrationSignals: Sendable {
  private struct State {
    var workers: [ObjectIdentifier: Signal] = [:]
    var watchers: [MigrationID: [ObjectIdentifier: Watch]] = [:]
    var watcherCount = 0
    var isDraining = false
    /// Why migrations that are under way do not move on where the store could not note it: a full disk takes no note of
    /// itself.
    var hindrances: [MigrationID: Hindrance] = [:]
  }

  private struct Hindrance {
    let epoch: Int64
    let why: String
  }

  private let state = Mutex(State())

  /// What one call of WatchMigration waits at.
  final class Watch: Sendable {
    let id: MigrationID
    fileprivate let signal = Signal()

    fileprivate init(id: MigrationID) {
      self.id = id
    }

    /// True when the bell rang.
    func next(within duration: Duration) async -> Bool {
      await signal.wait(within: duration)
    }
  }

  /// The service ends: whoever watches should watch elsewhere.
  func drain() {
    let watches = state.withLock { state in
      state.isDraining = true
      return state.watchers.values.flatMap(\.values)
    }
    for watch in watches { watch.signal.fire() }
  }

  var isDraining: Bool { state.withLock { $0.isDraining } }

  /// Nil when there are too many.
  func watch(_ id: MigrationID) -> Watch? {
    let watch = Watch(id: id)
    return state.withLock { state in
      guard state.watcherCount < Limits.watchers else { return nil }
      state.watcherCount += 1
      state.watchers[id, default: [:]][ObjectIdentifier(watch)] = watch
      return watch
    }
  }

  func unwatch(_ watch: Watch) {
    state.withLock { state in
      guard state.watchers[watch.id]?.removeValue(forKey: ObjectIdentifier(watch)) != nil else { return }
      state.watcherCount -= 1
      if state.watchers[watch.id]?.isEmpty == true { state.watchers[watch.id] = nil }
    }
  }

  /// The migrations that somebody watches.
  var watched: [MigrationID] { state.withLock { Array($0.watchers.keys) } }

  func moved(_ id: MigrationID) {
    let watches = state.withLock { state in state.watchers[id].map { Array($0.values) } ?? [] }
    for watch in watches { watch.signal.fire() }
  }

  /// Remembers why the last step failed under a claim.
  func hinder(_ id: MigrationID, _ why: String, claim epoch: Int64) {
    state.withLock { state in
      // Those of claims that others made since then are of no use; the rest is remembered at the next try.
      if state.hindrances.count >= Limits.hindrances { state.hindrances = [:] }
      state.hindrances[id] = Hindrance(epoch: epoch, why: why)
    }
  }

  func unhinder(_ id: MigrationID) {
    state.withLock { _ = $0.hindrances.removeValue(forKey: id) }
  }

  /// Why a migration did not move on: as it was noted or, when that could not be, as this instance remembers it.
  func hindrance(of report: FindMigration.Report) -> String? {
    if let noted = report.hindrance { return noted }
    return state.withLock { state in
      state.hindrances[report.migration.id].flatMap { $0.epoch == report.epoch ? $0.why : nil }
    }
  }

  func addWorker(_ signal: Signal) {
    state.withLock { $0.workers[ObjectIdentifier(signal)] = signal }
  }

  func removeWorker(_ signal: Signal) {
    state.withLock { $0.workers[ObjectIdentifier(signal)] = nil }
  }

  func workArrived() {
    let workers = state.withLock { Array($0.workers.values) }
    for signal in workers { signal.fire() }
  }
}
