package import NIOCore

/// One call on the server, as its route sees it: the request's bytes, the streams and the answer's bytes.
package final class ServerCall: Sendable {
  package let context: ServerContext
  /// The one request message of a call whose client does not stream.
  let request: ByteBuffer
  let inbox: MessageInbox
  let outbox: MessageOutbox

  package init(context: ServerContext, request: ByteBuffer, inbox: MessageInbox, outbox: MessageOutbox) {
    self.context = context
    self.request = request
    self.inbox = inbox
    self.outbox = outbox
  }
}
