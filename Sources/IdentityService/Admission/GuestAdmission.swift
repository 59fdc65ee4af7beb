import GRPC
import LatchkeyModel
import Synchronization

/// What a new guest costs: nothing at first; work, growing with the excess, for a network that asks for many. Nobody is
/// turned away for the address alone.
///
/// Counted where challenges are handed out, because every guest needs one: a challenge says itself how much work it
/// asks for, so saving them up gains nothing. One number a network (the generic cell rate algorithm): the time at which
/// it would be back to nothing spent.
package final class GuestAdmission: Sendable {
  private struct State {
    var spentUntil: [SourceNetwork: Int64] = [:]
    var nextSweep: Int64 = .min
  }

  private let step: Int64
  private let window: Int64
  private let capacity: Int
  private let state = Mutex(State())

  package init(perHour count: Int, capacity: Int = Limits.countedNetworks) {
    precondition(count > 0 && capacity > 0)
    step = max(1, 3_600_000 / Int64(count))
    window = step * Int64(count)
    self.capacity = capacity
  }

  /// Counts a challenge and says how many bits of work it asks for.
  package func workBits(for peer: Peer, at now: Timestamp) -> Int {
    guard let network = SourceNetwork(peer.address) else { return 0 }
    let now = now.millisecondsSinceEpoch
    let excess = state.withLock { state -> Int64 in
      if state.spentUntil[network] == nil, state.spentUntil.count >= capacity, !makeRoom(&state, at: now) { return 1 }
      let spent = max(state.spentUntil[network] ?? now, now) + step
      // What is owed is bounded, so that the most work is not asked for longer than a window after the flood ends.
      state.spentUntil[network] = min(spent, now + 2 * window)
      return (spent - now - window + step - 1) / step
    }
    guard excess > 0 else { return 0 }
    // One bit more, twice the work, for each doubling of the excess.
    let doublings = Int64.bitWidth - 1 - excess.leadingZeroBitCount
    return min(Limits.leastWorkBits + doublings, Limits.mostWorkBits)
  }

  package var countedNetworks: Int { state.withLock { $0.spentUntil.count } }

  /// Forgets networks that are back to nothing, in at most one pass a second.
  private func makeRoom(_ state: inout State, at now: Int64) -> Bool {
    guard now >= state.nextSweep || state.nextSweep - now > 1000 else { return false }
    state.nextSweep = now + 1000
    state.spentUntil = state.spentUntil.filter { $0.value > now }
    return state.spentUntil.count < capacity
  }
}
