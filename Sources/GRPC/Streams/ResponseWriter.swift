internal import NIOCore

/// Writes the messages of a server-streaming or bidirectional call.
package struct ResponseWriter<Response: RPCMessage>: Sendable {
  let outbox: MessageOutbox
  private let context: ServerContext?

  /// - Parameter context: says whether the call compresses; nil never does.
  package init(_ outbox: MessageOutbox, context: ServerContext? = nil) {
    self.outbox = outbox
    self.context = context
  }

  /// Sends a message, waiting while the client is behind. Throws `CANCELLED` when the call is over.
  ///
  /// - Parameter compressed: false sends this message as it is on a call that compresses.
  package func write(_ response: Response, compressed: Bool = true) async throws(RPCError) {
    var frame = ByteBuffer()
    let coding = context?.settledCoding ?? .identity
    try response.encodeFrame(into: &frame, coding: compressed ? coding : .identity)
    try await outbox.write(frame)
  }

  /// Returns once the client has made room for all that was written, and it is on its way.
  ///
  /// Errors: those of `write`, when the call ends before.
  package func taken() async throws(RPCError) {
    try await outbox.write(ByteBuffer(), untilPending: 0)
  }
}
