import Domain
import Storage
import Synchronization

/// How many guests the installation keeps: strangers make them, and each stays on the disk for months.
package final class GuestRoom: Sendable {
  private let limit: Int
  private let domain: IdentityDomain
  /// As of the last count, and those made since.
  private let guests = Mutex(0)

  package init(limit: Int, domain: IdentityDomain) {
    self.limit = limit
    self.domain = domain
  }

  package var isFull: Bool { guests.withLock { $0 >= limit } }

  /// How many have to go so that there is room for a while: none as long as there is any.
  var excess: Int {
    guests.withLock { $0 < limit ? 0 : $0 - limit + max(1, limit / Limits.guestRoomShare) }
  }

  func added() {
    guests.withLock { $0 += 1 }
  }

  /// Counts again: guests become accounts, and go.
  package func count() async {
    _ = try? await countExcess()
  }

  /// Counts again and says how many have to go.
  func countExcess() async throws(StorageError) -> Int {
    let count = try await domain.look(CountGuests())
    guests.withLock { $0 = count }
    return excess
  }
}
