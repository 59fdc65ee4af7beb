internal import Callers
internal import NIOCore

/// How late what a connection sent counts as, since it was left unread.
struct UnreadWait {
  /// Whatever it asks for.
  var any = TimeAmount.zero
  /// What needs this queue, which had too much to do.
  var queued = TimeAmount.zero
  var queue: Backlog?

  init(any: TimeAmount = .zero) {
    self.any = any
  }

  init(queued: TimeAmount, for queue: Backlog) {
    self.queued = queued
    self.queue = queue
  }

  static func > (left: UnreadWait, right: UnreadWait) -> Bool { left.any > right.any || left.queued > right.queued }

  /// What is as late as both.
  func and(_ other: UnreadWait) -> UnreadWait {
    var both = queued < other.queued ? other : self
    both.any = max(any, other.any)
    return both
  }

  /// Whether a call through `gate` is late because of the queue that it waits for. Not one of a source that has far less there
  /// than another.
  func isLate(_ gate: CallGate, of source: NetworkAddress?, patience: TimeAmount) -> Bool {
    guard queued > patience, let queue, gate.queue === queue else { return false }
    return !queue.takes(source)
  }
}
