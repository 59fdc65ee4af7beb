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
}
