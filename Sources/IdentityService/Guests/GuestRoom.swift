import Domain
import ServiceRuntime
import Storage
import Synchronization

/// How many guests the installation keeps: strangers make them, and each stays on the disk for months.
///
/// Between two counts an instance knows only of those that it made itself, and takes it that every other instance made as
/// many. When there is no room left by that, they are counted before anybody is refused.
package final class GuestRoom: Sendable {
  private struct Guests {
    /// As of the last count, and those made since.
    var number = 0
    var counted: ContinuousClock.Instant?
    var counting: Task<Void, Never>?
  }

  private let limit: Int
  private let domain: IdentityDomain
  private let instances: InstanceCount
  private let guests = Mutex(Guests())

  package init(limit: Int, domain: IdentityDomain, among instances: InstanceCount = .one) {
    self.limit = limit
    self.domain = domain
    self.instances = instances
  }

  package var isFull: Bool { guests.withLock { $0.number >= limit } }

  /// Whether there is room for one more. Counts again where that seems not so, at most once a `guestRecountPause`; who asks
  /// meanwhile waits for the same count.
  package func hasRoom() async -> Bool {
    let counting: Task<Void, Never>? = guests.withLock { guests in
      guard guests.number >= limit else { return nil }
      if let counting = guests.counting { return counting }
      if let counted = guests.counted, counted.duration(to: .now) < Limits.guestRecountPause { return nil }
      let counting = Task {
        await count()
        self.guests.withLock { $0.counting = nil }
      }
      guests.counting = counting
      return counting
    }
    await counting?.value
    return !isFull
  }

  /// How many have to go so that there is room for a while: none as long as there is any.
  var excess: Int { guests.withLock { excess(of: $0.number) } }

  private func excess(of number: Int) -> Int {
    number < limit ? 0 : number - limit + max(1, limit / Limits.guestRoomShare)
  }

  func added() {
    let others = instances.current
    guests.withLock { $0.number += others }
  }

  /// Counts again: guests become accounts, and go.
  package func count() async {
    _ = try? await countExcess()
  }

  /// Counts again and says how many have to go.
  func countExcess() async throws(StorageError) -> Int {
    let count = try await domain.look(CountGuests())
    guests.withLock { guests in
      guests.number = count
      guests.counted = .now
    }
    return excess(of: count)
  }
}
