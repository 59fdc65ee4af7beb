package import NIOCore

/// One call on the server, as its route sees it: the request's bytes, the streams and the answer's bytes.
///
/// Belongs to the event loop of its connection, on which routes run. The transport keeps the object and its buffers
/// for the next call.
package final class ServerCall: @unchecked Sendable {
  // Unchecked: only touched on its event loop, which is also the executor that its route's task prefers.

  /// The one request message of a call whose client does not stream.
  package var request = ByteBuffer()
  /// The framed response of a call whose server does not stream.
  package var answer = ByteBuffer()
  package var context: ServerContext?
  package var inbox: MessageInbox?
  package var outbox: MessageOutbox?

  package init() {}

  /// Forgets the call, keeps the buffers unless they have grown.
  package func reset() {
    request.forget()
    answer.forget()
    context = nil
    inbox = nil
    outbox = nil
  }

  func requireContext() throws(RPCError) -> ServerContext {
    guard let context else { throw RPCError(.internal, "the call is over") }
    return context
  }

  func requireInbox() throws(RPCError) -> MessageInbox {
    guard let inbox else { throw RPCError(.internal, "the call is over") }
    return inbox
  }

  func requireOutbox() throws(RPCError) -> MessageOutbox {
    guard let outbox else { throw RPCError(.internal, "the call is over") }
    return outbox
  }
}

extension ByteBuffer {
  /// Empties the buffer, and keeps its memory if that is a usual message's: nobody counts what lies here for the next call.
  mutating func forget() {
    if capacity > Limits.keptBufferBytes { self = ByteBuffer() } else { clear() }
  }
}
