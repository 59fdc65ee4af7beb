package import GRPC

extension RPCError {
  /// A watch for which there is no place, or whose place another one took.
  package static var tooManyWatches: RPCError {
    RPCError(.resourceExhausted, "too many watches are open", reason: "TOO_MANY_WATCHES", retryAfter: .seconds(30))
  }

  /// Why there is no watch, or no more: the service stops, or the place is another's.
  ///
  /// Those who watched a service that stops are told so at the same moment, and come back spread over some time.
  package static func watchEnded(isStopping: Bool) -> RPCError {
    guard isStopping else { return .tooManyWatches }
    return RPCError(
      .unavailable, "the service is stopping; watch again", retryAfter: .spread(upTo: Limits.watchesReturn))
  }
}
