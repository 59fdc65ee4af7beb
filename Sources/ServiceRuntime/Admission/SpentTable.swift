/// Until when each key of a ``RateLimiter`` has spent, in milliseconds, for as many keys as there are places.
///
/// A key that comes when all places are taken is served all the same. The keys that have spent least are forgotten,
/// and from then on whoever has no place is held to have spent as much as the most of those had. So a key never gets
/// more for having been forgotten, whoever drove it out and at what price; and who comes anew is refused only when
/// nearly all others have used up what they had. Source: Metwally, Agrawal and El Abbadi, "Efficient Computation of
/// Frequent and Top-k Elements in Data Streams" (2005), whose counts are never too low either.
///
/// Where that would leave less than half to who comes anew, somebody has very many keys. The network that most of
/// those are of counts as one then, with what the most of its keys had spent, until each of them would have earned that back,
/// and whatever is spent meanwhile: who comes of it then is held to have spent what it had, and earns that back by itself.
///
/// Plain data under its owner's lock. A look at all keys makes room for a 64th of as many.
struct SpentTable<Key: LimitedKey>: Sendable {
  /// A network that counts as one.
  private struct Crowd: Sendable {
    /// Until when it has spent.
    var until: Int64
    /// Until when it counts as one.
    let end: Int64
  }

  private let capacity: Int
  private var times: [Key: Int64] = [:]
  private var merged: [Key: Crowd] = [:]
  /// Of each key that has no place.
  private var forgotten = Int64.min
  private var nextSweep = Int64.min

  init(capacity: Int) {
    precondition(capacity > 0, "somebody is remembered")
    self.capacity = capacity
  }

  var count: Int { times.count }

  /// Until when a key has spent, or is held to have; `now` for one that is back to nothing.
  func until(_ key: Key, at now: Int64) -> Int64 {
    if network(of: key, at: now) != nil { return max(now, ofNetworks(key)) }
    return max(now, times[key] ?? max(forgotten, ofNetworks(key)))
  }

  /// Until when the networks of a key have spent that count as one, or did not long ago.
  private func ofNetworks(_ key: Key) -> Int64 {
    merged.isEmpty ? .min : key.wider.compactMap { merged[$0]?.until }.max() ?? .min
  }

  /// Keeps until when a key has spent, for which there is a place.
  mutating func set(_ key: Key, until time: Int64, at now: Int64) {
    if let network = network(of: key, at: now) {
      merged[network]?.until = time
    } else {
      times[key] = time
    }
  }

  /// Takes `step` back that a key has spent. What was counted for a network, or for a key that was forgotten, is earned
  /// back only: it may be another's.
  mutating func refund(_ key: Key, _ step: Int64, at now: Int64) {
    guard let time = times[key] else { return }
    times[key] = time - step > max(now, forgotten, ofNetworks(key)) ? time - step : nil
  }

  /// Makes sure that a key has a place, whoever loses one.
  mutating func makeRoom(for key: Key, at now: Int64, window: Int64) {
    // A clock set back leaves nobody spent by more than one window.
    forgotten = min(forgotten, now + window)
    guard !hasPlace(for: key, at: now) else { return }
    let nothing = max(now, forgotten)
    merged = merged.filter { max($0.value.until, $0.value.end) > now }
    times = times.filter { $0.value > nothing }
    let most = capacity - max(1, capacity / 8)
    guard times.count > most else { return }
    var ordered = Array(times.values)
    ordered.sort()
    let least = ordered[times.count - most - 1]
    let half = now + window / 2
    if least > half, merge(above: half, until: now + window) { return }
    // Says as much of those that have spent until then as their own times did.
    forgotten = min(least, now + window)
    times = times.filter { $0.value > least }
  }

  /// Whether a key has a place, or gets that of one which is back to nothing: at most one look at all keys a second.
  mutating func findPlace(for key: Key, at now: Int64) -> Bool {
    if hasPlace(for: key, at: now) { return true }
    guard now >= nextSweep || nextSweep - now > 1000 else { return false }
    nextSweep = now + 1000
    times = times.filter { $0.value > now }
    return times.count < capacity
  }

  private func hasPlace(for key: Key, at now: Int64) -> Bool {
    times.count < capacity || times[key] != nil || network(of: key, at: now) != nil
  }

  /// The widest network that a key is counted with; nil for one that is counted by itself.
  private func network(of key: Key, at now: Int64) -> Key? {
    guard !merged.isEmpty else { return nil }
    return key.wider.last(where: { merged[$0].map { $0.end > now } ?? false })
  }

  /// False where no network has enough of the keys that have spent until later than `half`.
  private mutating func merge(above half: Int64, until latest: Int64) -> Bool {
    guard merged.count < capacity, let network = crowded(above: half) else { return false }
    let members = times.filter { $0.key.wider.contains(network) }
    let until = members.values.max() ?? half
    merged[network] = Crowd(until: max(until, merged[network]?.until ?? until), end: min(until, latest))
    for key in members.keys { times[key] = nil }
    return true
  }

  /// The network that most of these keys are of, if it has a 64th of all places; a narrower one where that has half as many.
  private func crowded(above half: Int64) -> Key? {
    var crowds: [[Key: Int]] = []
    for (key, time) in times where time > half {
      for (level, network) in key.wider.enumerated() {
        if level == crowds.count { crowds.append([:]) }
        crowds[level][network, default: 0] += 1
      }
    }
    var chosen: (key: Key, value: Int)?
    for crowd in crowds.reversed() {
      guard let largest = crowd.max(by: { $0.value < $1.value }) else { continue }
      if 2 * largest.value >= chosen?.value ?? 0 { chosen = largest }
    }
    guard let chosen, chosen.value >= max(2, capacity / 64) else { return nil }
    return chosen.key
  }
}
