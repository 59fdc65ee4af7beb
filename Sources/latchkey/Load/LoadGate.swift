import Synchronization

/// Holds a process's workers until all processes are ready.
final class LoadGate: Sendable {
  private struct State {
    var isReady = false
    var ledger: LoadLedger?
    var isShut = false
  }

  private let state = Mutex(State())

  /// The runner has prepared everything, and waits.
  var isReady: Bool { state.withLock { $0.isReady } }

  /// What the workers write to, once they have been let go.
  var ledger: LoadLedger? { state.withLock { $0.ledger } }

  func open() { state.withLock { $0.ledger = LoadLedger(start: .now) } }

  /// There will be no run.
  func shut() { state.withLock { $0.isShut = true } }

  /// For the runner: returns once the gate is open.
  func pass() async throws(CommandFailure) -> LoadLedger {
    state.withLock { $0.isReady = true }
    while true {
      let (ledger, isShut) = state.withLock { ($0.ledger, $0.isShut) }
      if let ledger { return ledger }
      if isShut { throw CommandFailure(.unavailable, "ended before the start") }
      try? await Task.sleep(for: .milliseconds(1))
    }
  }
}
