import CPrefetch
import LatchkeyModel

/// Entry numbers by the secret's hash: open addressing, linear probing, at most half full.
///
/// A cell holds a number in its low bits and bits of the hash, a tag, in the rest: of the cells that a search passes,
/// it looks at the entry of the one it looks for, and of one in 4,096 of the others.
struct PollIndex {
  private static let numberBits = 20
  private static let numberMask: UInt32 = 1 << numberBits - 1
  private static let empty = UInt32.max

  /// Entries that one index can number: the last number's cells could look empty.
  static let capacity = Int(numberMask)

  /// A power of two.
  private var cells = [UInt32](repeating: empty, count: 16)

  func find(_ secret: Digest256, secretOf: (UInt32) -> Digest256) -> UInt32? {
    let tag = Self.tag(secret)
    var place = home(secret)
    while cells[place] != Self.empty {
      let cell = cells[place]
      if cell & ~Self.numberMask == tag, secretOf(cell & Self.numberMask) == secret { return cell & Self.numberMask }
      place = (place + 1) & (cells.count - 1)
    }
    return nil
  }

  /// What `find` will look at first, without looking at it. Right but for once in 4,096 times.
  func candidate(_ secret: Digest256) -> UInt32? {
    let tag = Self.tag(secret)
    var place = home(secret)
    while cells[place] != Self.empty {
      if cells[place] & ~Self.numberMask == tag { return cells[place] & Self.numberMask }
      place = (place + 1) & (cells.count - 1)
    }
    return nil
  }

  /// Has the processor fetch the cells where a search begins.
  func fetch(_ secret: Digest256) {
    let home = home(secret)
    // Within the cells; nothing is read.
    unsafe cells.withUnsafeBufferPointer { cells in
      unsafe latchkey_prefetch(cells.baseAddress.map { unsafe $0 + home })
    }
  }

  /// Adds what is not in it; `count` is how many there are then.
  mutating func insert(_ number: UInt32, _ secret: Digest256, count: Int, secretOf: (UInt32) -> Digest256) {
    precondition(number < Self.capacity, "a shard has fewer than \(Self.capacity) sessions")
    if count * 2 > cells.count { grow(secretOf) }
    add(number, secret)
  }

  /// Removes what is in it.
  mutating func remove(_ number: UInt32, _ secret: Digest256, secretOf: (UInt32) -> Digest256) {
    let cell = Self.tag(secret) | number
    var hole = home(secret)
    while cells[hole] != cell { hole = (hole + 1) & (cells.count - 1) }
    // Moves later entries of the run into the hole wherever a search for them would pass it.
    var place = (hole + 1) & (cells.count - 1)
    while cells[place] != Self.empty {
      let home = home(secretOf(cells[place] & Self.numberMask))
      if (place - home) & (cells.count - 1) >= (place - hole) & (cells.count - 1) {
        cells[hole] = cells[place]
        hole = place
      }
      place = (place + 1) & (cells.count - 1)
    }
    cells[hole] = Self.empty
  }

  // Shards are chosen by the last word, homes by the first, tags by the second. All are bits of a SHA-256 of a secret
  // that we drew: nobody can aim them.
  private func home(_ secret: Digest256) -> Int {
    Int(truncatingIfNeeded: secret.words.0) & (cells.count - 1)
  }

  private static func tag(_ secret: Digest256) -> UInt32 {
    UInt32(truncatingIfNeeded: secret.words.1) & ~numberMask
  }

  private mutating func add(_ number: UInt32, _ secret: Digest256) {
    var place = home(secret)
    while cells[place] != Self.empty { place = (place + 1) & (cells.count - 1) }
    cells[place] = Self.tag(secret) | number
  }

  private mutating func grow(_ secretOf: (UInt32) -> Digest256) {
    let old = cells
    cells = [UInt32](repeating: Self.empty, count: old.count * 2)
    for cell in old where cell != Self.empty {
      let number = cell & Self.numberMask
      add(number, secretOf(number))
    }
  }
}
