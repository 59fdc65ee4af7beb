internal import NIOCore

/// Writes the messages of a server-streaming or bidirectional call.
package struct ResponseWriter<Response: RPCMessage>: Sendable {
  private let outbox: MessageOutbox

  package init(_ outbox: MessageOutbox) {
    self.outbox = outbox
  }

  /// Sends a message, waiting while the client is behind. Throws `CANCELLED` when the call is over.
  package func write(_ response: Response) async throws(RPCError) {
    var frame = ByteBuffer()
    try response.encodeFrame(into: &frame)
    try await outbox.write(frame)
  }
}
