internal import Callers
internal import NIOCore

/// With whom something shares its turns on an event loop.
enum TurnSource: Hashable, Sendable {
  /// A source, or all of which none is known.
  case address(NetworkAddress?)
  /// A connection that a proxy shares between its clients.
  case connection(ObjectIdentifier)

  var isShared: Bool { if case .connection = self { true } else { false } }
}

/// Has more to do than fits into one turn on its event loop.
protocol TurnTaker: AnyObject {
  var source: TurnSource { get }

  /// Goes on until it is done, or the time has come. True when there is more to do.
  func takeTurn(until end: NIODeadline) -> Bool
}
