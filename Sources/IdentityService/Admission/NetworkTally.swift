import GRPC
import LatchkeyModel
import Synchronization

/// Counts what comes from a network: `count` events at once, earned back evenly over a time.
///
/// One number a network (the generic cell rate algorithm): the time at which it would be back to nothing spent. Memory
/// follows who is active and has a bound; past it, networks that are not counted are treated as over the count.
package final class NetworkTally: Sendable {
  private struct State {
    var spentUntil: [SourceNetwork: Int64] = [:]
    var nextSweep: Int64 = .min
  }

  private let step: Int64
  private let window: Int64
  private let capacity: Int
  private let state = Mutex(State())

  package init(_ count: Int, per time: Duration, capacity: Int = Limits.countedNetworks) {
    precondition(count > 0 && capacity > 0 && time > .zero, "a tally allows something")
    step = max(1, time.wholeMilliseconds / Int64(count))
    window = step * Int64(count)
    self.capacity = capacity
  }

  /// Counts an event. Returns how far above the count the network is, 0 for one that is within it.
  package func excess(from peer: Peer, at now: Timestamp) -> Int64 {
    guard let network = SourceNetwork(peer.address) else { return 0 }
    let now = now.millisecondsSinceEpoch
    return state.withLock { state in
      guard hasRoom(for: network, &state, at: now) else { return 1 }
      let spent = max(state.spentUntil[network] ?? now, now) + step
      // What is owed is bounded, so that a network is not held above its count for long after a flood ends.
      state.spentUntil[network] = min(spent, now + 2 * window)
      return max(0, (spent - now - window + step - 1) / step)
    }
  }

  /// Counts an event that is within the count; otherwise counts nothing and returns how long to wait.
  package func wait(from peer: Peer, at now: Timestamp) -> Duration? {
    guard let network = SourceNetwork(peer.address) else { return nil }
    let now = now.millisecondsSinceEpoch
    return state.withLock { state in
      guard hasRoom(for: network, &state, at: now) else { return .milliseconds(window) }
      let spent = min(max(state.spentUntil[network] ?? now, now), now + window) + step
      guard spent <= now + window else { return .milliseconds(spent - now - window) }
      state.spentUntil[network] = spent
      return nil
    }
  }

  package var countedNetworks: Int { state.withLock { $0.spentUntil.count } }

  /// Forgets networks that are back to nothing when there is no room, in at most one pass a second.
  private func hasRoom(for network: SourceNetwork, _ state: inout State, at now: Int64) -> Bool {
    if state.spentUntil[network] != nil || state.spentUntil.count < capacity { return true }
    guard now >= state.nextSweep || state.nextSweep - now > 1000 else { return false }
    state.nextSweep = now + 1000
    state.spentUntil = state.spentUntil.filter { $0.value > now }
    return state.spentUntil.count < capacity
  }
}
