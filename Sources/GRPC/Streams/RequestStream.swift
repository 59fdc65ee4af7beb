/// The messages of a client-streaming or bidirectional call, in the order they came. To be read by one task.
///
/// Ends when the client half-closes; throws the status when the call ends otherwise.
package struct RequestStream<Request: RPCMessage>: AsyncSequence, Sendable {
  package typealias Element = Request
  package typealias Failure = RPCError

  private let inbox: MessageInbox

  package init(_ inbox: MessageInbox) {
    self.inbox = inbox
  }

  package func makeAsyncIterator() -> AsyncIterator { AsyncIterator(inbox: inbox) }

  package struct AsyncIterator: AsyncIteratorProtocol {
    fileprivate let inbox: MessageInbox
    /// Whether the message that came last was compressed.
    package private(set) var wasCompressed = false

    fileprivate init(inbox: MessageInbox) {
      self.inbox = inbox
    }

    package mutating func next(isolation actor: isolated (any Actor)?) async throws(RPCError) -> Request? {
      guard let message = try await inbox.next() else { return nil }
      wasCompressed = message.isCompressed
      return try Request(decoding: message.expanded(limit: inbox.messageLimit))
    }

    package mutating func next() async throws(RPCError) -> Request? {
      try await next(isolation: nil)
    }
  }
}
