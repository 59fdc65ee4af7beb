/// Where a connection of HTTP/1.1 is with the request that it works on, of which there is one at a time.
///
///     idle ──▶ awaited ──▶ begun ──▶ idle      an answer's head, its body, its end
///       └─────────┴──────────┴────▶ over      the connection is ending, or has ended
///
/// Each event says whether it may be: what comes out of this order must not be written, whatever led to it.
struct PageExchange {
  private enum Phase {
    case idle
    case awaited
    case begun
    case over
  }

  private var phase = Phase.idle

  /// Nobody waits for an answer, and requests may come.
  var isIdle: Bool { phase == .idle }

  /// Nothing is read any more, and nothing written.
  var isOver: Bool { phase == .over }

  /// A request came that wants an answer.
  mutating func receivedHead() -> Bool {
    guard phase == .idle else { return false }
    phase = .awaited
    return true
  }

  mutating func sendHead() -> Bool {
    guard phase == .awaited else { return false }
    phase = .begun
    return true
  }

  var maySendBody: Bool { phase == .begun }

  /// - Parameter isLast: no further request is answered.
  mutating func sendEnd(isLast: Bool) -> Bool {
    guard phase == .begun else { return false }
    phase = isLast ? .over : .idle
    return true
  }

  /// The connection has ended, or has to. False when that was known.
  mutating func end() -> Bool {
    guard phase != .over else { return false }
    phase = .over
    return true
  }
}
