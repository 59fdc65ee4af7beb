import LatchkeyModel
import Storage
import Synchronization

/// What this instance changes, for the other instances that listen: each has a box that fills while it is not emptied.
final class Wakes: Sendable {
  private struct State {
    var boxes: [UInt64: WakeBox] = [:]
    var next: UInt64 = 0
    var isStopping = false
  }

  private let state = Mutex(State())

  /// Nil when too many listen already, or the service ends.
  func open() -> WakeBox? {
    state.withLock { state in
      guard !state.isStopping, state.boxes.count < Limits.listeningInstances else { return nil }
      state.next += 1
      let box = WakeBox(number: state.next)
      state.boxes[box.number] = box
      return box
    }
  }

  func close(_ box: WakeBox) {
    state.withLock { _ = $0.boxes.removeValue(forKey: box.number) }
  }

  /// How many listen.
  var count: Int { state.withLock { $0.boxes.count } }

  func tell(_ change: QRChange) {
    for box in boxes { box.put(change) }
  }

  /// Has those told that wait that there is nothing. Called every second.
  func showLife() {
    for box in boxes { box.wake() }
  }

  /// The service ends: nobody is told any more.
  func stop() {
    let boxes = state.withLock { state in
      state.isStopping = true
      return Array(state.boxes.values)
    }
    for box in boxes { box.end() }
  }

  private var boxes: [WakeBox] { state.withLock { Array($0.boxes.values) } }
}

/// Changes that one other instance has not been told yet. To be emptied by one task.
final class WakeBox: Sendable {
  private struct State {
    var changes: [QRChange] = []
    var waiting: CheckedContinuation<Void, Never>?
    var isOver = false
  }

  let number: UInt64
  private let state = Mutex(State())

  init(number: UInt64) {
    self.number = number
  }

  /// One that is behind misses changes, and hears of them from the database.
  func put(_ change: QRChange) {
    take { state in
      if state.changes.count < Limits.changesPerInstance { state.changes.append(change) }
    }
  }

  func wake() { take { _ in } }

  func end() { take { $0.isOver = true } }

  private func take(_ body: (inout State) -> Void) {
    let waiting = state.withLock { state in
      body(&state)
      defer { state.waiting = nil }
      return state.waiting
    }
    waiting?.resume()
  }

  /// What came since; none when only life is to be shown, nil when it is over.
  func next() async -> [QRChange]? {
    await withCheckedContinuation { continuation in
      let isReady = state.withLock { state in
        guard state.changes.isEmpty, !state.isOver else { return true }
        state.waiting = continuation
        return false
      }
      if isReady { continuation.resume() }
    }
    return state.withLock { state in
      if state.isOver { return nil }
      defer { state.changes = [] }
      return state.changes
    }
  }
}
