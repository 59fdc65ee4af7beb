internal import NIOCore

/// Writes the messages of a client-streaming or bidirectional call.
package struct RequestWriter<Request: RPCMessage>: Sendable {
  private let outbox: MessageOutbox
  private let coding: MessageCoding

  package init(_ outbox: MessageOutbox, coding: MessageCoding = .identity) {
    self.outbox = outbox
    self.coding = coding
  }

  /// Sends a message, waiting while the server is behind. Throws `CANCELLED` when the call is over.
  ///
  /// - Parameter compressed: false sends this message as it is on a call that compresses.
  package func write(_ request: Request, compressed: Bool = true) async throws(RPCError) {
    var frame = ByteBuffer()
    try request.encodeFrame(into: &frame, coding: compressed ? coding : .identity)
    try await outbox.write(frame)
  }
}
