/// The `slow_down` rule of RFC 8628 section 3.5, for one session (S14):
/// the first poll is free; only an undecided session throttles; a rejected poll moves no clock but makes the interval
/// 5 s longer, up to 60 s; and whatever changed the session makes the next poll free, since there is news to fetch.
///
/// A long poll counts from its arrival: the time it waited is time the client did not poll.
package struct PollClock: Sendable, Equatable {
  /// When the last accepted poll arrived, in milliseconds since the epoch; `Int64.min` when the next poll is free.
  private var lastArrival: Int64 = .min
  private var penaltySeconds: UInt8 = 0

  package enum Decision: Sendable, Equatable {
    /// Answer; the next poll may come after `interval`.
    case accept(interval: Duration)
    /// `slow_down`; a poll is welcome after `retryAfter`, and then every `interval`.
    case slowDown(retryAfter: Duration, interval: Duration)
  }

  package init() {}

  /// A poll of an undecided session arrives. `base` is the interval that this kind of poll starts from.
  package mutating func poll(at now: Timestamp, base: Duration) -> Decision {
    let arrival = now.millisecondsSinceEpoch
    let interval = interval(base: base)
    // A clock set backwards must not lock the poller out: an arrival in the future is no arrival.
    guard lastArrival != .min, lastArrival <= arrival, arrival - lastArrival < interval.wholeMilliseconds else {
      lastArrival = arrival
      return .accept(interval: interval)
    }
    penaltySeconds = UInt8(min(Int64(penaltySeconds) + QRLimits.slowDownStep.components.seconds, 60))
    let longer = self.interval(base: base)
    return .slowDown(
      retryAfter: .milliseconds(lastArrival + longer.wholeMilliseconds - arrival),
      interval: longer
    )
  }

  /// The session changed: the next poll has something to fetch.
  package mutating func sessionChanged() {
    lastArrival = .min
  }

  package func interval(base: Duration) -> Duration {
    // An installation that switched throttling off keeps it off.
    guard base > .zero else { return .zero }
    return min(base + .seconds(Int64(penaltySeconds)), max(base, QRLimits.maximumInterval))
  }
}
