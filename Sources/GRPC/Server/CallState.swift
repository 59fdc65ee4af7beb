/// Where a call on the server stands, whatever carries it.
///
/// ```
/// receiving ──request whole──▶ running ──returned──▶ over
/// opened ────first message───▶  │   ▲                 ▲
///     │                       parks │ woken           │
///     │                         ▼   │                 │
///     │                        parked                 │
///     └── refused, late, shed or gone: from anywhere ─┘
/// ```
///
/// A value: each event says what is to be done about it, and nothing is done here. A handler may outlast its call.
package struct CallState: Equatable, Sendable {
  package enum Phase: Equatable, Sendable {
    /// The handler waits for the one request message of a client that does not stream.
    case receiving(hasRequest: Bool)
    /// The handler waits for the first message of a client that streams, or for its end.
    case opened
    case running
    /// Nothing runs until the call is woken.
    case parked
    /// The status is known.
    case over
  }

  /// What is to be done about a message of the request.
  package enum MessageAction: Equatable, Sendable {
    /// It is the request.
    case keep
    /// It is the next one of a stream.
    case deliver
    case fail(Violation)
    /// Nobody reads it.
    case ignore
  }

  /// What is to be done about the request's end.
  package enum EndAction: Equatable, Sendable {
    case run
    /// The stream of messages is over.
    case finishMessages
    case fail(Violation)
    case ignore
  }

  /// What is to be done when the handler has returned.
  package enum ReturnAction: Equatable, Sendable {
    case answer
    case park
    case ignore
  }

  /// What a request did that gRPC does not allow. Source: gRPC over HTTP/2, and its "Status codes".
  package enum Violation: Equatable, Sendable {
    case notOneMessage
    case endsWithinMessage

    package var error: RPCError {
      switch self {
      case .notOneMessage: RPCError(.unimplemented, "the method takes one request message")
      case .endsWithinMessage: RPCError(.internal, "the request ends within a message")
      }
    }
  }

  package private(set) var phase = Phase.over
  /// Whether the handler has not returned yet, be the call over or not.
  package private(set) var isHandlerRunning = false

  package init() {}

  package var isOver: Bool { phase == .over }

  /// Whether the request may still bring something.
  package var isTakingBytes: Bool {
    switch phase {
    case .receiving, .opened, .running: true
    case .parked, .over: false
    }
  }

  /// A call has come.
  package mutating func begin(streams: Bool = false) {
    phase = streams ? .opened : .receiving(hasRequest: false)
    isHandlerRunning = false
  }

  /// The handler begins: when the request is whole, or the first message of a client that streams.
  package mutating func run() {
    phase = .running
    isHandlerRunning = true
  }

  package mutating func received() -> MessageAction {
    switch phase {
    case .receiving(hasRequest: false):
      phase = .receiving(hasRequest: true)
      return .keep
    case .receiving(hasRequest: true): return .fail(.notOneMessage)
    case .opened, .running: return .deliver
    case .parked, .over: return .ignore
    }
  }

  /// - Parameter isBetweenMessages: nothing of a message is missing.
  package func ended(isBetweenMessages: Bool) -> EndAction {
    switch phase {
    case .receiving, .opened, .running: break
    case .parked, .over: return .ignore
    }
    guard isBetweenMessages else { return .fail(.endsWithinMessage) }
    switch phase {
    case .receiving(let hasRequest): return hasRequest ? .run : .fail(.notOneMessage)
    default: return .finishMessages
    }
  }

  /// - Parameter parks: the handler went well and left something that waits.
  package mutating func returned(parks: Bool) -> ReturnAction {
    isHandlerRunning = false
    guard phase == .running else { return .ignore }
    guard parks else { return .answer }
    phase = .parked
    return .park
  }

  /// Whether there is a turn to take.
  package mutating func woken() -> Bool {
    guard phase == .parked else { return false }
    run()
    return true
  }

  /// The status is known. False: it was before.
  package mutating func end() -> Bool {
    guard phase != .over else { return false }
    phase = .over
    return true
  }
}
