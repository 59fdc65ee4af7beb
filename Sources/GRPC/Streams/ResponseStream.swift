/// The messages that a server streams, in the order they came. To be read by one task.
///
/// Ends when the server sends an OK status; throws any other status.
package struct ResponseStream<Response: RPCMessage>: AsyncSequence, Sendable {
  package typealias Element = Response
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

    package mutating func next(isolation actor: isolated (any Actor)?) async throws(RPCError) -> Response? {
      guard let message = try await inbox.next() else { return nil }
      wasCompressed = message.isCompressed
      return try Response(decoding: message.expanded(limit: inbox.messageLimit))
    }

    package mutating func next() async throws(RPCError) -> Response? {
      try await next(isolation: nil)
    }
  }
}
