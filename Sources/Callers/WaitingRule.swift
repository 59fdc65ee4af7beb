/// How much may wait in a queue so that what is taken is served in time, whatever is asked for. Knows no queue and no clock.
///
///                  what came first has waited for `longestWait`,
///                  or for half of it all the time for twice as long
///        ┌───────┐ ───────────────────────────────────────────▶ ┌────────────┐
///        │ quiet │                                              │ overloaded │
///        └───────┘ ◀─────────────────────────────────────────── └────────────┘
///                  for `calm` there was always room
///
/// While it is quiet all may wait that comes, since a burst is honest and soon over. Whoever refuses by the age of the first
/// alone takes far too much as soon as that one is gone when there is ten times as much as can be served, and most of it is
/// served late. So an overloaded queue takes only as much as is served within `shortWait` at the pace of late, or in the time
/// that the last ones took, if that is longer: what is served together, as by a commit, has to be there together.
package struct WaitingRule {
  package struct Bounds: Sendable {
    /// Nothing more is taken while what came first has waited for longer.
    package var longestWait: Duration
    /// What may wait while there is overload, as time to serve it.
    package var shortWait: Duration
    /// How long there must have been room before there is no overload any more.
    package var calm: Duration

    package init(longestWait: Duration, shortWait: Duration, calm: Duration) {
      precondition(shortWait < longestWait && longestWait < calm, "each bound is there to steady the one before it")
      self.longestWait = longestWait
      self.shortWait = shortWait
      self.calm = calm
    }
  }

  private let bounds: Bounds
  /// When there was last no room; nil while it is quiet.
  private var lastFull: ContinuousClock.Instant?
  /// What is served in `shortWait` as measured of late, or together, and a little more, where that takes longer.
  private var pace = 0.0
  /// Since when what is served is counted for the next measure, how much that was, and whether there always was something.
  private var countedFrom: ContinuousClock.Instant?
  private var counted = 0
  private var wasBusy = true
  /// When some had last been served, and the longest time that others took after that.
  private var lastDone: ContinuousClock.Instant?
  private var slowest = Duration.zero

  /// When what came first had last waited for less than half of what it may.
  private var lastShort: ContinuousClock.Instant?

  /// Whether nothing more is taken until something was served.
  package private(set) var isFull = false

  package init(_ bounds: Bounds) {
    self.bounds = bounds
  }

  /// What may wait while there is overload.
  private var room: Int { max(Int(pace), Self.smallestRoom) }

  /// However slow it is that serves: some wait, lest it rest while the next ones are on their way.
  private static let smallestRoom = 16

  private static let growth = 1.25

  /// Whether one more may wait where `waiting` do, the first of them since `first`.
  ///
  /// - Parameter hasPlace: the queue could keep one more.
  package mutating func admits(
    waiting: Int, first: ContinuousClock.Instant?, hasPlace: Bool, at now: ContinuousClock.Instant
  ) -> Bool {
    if first == nil { lastShort = now }
    let isOld = first.map { now - $0 > bounds.longestWait } ?? false
    if isOld || !hasPlace || (lastFull != nil && waiting >= room) {
      lastFull = now
      isFull = true
    } else if let last = lastFull, now - last > bounds.calm {
      lastFull = nil
    }
    return !isFull
  }

  /// Some were taken out, and `left` still wait, the first of them since `first`.
  ///
  /// - Parameters:
  ///   - done: how many of those that were taken before have been served since the last call. Those that were dropped,
  ///     such as for their deadlines, say nothing of the pace.
  ///   - hadRested: there was nothing to serve just before.
  package mutating func taken(
    done: Int, hadRested: Bool, left: Int, first: ContinuousClock.Instant?, at now: ContinuousClock.Instant
  ) {
    let age = first.map { now - $0 } ?? .zero
    if age < bounds.longestWait / 2 { lastShort = now }
    let stands = lastShort.map { now - $0 > bounds.longestWait * 2 } ?? false
    if isFull || stands {
      lastFull = now
      isFull = age > bounds.longestWait || left >= room
    }
    measure(done, hadRested, at: now)
  }

  private mutating func measure(_ done: Int, _ hadRested: Bool, at now: ContinuousClock.Instant) {
    counted += done
    if done > 0 || hadRested {
      if let last = lastDone, !hadRested { slowest = max(slowest, now - last) }
      lastDone = now
    }
    guard let begin = countedFrom, !hadRested || now - begin < bounds.calm else {
      countAgain(from: now)
      return
    }
    if hadRested { wasBusy = false }
    if now - begin >= bounds.shortWait {
      // Of what is served together no more than what was there is, so that it grows only if more may wait.
      let together = slowest > bounds.shortWait ? slowest * Self.growth : bounds.shortWait
      let measured = Double(counted) * min(together / (now - begin), Self.growth)
      // Who rested could have served more.
      pace = wasBusy && pace > 0 ? (pace + measured) / 2 : max(pace, measured)
      countAgain(from: now)
    }
  }

  private mutating func countAgain(from now: ContinuousClock.Instant) {
    countedFrom = now
    counted = 0
    wasBusy = true
    slowest = .zero
  }
}
