import Storage
import Synchronization

/// How many guests the installation keeps: strangers make them, and each stays on the disk for months.
package final class GuestRoom: Sendable {
  private let limit: Int
  private let subjects: any SubjectStore
  /// As of the last count, and those made since.
  private let guests = Mutex(0)

  package init(limit: Int, subjects: any SubjectStore) {
    self.limit = limit
    self.subjects = subjects
  }

  package var isFull: Bool { guests.withLock { $0 >= limit } }

  func added() {
    guests.withLock { $0 += 1 }
  }

  /// Counts again: guests become accounts, and go.
  package func count() async {
    guard let count = try? await subjects.guestCount() else { return }
    guests.withLock { $0 = count }
  }
}
