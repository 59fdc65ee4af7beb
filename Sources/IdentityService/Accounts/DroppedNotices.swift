import Storage
import Synchronization

/// Counts the notices that owners will not get because too many wait for them.
package final class DroppedNotices: SessionListener {
  private let count = Mutex(0)

  package init() {}

  package func sessionsChanged(_ changes: SessionChanges) {
    if changes.droppedNotices > 0 { count.withLock { $0 += changes.droppedNotices } }
  }

  /// How many since this was asked last.
  func take() -> Int {
    count.withLock { count in
      defer { count = 0 }
      return count
    }
  }
}
