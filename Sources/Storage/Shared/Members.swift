import LatchkeyModel

/// An instance of a service, as the others of the same service see it.
package struct Member: Sendable, Hashable {
  /// Of 0 to 65,535, and nobody else's: while the member lives, and for ten minutes after.
  package let number: UInt16
  /// Sixteen random bytes: of one start of one process.
  package let boot: [UInt8]
  /// Where the others reach it: host and port of its gRPC interface.
  package let address: String
  /// It does not serve yet, may not serve for a while, or is about to end, and may still answer.
  package let isDraining: Bool

  package init(number: UInt16, boot: [UInt8], address: String, isDraining: Bool = false) {
    self.number = number
    self.boot = boot
    self.address = address
    self.isDraining = isDraining
  }
}

/// Which instances of a service live, in the rows that all of them have. An engine whose rows one process has needs none.
///
/// Times are the rows' own, whatever the clocks of instances say.
package protocol MemberRows: Sendable {
  /// Leases the lowest number that nobody has and that nobody had within ten minutes.
  func join(boot: [UInt8], address: String) async throws(StorageError) -> Member

  /// Says that a member lives. Nil: its number is another's by now.
  ///
  /// - Parameter clock: asked right before and right after the rows are asked for their time.
  func beat(_ member: Member, clock: any WallClock) async throws(StorageError) -> MemberBeat?

  /// It lives no more; its number waits like any other.
  func leave(_ member: Member) async throws(StorageError)
}

/// What a sign of life was answered.
package struct MemberBeat: Sendable {
  /// Whoever gave a sign within five seconds, in the order of their numbers, with the one who asks.
  package let live: [Member]
  /// Who answered, as in an ``EndingsMark``.
  package let server: String
  /// The rows' time.
  package let time: Timestamp
  /// The time of the one who asks: not later than the rows' was read, and not earlier.
  package let before: Timestamp
  package let after: Timestamp

  package init(live: [Member], server: String, time: Timestamp, before: Timestamp, after: Timestamp) {
    self.live = live
    self.server = server
    self.time = time
    self.before = before
    self.after = after
  }

  /// By how much, at least, the one who asks is ahead of the rows (or behind, below zero). Zero while that may be the time
  /// that it took to ask.
  package var lead: Duration {
    if before > time { return before - time }
    return after < time ? after - time : .zero
  }
}
