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
    guard !merged.isEmpty else { return .min }
    return key.networks.reduce(.min) { max($0, merged[$1]?.until ?? .min) }
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
    var spent: [Int64] = []
    spent.reserveCapacity(times.count)
    for time in times.values where time > nothing { spent.append(time) }
    let most = capacity - max(1, capacity / 8)
    guard spent.count > most else { return drop { _, time in time <= nothing } }
    let least = Self.level(of: spent, leaving: most)
    let half = now + window / 2
    if least > half, merge(above: half, until: now + window, nothing: nothing) { return }
    // Says as much of those that have spent until then as their own times did.
    forgotten = min(least, now + window)
    drop { _, time in time <= least }
  }

  /// The lowest time that no more than `most` of these are above. What is between the first and the last is parted in
  /// 256, and the part that it is in again: an hour in milliseconds takes three looks, a tenth of what sorting takes.
  private static func level(of times: [Int64], leaving most: Int) -> Int64 {
    var low = times.min() ?? .min
    var high = times.max() ?? low
    var above = 0
    while low < high {
      let width = (high - low) / 256 + 1
      var counts = [Int](repeating: 0, count: 256)
      for time in times where low <= time && time <= high { counts[Int((time - low) / width)] += 1 }
      var part = 255
      while above + counts[part] <= most {
        above += counts[part]
        part -= 1
      }
      low += Int64(part) * width
      high = min(high, low + width - 1)
    }
    return low
  }

  /// Drops keys while all others wait. The lesser part is taken out one by one, in the order in which it lies: a table
  /// that is built anew has each key that stays somewhere else in memory, which takes several times as long for many.
  private mutating func drop(_ isGone: (Key, Int64) -> Bool) {
    var gone: [Key] = []
    gone.reserveCapacity(times.count / 2)
    for (key, time) in times where isGone(key, time) {
      guard gone.count < times.count / 2 else {
        times = times.filter { !isGone($0.key, $0.value) }
        return
      }
      gone.append(key)
    }
    for key in gone { times[key] = nil }
  }

  /// Whether a key has a place, or gets that of one which is back to nothing: at most one look at all keys a second.
  mutating func findPlace(for key: Key, at now: Int64) -> Bool {
    if hasPlace(for: key, at: now) { return true }
    guard now >= nextSweep || nextSweep - now > 1000 else { return false }
    nextSweep = now + 1000
    drop { _, time in time <= now }
    return times.count < capacity
  }

  private func hasPlace(for key: Key, at now: Int64) -> Bool {
    times.count < capacity || times[key] != nil || network(of: key, at: now) != nil
  }

  /// The widest network that a key is counted with; nil for one that is counted by itself.
  private func network(of key: Key, at now: Int64) -> Key? {
    guard !merged.isEmpty else { return nil }
    return key.networks.reduce(nil) { widest, network in
      merged[network].map { $0.end > now } ?? false ? network : widest
    }
  }

  /// False where no network has enough of the keys that have spent until later than `half`.
  private mutating func merge(above half: Int64, until latest: Int64, nothing: Int64) -> Bool {
    guard merged.count < capacity, let network = crowded(above: half) else { return false }
    var (count, until) = (0, half)
    for (key, time) in times where time > half && key.isPart(of: network) {
      count += 1
      until = max(until, time)
    }
    guard count >= max(2, capacity / 64) else { return false }
    merged[network] = Crowd(until: max(until, merged[network]?.until ?? until), end: min(until, latest))
    drop { key, time in time <= nothing || key.isPart(of: network) }
    return true
  }

  /// The network that most of these keys are of; a narrower one where that has half as many.
  ///
  /// Looked for in a sample of about a thousand keys, as counting the networks of all takes too long while all wait.
  /// Of one that has a 64th of all keys, the least that counts, sixteen or so are in it, and few of any that has much
  /// less; who asks counts exactly. The table's order is that of hashes with a secret seed, so nobody chooses who is in
  /// the sample. Of a table of up to two thousand keys it has all.
  private func crowded(above half: Int64) -> Key? {
    let stride = max(1, times.count / 1024)
    var crowds: [[Key: Int]] = []
    for (place, (key, time)) in times.enumerated() where place % stride == 0 && time > half {
      for (level, network) in key.networks.enumerated() {
        if level == crowds.count { crowds.append([:]) }
        crowds[level][network, default: 0] += 1
      }
    }
    var chosen: (key: Key, value: Int)?
    for crowd in crowds.reversed() {
      guard let largest = crowd.max(by: { $0.value < $1.value }) else { continue }
      if 2 * largest.value >= chosen?.value ?? 0 { chosen = largest }
    }
    return chosen?.key
  }
}
