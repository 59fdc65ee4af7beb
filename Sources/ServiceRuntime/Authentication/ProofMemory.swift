internal import LatchkeyModel

/// The proofs of possession that were shown, so that none is good twice (RFC 9449 section 11.1).
///
/// They are held by key, and each key has a share. Where memory runs short the key that holds most gives its own up: of
/// that key no proof counts any more that is as old as those forgotten ones, so nothing that was forgotten is taken
/// again, and no other key notices.
struct ProofMemory {
  /// A key or a proof: the first half of a SHA-256.
  typealias Name = SIMD2<UInt64>

  struct Proof {
    let key: Name
    let name: Name
    /// The second in which it was made.
    let issued: Int64
  }

  /// What one key has shown.
  private struct Holding {
    /// Proofs made in this second or before do not count: they may have been shown.
    var floor: Int64 = .min
    var proofs: [(name: Name, issued: Int64)] = []
  }

  /// Keys by how much they hold, so that the largest is found without looking at all of them.
  private struct Generation {
    var holdings: [Name: Holding] = [:]
    /// The keys that hold 1, 2 to 3, 4 to 7 … proofs.
    var classes: [Set<Name>] = []
    var count = 0

    /// The largest holder but for a factor of two.
    var largest: (class: Int, key: Name)? {
      guard let index = classes.lastIndex(where: { !$0.isEmpty }), let key = classes[index].first else { return nil }
      return (index, key)
    }

    mutating func take(_ key: Name) -> Holding? {
      guard let holding = holdings.removeValue(forKey: key) else { return nil }
      count -= holding.proofs.count
      if let index = Self.classIndex(holding) { classes[index].remove(key) }
      return holding
    }

    mutating func put(_ holding: Holding, _ key: Name) {
      count += holding.proofs.count
      if let index = Self.classIndex(holding) {
        while classes.count <= index { classes.append([]) }
        classes[index].insert(key)
      }
      holdings[key] = holding
    }

    /// Nil for who holds nothing but a floor.
    private static func classIndex(_ holding: Holding) -> Int? {
      let count = holding.proofs.count
      return count > 0 ? Int.bitWidth - 1 - count.leadingZeroBitCount : nil
    }
  }

  enum Verdict: Equatable {
    case new
    /// Shown before, or so old that it may have been.
    case known
    /// The key has made more proofs in one second than it may.
    case tooMany
    /// There is no room for another key: every one that is held has a share as small as this one's would be.
    case full
  }

  private let capacity: Int
  private let share: Int
  private var young = Generation()
  /// Who was not heard of since the last turn. One turn later nothing of it can be shown any more.
  private var old = Generation()
  private var turned: Timestamp?

  /// - Parameters:
  ///   - capacity: proofs of all keys together.
  ///   - share: proofs of one key.
  init(capacity: Int, share: Int) {
    self.capacity = capacity
    self.share = max(1, min(share, capacity / 4))
  }

  var count: Int { young.count + old.count }

  /// Whether the proof may count, without remembering it.
  mutating func verdict(_ proof: Proof, at now: Timestamp) -> Verdict {
    turn(now)
    guard let holding = young.holdings[proof.key] ?? old.holdings[proof.key] else {
      return young.holdings.count + old.holdings.count < capacity ? .new : .full
    }
    if proof.issued <= holding.floor || holding.proofs.contains(where: { $0.name == proof.name }) { return .known }
    guard holding.proofs.count >= share else { return .new }
    // The older ones make room, unless all are as new as this one.
    return holding.proofs.contains { $0.issued < proof.issued } ? .new : .tooMany
  }

  /// Remembers a proof that may count.
  mutating func insert(_ proof: Proof, at now: Timestamp) {
    turn(now)
    var holding = young.take(proof.key) ?? old.take(proof.key) ?? Holding()
    holding.proofs.append((proof.name, proof.issued))
    if holding.proofs.count > share { Self.forgetOlderHalf(&holding) }
    young.put(holding, proof.key)
    while count > capacity, forgetLargest() {}
  }

  private static func forgetOlderHalf(_ holding: inout Holding) {
    let times = holding.proofs.map(\.issued).sorted()
    // The newest second stays whole where an older one can go.
    let newest = times[times.count - 1]
    let floor = min(times[times.count / 2], times[0] < newest ? newest - 1 : newest)
    holding.floor = max(holding.floor, floor)
    holding.proofs = holding.proofs.filter { $0.issued > floor }
  }

  /// False where nobody holds anything.
  private mutating func forgetLargest() -> Bool {
    let ofYoung = (young.largest?.class ?? -1) > (old.largest?.class ?? -1)
    guard let key = ofYoung ? young.largest?.key : old.largest?.key,
      var holding = ofYoung ? young.take(key) : old.take(key)
    else { return false }
    holding.floor = max(holding.floor, holding.proofs.map(\.issued).max() ?? holding.floor)
    holding.proofs = []
    if ofYoung { young.put(holding, key) } else { old.put(holding, key) }
    return true
  }

  /// A holding outlives the last moment at which anything in it could be shown.
  private mutating func turn(_ now: Timestamp) {
    let last = turned ?? now
    turned = last
    // From the earliest to the latest moment at which one proof is accepted. With the clock set back by as much, what
    // was remembered is of times that are not accepted now; waiting for the clock to come up again would fill memory.
    let span = Limits.proofAge * 2
    guard now >= last + span || now < last - span else { return }
    old = young
    young = Generation()
    turned = now
  }
}
