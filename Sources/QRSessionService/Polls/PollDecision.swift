import LatchkeyModel

/// What a poll gets.
enum PollDecision: Sendable, Equatable {
  case unknown
  /// The session is as it was issued, and the poll does not wait; poll again after `interval`.
  case untouched(interval: Duration)
  /// Answer now; poll again after `interval`.
  case answer(PollView, interval: Duration)
  /// Nothing new: the poll may wait for a version after this one.
  case wait(PollView, interval: Duration)
  /// RFC 8628 `slow_down`.
  case slowDown(retryAfter: Duration, interval: Duration)
}
