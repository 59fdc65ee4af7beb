internal import NIOCore

/// Writes the messages of a client-streaming or bidirectional call.
package struct RequestWriter<Request: RPCMessage>: Sendable {
  private let outbox: MessageOutbox

  package init(_ outbox: MessageOutbox) {
    self.outbox = outbox
  }

  /// Sends a message, waiting while the server is behind. Throws `CANCELLED` when the call is over.
  package func write(_ request: Request) async throws(RPCError) {
    var frame = ByteBuffer()
    try request.encodeFrame(into: &frame)
    try await outbox.write(frame)
  }
}
