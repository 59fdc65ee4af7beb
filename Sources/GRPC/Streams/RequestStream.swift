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

    package mutating func next(isolation actor: isolated (any Actor)?) async throws(RPCError) -> Request? {
      guard let message = try await inbox.next() else { return nil }
      return try Request(decoding: message)
    }

    package mutating func next() async throws(RPCError) -> Request? {
      try await next(isolation: nil)
    }
  }
}
