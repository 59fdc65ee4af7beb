internal import Callers
internal import NIOCore

/// With whom something shares its turns on an event loop.
enum TurnSource: Hashable, Sendable {
  /// A source, or all of which none is known.
  case address(NetworkAddress?)
  /// A proxy's connection, as long as nobody knows for whom it asks.
  case connection(ObjectIdentifier)
  /// A connection on which a proxy carries the requests of many at a time.
  case shared(ObjectIdentifier)

  var isShared: Bool { if case .shared = self { true } else { false } }
}

/// Has more to do than fits into one turn on its event loop.
protocol TurnTaker: AnyObject {
  var source: TurnSource { get }

  /// Whether it goes on with what is begun, such as a call whose database has answered. What a peer has just sent is new.
  var isBegun: Bool { get }

  /// Goes on until it is done, or the time has come. True when there is more to do.
  func takeTurn(until end: NIODeadline) -> Bool
}
