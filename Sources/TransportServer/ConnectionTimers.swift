internal import NIOCore

/// The moments at which something happens to a connection, one of each kind.
struct ConnectionTimers {
  enum Event: Int, CaseIterable {
    case settings
    case headerBlock
    /// A frame has begun and not ended.
    case frame
    case idle
    case age
    case drainRoundTrip
    case drainGrace
    case stalledWrite
    /// Streams wait for windows of the peer's.
    case blockedStreams
    /// A peer that was too fast has waited.
    case pause
    case closing
    /// Streams have gone, and what they used is kept for the next ones.
    case spares
    /// The peer has been silent for a while, or has not answered when it was asked.
    case keepalive
    case keepaliveAnswer
  }

  private var deadlines: [NIODeadline?] = Array(repeating: nil, count: Event.allCases.count)

  subscript(event: Event) -> NIODeadline? {
    get { deadlines[event.rawValue] }
    set { deadlines[event.rawValue] = newValue }
  }

  var earliest: NIODeadline? {
    deadlines.compactMap { $0 }.min()
  }

  /// The events whose time has come; they are unset.
  mutating func takeDue(_ now: NIODeadline) -> [Event] {
    Event.allCases.filter { event in
      guard let deadline = self[event], deadline <= now else { return false }
      self[event] = nil
      return true
    }
  }
}
