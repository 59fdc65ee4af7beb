import Domain
import LatchkeyModel
import ServiceRuntime
import Synchronization

/// Wakes workers when there is work and watchers when a migration moved. Only hints: whoever is woken reads the store,
/// and reads it now and then without being woken. Of what other instances do the hints come from ``MigrationTail``.
final class MigrationSignals: Sendable {
  private struct State {
    var workers: [ObjectIdentifier: Signal] = [:]
    var watches: WatchTable<Watcher>
    /// The bells of these watches.
    var bells: [MigrationID: [ObjectIdentifier: Signal]] = [:]
    var isDraining = false
    /// Why migrations that are under way do not move on where the store could not note it: a full disk takes no note of
    /// itself.
    var hindrances: [MigrationID: Hindrance] = [:]

    mutating func hang(_ watcher: Watcher) {
      bells[watcher.migration, default: [:]][ObjectIdentifier(watcher.bell)] = watcher.bell
    }

    mutating func takeDown(_ watcher: Watcher) {
      bells[watcher.migration]?[ObjectIdentifier(watcher.bell)] = nil
      if bells[watcher.migration]?.isEmpty == true { bells[watcher.migration] = nil }
    }

    func hangs(_ watcher: Watcher) -> Bool {
      bells[watcher.migration]?[ObjectIdentifier(watcher.bell)] != nil
    }
  }

  private struct Hindrance {
    let epoch: Int64
    let why: String
  }

  private let state: Mutex<State>

  init(_ bounds: WatchBounds = Limits.watchBounds) {
    state = Mutex(State(watches: WatchTable(bounds)))
  }

  fileprivate struct Watcher: Sendable {
    let migration: MigrationID
    let bell: Signal
  }

  /// What one call of WatchMigration waits at.
  struct Watch: Sendable {
    fileprivate let watcher: Watcher
    fileprivate let subject: SubjectID
    fileprivate let number: UInt64

    /// True when the bell rang.
    func next(within duration: Duration) async -> Bool {
      await watcher.bell.wait(within: duration)
    }
  }

  /// The service ends: whoever watches should watch elsewhere.
  func drain() {
    let watchers = state.withLock { state in
      state.isDraining = true
      return state.watches.watchers
    }
    for watcher in watchers { watcher.bell.fire() }
  }

  var isDraining: Bool { state.withLock { $0.isDraining } }

  /// Nil when the session, the device, the account or the process has as many watches as it may. A watch whose place
  /// another takes is woken, and ``holdsPlace(_:)`` no more.
  func watch(_ id: MigrationID, by holder: WatchHolder) -> Watch? {
    let watcher = Watcher(migration: id, bell: Signal())
    let entrance = state.withLock { state in
      let entrance = state.watches.enter(holder, watcher)
      switch entrance {
      case .entered: state.hang(watcher)
      case .inPlaceOf(let displaced, _):
        state.takeDown(displaced)
        state.hang(watcher)
      case .refused: break
      }
      return entrance
    }
    switch entrance {
    case .entered(let number):
      return Watch(watcher: watcher, subject: holder.subject, number: number)
    case .inPlaceOf(let displaced, let number):
      displaced.bell.fire()
      return Watch(watcher: watcher, subject: holder.subject, number: number)
    case .refused:
      return nil
    }
  }

  func unwatch(_ watch: Watch) {
    state.withLock { state in
      guard let watcher = state.watches.leave(watch.number, of: watch.subject) else { return }
      state.takeDown(watcher)
    }
  }

  /// False for a watch whose place another one took.
  func holdsPlace(_ watch: Watch) -> Bool { state.withLock { $0.hangs(watch.watcher) } }

  /// Watches that are open.
  var watchCount: Int { state.withLock { $0.watches.count } }

  /// The migrations that somebody watches.
  var watched: [MigrationID] { state.withLock { Array($0.bells.keys) } }

  func moved(_ id: MigrationID) {
    let bells = state.withLock { state in state.bells[id].map { Array($0.values) } ?? [] }
    for bell in bells { bell.fire() }
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
