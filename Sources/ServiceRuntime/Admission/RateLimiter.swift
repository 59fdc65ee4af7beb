package import LatchkeyModel
internal import Synchronization

/// Allows each key `rate.count` events at once, earned back evenly over `rate.window`; of several instances each allows its
/// part of them.
///
/// One number a key (the generic cell rate algorithm): the time at which the key would be back to nothing spent. Keys
/// that are back to nothing say nothing and are dropped, so memory follows who is active; past `capacity` active keys,
/// further ones are refused rather than remembered.
package final class RateLimiter<Key: Hashable & Sendable>: Sendable {
  private struct State {
    var spentUntil: [Key: Int64] = [:]
    var nextSweep: Int64 = .min
  }

  private let rate: Rate
  private let instances: InstanceCount
  private let capacity: Int
  private let state = Mutex(State())

  package init(_ rate: Rate, among instances: InstanceCount = .one, capacity: Int = Limits.limitedKeys) {
    precondition(capacity > 0, "somebody is remembered")
    self.rate = rate
    self.instances = instances
    self.capacity = capacity
  }

  /// What one event takes, and all that are allowed at once.
  private var times: (step: Int64, window: Int64) {
    let count = Int64(instances.part(of: rate.count))
    let step = max(1, rate.window.wholeMilliseconds / count)
    return (step, step * count)
  }

  /// Spends one event of `key`. Returns how long to wait instead when there is none left; nothing is spent then.
  package func spend(_ key: Key, at now: Timestamp) -> Duration? {
    let now = now.millisecondsSinceEpoch
    let (step, window) = times
    return state.withLock { state in
      // A clock set back leaves keys spent into the future, by no more than one window.
      let spent = min(max(state.spentUntil[key] ?? now, now), now + window)
      guard spent + step <= now + window else { return .milliseconds(spent + step - window - now) }
      if state.spentUntil[key] == nil, state.spentUntil.count >= capacity {
        guard makeRoom(&state, at: now) else { return rate.window }
      }
      state.spentUntil[key] = spent + step
      return nil
    }
  }

  /// Counts an event whether it is allowed or not. Returns how many events above its rate the key is, of the rate of all
  /// instances, so that it does not get less for who asks one of many; 1 for one that cannot be remembered.
  package func excess(_ key: Key, at now: Timestamp) -> Int64 {
    let now = now.millisecondsSinceEpoch
    let (step, window) = times
    return state.withLock { state in
      if state.spentUntil[key] == nil, state.spentUntil.count >= capacity, !makeRoom(&state, at: now) { return 1 }
      let spent = max(state.spentUntil[key] ?? now, now) + step
      // What is owed is bounded, so that a key is not held above its rate for long after a flood ends.
      state.spentUntil[key] = min(spent, now + 2 * window)
      let whole = max(1, rate.window.wholeMilliseconds / Int64(rate.count))
      return max(0, (spent - now - window + whole - 1) / whole)
    }
  }

  /// Gives back an event that turned out not to count.
  package func refund(_ key: Key, at now: Timestamp) {
    let step = times.step
    state.withLock { state in
      guard let spent = state.spentUntil[key] else { return }
      state.spentUntil[key] = spent - step > now.millisecondsSinceEpoch ? spent - step : nil
    }
  }

  package var rememberedKeys: Int { state.withLock { $0.spentUntil.count } }

  /// Drops the keys that are back to nothing: at most one pass over all of them a second.
  private func makeRoom(_ state: inout State, at now: Int64) -> Bool {
    guard now >= state.nextSweep || state.nextSweep - now > 1000 else { return false }
    state.nextSweep = now + 1000
    state.spentUntil = state.spentUntil.filter { $0.value > now }
    return state.spentUntil.count < capacity
  }
}
