internal import NIOCore

/// Has more to do than fits into one turn on its event loop.
protocol TurnTaker: AnyObject {
  /// Goes on until it is done, or the time has come. True when there is more to do.
  func takeTurn(until end: NIODeadline) -> Bool
}
