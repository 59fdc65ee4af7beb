/// The most that each holder may have so that all of it fits, for who counts without a lock and only now and then looks
/// at all holders.
package enum FairLevel {
  /// The greatest level at which the parts of the holdings below it fit into the capacity together; `Int.max` while all
  /// of them fit. At least 1, however many hold something: nobody's first is refused.
  ///
  /// Costs a sort of the holdings.
  package static func level(of holdings: some Sequence<Int>, capacity: Int) -> Int {
    precondition(capacity > 0, "there is something to share")
    let sorted = holdings.sorted()
    var left = capacity
    for (index, held) in sorted.enumerated() {
      let part = left / (sorted.count - index)
      guard held <= part else { return max(part, 1) }
      left -= held
    }
    return .max
  }
}
