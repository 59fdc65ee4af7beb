/// How much may wait in a queue so that what is taken is served in time, whatever is asked for. Knows no queue and no clock.
///
///                  what came first has waited for `longestWait`
///        ┌───────┐ ───────────────────────────────────────────▶ ┌────────────┐
///        │ quiet │                                              │ overloaded │
///        └───────┘ ◀─────────────────────────────────────────── └────────────┘
///                  for `calm` there was always room
///
/// While it is quiet all may wait that comes, since a burst is honest and soon over. Whoever refuses by the age of the first
/// alone takes far too much as soon as that one is gone when there is ten times as much as can be served, and most of it is
/// served late. So an overloaded queue takes only as much as is served within `shortWait` at the pace of late.
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
  /// What is served in `shortWait`, as measured of late.
  private var pace = 0.0
  /// Since when what is served is counted for the next measure, how much that was, and whether there always was something.
  private var countedFrom: ContinuousClock.Instant?
  private var counted = 0
  private var wasBusy = true

  /// Whether nothing more is taken until something was served.
  package private(set) var isFull = false

  package init(_ bounds: Bounds) {
    self.bounds = bounds
  }

  /// What may wait while there is overload.
  private var room: Int { max(Int(pace), Self.smallestRoom) }

  /// However slow it is that serves: some wait, lest it rest while the next ones are on their way.
  private static let smallestRoom = 16

  /// Whether one more may wait where `waiting` do, the first of them since `first`.
  ///
  /// - Parameter hasPlace: the queue could keep one more.
  package mutating func admits(
    waiting: Int, first: ContinuousClock.Instant?, hasPlace: Bool, at now: ContinuousClock.Instant
  ) -> Bool {
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
    if isFull {
      lastFull = now
      let isOld = first.map { now - $0 > bounds.longestWait } ?? false
      isFull = isOld || left >= room
    }
    measure(done, hadRested, at: now)
  }

  private mutating func measure(_ done: Int, _ hadRested: Bool, at now: ContinuousClock.Instant) {
    counted += done
    guard let begin = countedFrom, !hadRested || now - begin < bounds.calm else {
      countedFrom = now
      counted = 0
      wasBusy = true
      return
    }
    if hadRested { wasBusy = false }
    if now - begin >= bounds.shortWait {
      let measured = Double(counted) * (bounds.shortWait / (now - begin))
      // Who rested could have served more.
      pace = wasBusy ? (pace + measured) / 2 : max(pace, measured)
      countedFrom = now
      counted = 0
      wasBusy = true
    }
  }
}
