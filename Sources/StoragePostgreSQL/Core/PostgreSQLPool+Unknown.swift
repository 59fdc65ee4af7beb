import Glibc
import Storage

/// Commits that nobody answered.
extension PostgreSQLPool {
  /// Answers the operations of a commit that was made, and has those of one that was not made wait once more. Where it cannot
  /// be seen somebody looks again.
  func look(_ entry: UnknownCommits.Entry, on connection: PostgreSQLConnection) {
    do throws(StorageError) {
      let isMade = try connection.isCommitted(entry.mark)
      state.withLock { $0.unknown.finished(nil) }
      if isMade {
        for operation in entry.operations { operation.finish(nil) }
      } else if entry.isRunAgain {
        giveBack(entry.operations, as: .untouched)
      } else {
        for operation in entry.operations { operation.finish(Self.notMade) }
      }
    } catch {
      // The thread is the engine's own. A server that refuses to be asked is not asked all the time.
      if !connection.isBroken { usleep(Limits.lookPauseMilliseconds * 1000) }
      let isOver = state.withLock { state in
        state.unknown.finished(state.isClosed ? nil : entry)
        return state.isClosed
      }
      if isOver { Self.answer([entry]) }
    }
    answerLate()
  }

  private static let notMade = StorageError(
    .unavailable, operation: "", detail: "the database did not answer in time, and made no change")

  /// Tells those who asked for what nobody could look up for too long.
  func answerLate() {
    Self.answer(state.withLock { $0.unknown.takeLate(at: .now) })
  }

  static func answer(_ entries: [UnknownCommits.Entry]) {
    for entry in entries {
      for operation in entry.operations { operation.finish(entry.failure) }
    }
  }
}
