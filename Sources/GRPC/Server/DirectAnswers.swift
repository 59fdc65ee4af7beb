package import NIOCore

/// Answers unary calls of one method without waiting, those of one connection. Used on one event loop.
package protocol DirectAnswers: AnyObject {
  /// Decides a call: leaves the framed answer and says true, or throws the call's status. False when the call may have
  /// to wait or needs its context; then nothing was done, and the route's `run` takes it.
  func answer(_ request: Span<UInt8>, into answer: inout ByteBuffer) throws(RPCError) -> Bool

  /// A request may come soon, a few calls from now. To do no more than fetch what its answer will need: it may be
  /// another method's, or never come. False: there is nothing to fetch these days.
  func foresee(_ request: Span<UInt8>) -> Bool
}
