internal import Synchronization

/// Bounds how many lines a flood can write: so many in each second, and a count of those left out.
final class LogBudget: Sendable {
  private let linesPerSecond: Int
  private let state = Mutex(State())

  private struct State {
    var second: Int64 = .min
    var used = 0
    var suppressed = 0
  }

  init(linesPerSecond: Int) {
    self.linesPerSecond = linesPerSecond
  }

  /// Nil when the second's budget is spent; otherwise how many lines were left out since the last one.
  func take(second: Int64) -> Int? {
    state.withLock { state in
      if state.second != second {
        state.second = second
        state.used = 0
      }
      guard state.used < linesPerSecond else {
        state.suppressed += 1
        return nil
      }
      state.used += 1
      let suppressed = state.suppressed
      state.suppressed = 0
      return suppressed
    }
  }
}
