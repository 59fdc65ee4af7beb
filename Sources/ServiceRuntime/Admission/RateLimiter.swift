internal import Callers
package import LatchkeyModel
internal import Synchronization

/// Allows each key `rate.count` events at once, earned back evenly over `rate.window`; of several instances each allows its
/// part of them.
///
/// One number a key (the generic cell rate algorithm): the time at which the key would be back to nothing spent. Keys
/// that are back to nothing say nothing and are dropped, so memory follows who is active. ``SpentTable`` says what
/// becomes of those that come when `capacity` keys are active: they are served, and no key gets more than its rate.
///
/// What other modules call is compiled for each kind of key that many come with: what is compiled for any kind takes
/// five times as long, while all others wait.
package final class RateLimiter<Key: LimitedKey>: Sendable {
  private let rate: Rate
  private let instances: InstanceCount
  private let state: Mutex<SpentTable<Key>>

  package init(_ rate: Rate, among instances: InstanceCount = .one, capacity: Int = Limits.limitedKeys) {
    self.rate = rate
    self.instances = instances
    state = Mutex(SpentTable(capacity: capacity))
  }

  /// What one event takes, and all that are allowed at once.
  private var times: (step: Int64, window: Int64) {
    let count = Int64(instances.part(of: rate.count))
    let step = max(1, rate.window.wholeMilliseconds / count)
    return (step, step * count)
  }

  /// Spends one event of `key`. Returns how long to wait instead when there is none left; nothing is spent then.
  @specialized(where Key == NetworkAddress)
  @specialized(where Key == SubjectID)
  @specialized(where Key == String)
  package func spend(_ key: Key, at now: Timestamp) -> Duration? {
    let now = now.millisecondsSinceEpoch
    let (step, window) = times
    return state.withLock { state in
      state.makeRoom(for: key, at: now, window: window)
      // A clock set back leaves keys spent into the future, by no more than one window.
      let spent = min(state.until(key, at: now), now + window)
      guard spent + step <= now + window else { return .milliseconds(spent + step - window - now) }
      state.set(key, until: spent + step, at: now)
      return nil
    }
  }

  /// Counts an event whether it is allowed or not. Returns how many events above its rate the key is, of the rate of all
  /// instances, so that it does not get less for who asks one of many; 1 for one that cannot be remembered.
  @specialized(where Key == NetworkAddress)
  @specialized(where Key == SubjectID)
  @specialized(where Key == String)
  package func excess(_ key: Key, at now: Timestamp) -> Int64 {
    let now = now.millisecondsSinceEpoch
    let (step, window) = times
    return state.withLock { state in
      guard state.findPlace(for: key, at: now) else { return 1 }
      let spent = state.until(key, at: now) + step
      // What is owed is bounded, so that a key is not held above its rate for long after a flood ends.
      state.set(key, until: min(spent, now + 2 * window), at: now)
      let whole = max(1, rate.window.wholeMilliseconds / Int64(rate.count))
      return max(0, (spent - now - window + whole - 1) / whole)
    }
  }

  /// Gives back an event that turned out not to count.
  @specialized(where Key == NetworkAddress)
  @specialized(where Key == SubjectID)
  @specialized(where Key == String)
  package func refund(_ key: Key, at now: Timestamp) {
    let step = times.step
    state.withLock { state in state.refund(key, step, at: now.millisecondsSinceEpoch) }
  }

  /// No more than the capacity. Networks that count as one are none of them; of those there are no more either.
  package var rememberedKeys: Int { state.withLock { $0.count } }
}
