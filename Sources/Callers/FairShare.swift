/// Shares a bounded number of places between holders, so that the many of one never keep another from its few (max-min
/// fairness): who has little is served as long as somebody has more.
///
/// For tables of what callers make us keep, by the caller's ``NetworkAddress/source``, account or device:
///
///     switch share.take(for: source) {
///     case .granted: …
///     case .inPlaceOf(let largest): … end one of `largest`'s, and `share.giveBack(of: largest)` …
///     case .refused: throw …
///     }
///
/// What must not be taken back before its time, such as the memory of a proof that was used, is asked for by
/// ``takeForKeeps(_:for:)``, which always keeps something free for others.
///
/// Says what may be held and by whom; the things themselves are their table's. Memory follows the holders that have
/// something. Each operation costs one look into a hash table and at most log n moves of integers.
package struct FairShare<Holder: Hashable & Sendable>: Sendable {
  package enum Verdict: Equatable, Sendable {
    case granted
    /// Granted, and over the capacity until the named holder, who has the most, gives back as much.
    case inPlaceOf(Holder)
    /// Nothing was taken: nobody has so much more that it would have to make room.
    case refused
  }

  private struct Entry {
    var holder: Holder
    var held: Int
    /// Where `heap` has this entry.
    var place: Int
  }

  package let capacity: Int
  /// What all hold. Beyond the capacity only from a verdict of `inPlaceOf` to its giving back.
  package private(set) var total = 0

  /// Where `entries` has a holder. Only those are known that hold something.
  private var slots: [Holder: Int] = [:]
  private var entries: [Entry] = []
  /// Slots, as a heap: no entry holds more than the one above it.
  private var heap: [Int] = []

  package init(capacity: Int) {
    precondition(capacity > 0 && capacity <= .max / 4, "there is something to share, and sums of it are numbers")
    self.capacity = capacity
  }

  /// Who holds the most, and how much; nil while nobody holds anything.
  package var largest: (holder: Holder, held: Int)? {
    heap.first.map { (entries[$0].holder, entries[$0].held) }
  }

  /// How many hold something.
  package var holders: Int { heap.count }

  package func held(by holder: Holder) -> Int {
    slots[holder].map { entries[$0].held } ?? 0
  }

  /// Takes places that may be taken back: while there are some, and then in place of who has the most, if that is still
  /// no less than `holder` afterwards.
  package mutating func take(_ amount: Int = 1, for holder: Holder) -> Verdict {
    precondition(amount > 0, "something is taken")
    guard amount > capacity - total else {
      add(amount, to: holder)
      return .granted
    }
    guard let largest, largest.holder != holder, largest.held - amount - held(by: holder) >= amount else {
      return .refused
    }
    add(amount, to: holder)
    return .inPlaceOf(largest.holder)
  }

  /// Takes places that are kept for as long as the holder wants: no more than stay free afterwards.
  ///
  /// One holder alone comes to half of the capacity. Of n that take all they can, each comes to a part in n + 1, and as
  /// much stays free, half of which is for the next one to come. Source: Choudhury and Hahne, "Dynamic queue length
  /// thresholds for shared-memory packet switches" (1998), with a factor of one.
  package mutating func takeForKeeps(_ amount: Int = 1, for holder: Holder) -> Bool {
    precondition(amount > 0, "something is taken")
    guard mayKeep(amount, for: holder) else { return false }
    add(amount, to: holder)
    return true
  }

  /// Whether ``takeForKeeps(_:for:)`` would take them.
  package func mayKeep(_ amount: Int = 1, for holder: Holder) -> Bool {
    amount <= capacity - total && held(by: holder) <= capacity - total - amount - amount
  }

  /// Gives back what was taken; no more than that is ever given back.
  package mutating func giveBack(_ amount: Int = 1, of holder: Holder) {
    precondition(amount > 0, "something is given back")
    guard let slot = slots[holder] else { return }
    let returned = min(amount, entries[slot].held)
    total -= returned
    entries[slot].held -= returned
    sink(entries[slot].place)
    if entries[slot].held == 0 { forget(slot) }
  }

  private mutating func add(_ amount: Int, to holder: Holder) {
    total += amount
    if let slot = slots[holder] {
      entries[slot].held += amount
      return rise(entries[slot].place)
    }
    slots[holder] = entries.count
    entries.append(Entry(holder: holder, held: amount, place: heap.count))
    heap.append(entries.count - 1)
    rise(heap.count - 1)
  }

  /// Drops an entry that holds nothing. The last entry takes its slot.
  private mutating func forget(_ slot: Int) {
    slots[entries[slot].holder] = nil
    let place = entries[slot].place
    let lastInHeap = heap.removeLast()
    if place < heap.count {
      put(lastInHeap, at: place)
      rise(place)
      sink(entries[lastInHeap].place)
    }
    let last = entries.removeLast()
    guard slot < entries.count else { return }
    entries[slot] = last
    slots[last.holder] = slot
    heap[last.place] = slot
  }

  private mutating func put(_ slot: Int, at place: Int) {
    heap[place] = slot
    entries[slot].place = place
  }

  private mutating func rise(_ place: Int) {
    var place = place
    while place > 0, entries[heap[place]].held > entries[heap[(place - 1) / 2]].held {
      place = exchange(place, (place - 1) / 2)
    }
  }

  private mutating func sink(_ place: Int) {
    var place = place
    while true {
      var greatest = place
      for child in [2 * place + 1, 2 * place + 2]
      where child < heap.count && entries[heap[child]].held > entries[heap[greatest]].held {
        greatest = child
      }
      guard greatest != place else { return }
      place = exchange(place, greatest)
    }
  }

  /// Answers the second place.
  private mutating func exchange(_ one: Int, _ other: Int) -> Int {
    let slot = heap[one]
    put(heap[other], at: one)
    put(slot, at: other)
    return other
  }
}
