internal import NIOCore

/// Where a gRPC-Web call leaves its answer: a stream of HTTP/2, or a connection of HTTP/1.1. On one event loop.
protocol WebCallSink: AnyObject {
  /// The status is 200; everything else stands in the body.
  func webCall(_ call: WebCall, answers headers: [(name: String, value: String)])

  /// A part of the body. To be reported by `WebCall.wrote` once it has left.
  func webCall(_ call: WebCall, sends body: ByteBuffer)

  /// The body is complete.
  func webCallEnded(_ call: WebCall)

  /// The call keeps next to nothing of its request from here on.
  func webCallKeepsLittle(_ call: WebCall)

  /// Whether what comes of the call now has waited for longer than that, or will.
  func webCall(_ call: WebCall, isLateAfter patience: TimeAmount) -> Bool

  /// The handler has returned, perhaps long after the end.
  func webCallReturned(_ call: WebCall)
}
