/// Who has how much of what waits in a queue, so that the many of one source keep no other from its few: where more comes than
/// can be done, who has far less waiting than another is taken all the same, and does not wait behind all of it.
///
/// The line of the few is shared as well: no source has more of it than stays free, so that it takes as many sources as
/// there are places to keep a further one out.
///
/// Plain data under its queue's lock. Each operation costs a look or two into hash tables and at most log n moves of
/// integers.
package struct QueueShare: Sendable {
  private var many = FairShare<NetworkAddress?>(capacity: .max / 4)
  private var few = FairShare<NetworkAddress?>(capacity: Limits.placesOfFew)

  package init() {}

  /// - Parameter holder: see ``CallPlace/holder``; nil for work of the service's own.
  package mutating func entered(_ holder: NetworkAddress?) { _ = many.take(for: holder) }

  package mutating func left(_ holder: NetworkAddress?) { many.giveBack(of: holder) }

  /// Whether one more of a source is taken although there is no room: it is another's doing that too much waits here, and
  /// the line of the few has a place for it.
  package func takesOfFew(_ holder: NetworkAddress?) -> Bool {
    let held = many.held(by: holder) + few.held(by: holder)
    return Self.isLittle(held, beside: many.largest?.held ?? 0) && few.mayKeep(for: holder)
  }

  /// Takes a place in the line of the few, where ``takesOfFew(_:)``.
  package mutating func enterOfFew(_ holder: NetworkAddress?) -> Bool {
    takesOfFew(holder) && few.takeForKeeps(for: holder)
  }

  package mutating func leftOfFew(_ holder: NetworkAddress?) { few.giveBack(of: holder) }

  /// Whether who has `count`, and wants one more, has far less than who has `most`. Of people that each have a call or two
  /// nobody has so much more.
  package static func isLittle(_ count: Int, beside most: Int) -> Bool { count < most / Limits.muchMore }
}
