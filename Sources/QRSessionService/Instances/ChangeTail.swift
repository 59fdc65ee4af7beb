import LatchkeyModel
import Logging
import Storage
import Synchronization

/// Hears from the database what other instances changed, four times a second: what a `Wake` did not bring.
final class ChangeTail: Sendable {
  private struct State {
    var mark: QRChangeMark?
    /// When the last look began that the database answered to the end.
    var heard = ContinuousClock.now
    /// When the look began of which there are more pages.
    var begun: ContinuousClock.Instant?
  }

  private let store: any SharedQRSessionStore
  private let state = Mutex(State())

  init(_ store: any SharedQRSessionStore) {
    self.store = store
  }

  /// From here on changes are to be heard.
  func start() async throws(StorageError) {
    let begun = ContinuousClock.now
    let mark = try await store.changeMark()
    note(mark, begun)
  }

  /// What changed since the last time, with `place` in its mark while there is more at once. After a failure the mark is
  /// the one of before, after which everything is found that came meanwhile.
  func next() async throws(StorageError) -> QRChanges {
    let begun = ContinuousClock.now
    guard let mark = state.withLock({ $0.mark }) else {
      preconditionFailure("it is started before it is asked")
    }
    let read = try await store.changes(
      since: mark, orOfLast: Limits.changeRetention, limit: Limits.rowsPerBatch)
    note(read.mark, begun)
    return read
  }

  /// Until the last page is read, states are shown that are as old as the look before.
  private func note(_ mark: QRChangeMark, _ begun: ContinuousClock.Instant) {
    state.withLock { state in
      let begun = state.begun ?? begun
      state.mark = mark
      state.begun = mark.place == nil ? nil : begun
      if mark.place == nil { state.heard = begun }
    }
  }

  /// Why changes that other instances made are not shown; nil while they are.
  var obstacle: String? { obstacle(at: .now) }

  func obstacle(at now: ContinuousClock.Instant) -> String? {
    let silence = now - state.withLock { $0.heard }
    guard silence > Limits.tailSilence else { return nil }
    return "nothing is heard of codes that other instances serve: the database does not answer"
  }
}
