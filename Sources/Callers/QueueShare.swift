/// Who has how much of what waits in a queue, so that the many of one source keep no other from its few: where more comes than
/// can be done, who has far less waiting than another is taken all the same, and does not wait behind all of it.
///
/// Plain data under its queue's lock. Each operation costs one look into a hash table and at most log n moves of integers.
package struct QueueShare: Sendable {
  private var share = FairShare<NetworkAddress?>(capacity: .max / 4)

  package init() {}

  /// - Parameter holder: see ``CallPlace/holder``; nil for work of the service's own.
  package mutating func entered(_ holder: NetworkAddress?) { _ = share.take(for: holder) }

  package mutating func left(_ holder: NetworkAddress?) { share.giveBack(of: holder) }

  /// The most that one has.
  package var largest: Int { share.largest?.held ?? 0 }

  /// Whether it is another's doing that too much waits here.
  package func hasLittle(_ holder: NetworkAddress?) -> Bool {
    Self.isLittle(share.held(by: holder), beside: largest)
  }

  /// Whether who has `count`, and wants one more, has far less than who has `most`. Of people that each have a call or two
  /// nobody has so much more.
  package static func isLittle(_ count: Int, beside most: Int) -> Bool { count < most / Limits.muchMore }
}
