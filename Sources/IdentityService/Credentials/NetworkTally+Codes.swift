import GRPC
import LatchkeyModel
import ServiceRuntime

extension NetworkTally {
  /// Counts a code that somebody presents, before it is looked at. Errors: TOO_MANY_ATTEMPTS, with the time until the next.
  func countCode(from peer: Peer, at now: Timestamp) throws(RPCError) {
    guard let wait = wait(from: peer, at: now) else { return }
    throw RPCError(
      .resourceExhausted,
      "too many codes were presented from this network",
      reason: "TOO_MANY_ATTEMPTS",
      retryAfter: wait
    )
  }
}
