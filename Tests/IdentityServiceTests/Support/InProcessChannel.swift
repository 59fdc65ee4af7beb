import GRPC
import NIOCore
import Synchronization

/// A channel into routes of this process: requests and responses go through the real codec, and each call passes the
/// interceptors, without a socket.
struct InProcessChannel: RPCChannel {
  private let routes: [String: RPCRoute]
  private let interceptors: [any ServerInterceptor]
  /// Where the calls come from.
  var address = "192.0.2.7"

  init(routes: [RPCRoute], interceptors: [any ServerInterceptor] = []) {
    self.routes = Dictionary(uniqueKeysWithValues: routes.map { ($0.method.path, $0) })
    self.interceptors = interceptors
  }

  /// Begins a call of any kind and goes no further than its interceptors.
  func begin(_ method: RPCMethod, options: CallOptions) async throws(RPCError) {
    let context = ServerContext(
      method: method, metadata: options.metadata, peer: Peer(address: address, port: 4711))
    for interceptor in interceptors { try interceptor.willHandle(context) }
  }

  func unary<Request: RPCMessage, Response: RPCMessage>(
    _ method: RPCMethod, _ request: Request, options: CallOptions
  ) async throws(RPCError) -> Response {
    guard let route = routes[method.path] else { throw RPCError(.unimplemented, method.path) }
    let context = ServerContext(
      method: method, metadata: options.metadata, peer: Peer(address: address, port: 4711))
    let call = ServerCall()
    call.context = context
    do throws(RPCError) {
      for interceptor in interceptors { try interceptor.willHandle(context) }
      try request.encode(into: &call.request)
      try await route.run(call)
    } catch {
      for interceptor in interceptors { interceptor.didFinish(context, status: error.code, duration: .zero) }
      throw error
    }
    for interceptor in interceptors { interceptor.didFinish(context, status: .ok, duration: .zero) }
    // What follows the prefix of compression flag and length.
    guard call.answer.readableBytes >= 5 else { throw RPCError(.internal, "no answer") }
    call.answer.moveReaderIndex(forwardBy: 5)
    return try Response(decoding: call.answer)
  }

  func serverStreaming<Request: RPCMessage, Response: RPCMessage, Result: Sendable>(
    _ method: RPCMethod, _ request: Request, options: CallOptions,
    _ body: (ResponseStream<Response>) async throws(RPCError) -> Result
  ) async throws(RPCError) -> Result {
    guard let route = routes[method.path] else { throw RPCError(.unimplemented, method.path) }
    let context = ServerContext(
      method: method, metadata: options.metadata, peer: Peer(address: address, port: 4711))
    for interceptor in interceptors { try interceptor.willHandle(context) }
    let relay = Relay()
    let call = ServerCall()
    call.context = context
    call.outbox = relay.outbox
    try request.encode(into: &call.request)
    let task = Task {
      do throws(RPCError) {
        try await route.run(call)
        relay.inbox.finish()
      } catch {
        relay.inbox.finish(error)
      }
    }
    // Leaving the body cancels the call, as over a network.
    defer { task.cancel() }
    return try await body(ResponseStream(relay.inbox))
  }

  func clientStreaming<Request: RPCMessage, Response: RPCMessage>(
    _ method: RPCMethod, options: CallOptions,
    _ send: @escaping @Sendable (RequestWriter<Request>) async throws(RPCError) -> Void
  ) async throws(RPCError) -> Response {
    throw RPCError(.unimplemented, "this channel is unary")
  }

  func bidirectional<Request: RPCMessage, Response: RPCMessage, Result: Sendable>(
    _ method: RPCMethod, options: CallOptions,
    _ send: @escaping @Sendable (RequestWriter<Request>) async throws(RPCError) -> Void,
    _ body: (ResponseStream<Response>) async throws(RPCError) -> Result
  ) async throws(RPCError) -> Result {
    throw RPCError(.unimplemented, "this channel is unary")
  }
}

/// Takes what a handler writes to where the client reads.
private final class Relay: Sendable {
  let inbox = MessageInbox(consumed: { _ in })
  let outbox: MessageOutbox
  private let wire: Wire

  init() {
    let wire = Wire()
    self.wire = wire
    outbox = MessageOutbox(ready: { wire.pump() })
    wire.connect(outbox, inbox)
  }

  /// The wire and the outbox hold each other.
  deinit { wire.disconnect() }

  private final class Wire: Sendable {
    private let ends = Mutex<(MessageOutbox, MessageInbox)?>(nil)

    func connect(_ outbox: MessageOutbox, _ inbox: MessageInbox) {
      ends.withLock { $0 = (outbox, inbox) }
    }

    func disconnect() { ends.withLock { $0 = nil } }

    func pump() {
      guard let (outbox, inbox) = ends.withLock({ $0 }) else { return }
      for frame in outbox.take() {
        var message = frame
        message.moveReaderIndex(forwardBy: 5)
        inbox.deliver(ReceivedMessage(bytes: message))
        outbox.sent(frame.readableBytes)
      }
    }
  }
}
