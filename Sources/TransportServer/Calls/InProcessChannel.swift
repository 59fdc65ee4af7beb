package import GRPC
internal import Logging
internal import NIOCore
internal import NIOPosix

/// A channel to routes of this process, without a socket: a call takes the way of one that came over a network, from its
/// header block to its status.
///
/// For tests of services. Calls of one channel are those of one connection, on one event loop.
package struct InProcessChannel: RPCChannel {
  private let environment: ServerEnvironment
  private let executor: EventLoopTaskExecutor
  /// Where the calls come from.
  package var address = "192.0.2.7"

  package init(routes: [RPCRoute], interceptors: [any ServerInterceptor] = []) {
    environment = ServerEnvironment(
      configuration: RPCServer.Configuration(host: "", port: 0),
      router: Router(routes),
      interceptors: interceptors,
      pages: PageTable([]),
      // An error reaches the caller as it is.
      statusDetailsEncoder: { _ in nil },
      logger: Logger(label: "in-process")
    )
    executor = EventLoopTaskExecutor(MultiThreadedEventLoopGroup.singleton.next())
  }

  private func makeCall(_ method: RPCMethod, _ options: CallOptions) -> InProcessCall {
    InProcessCall(method, options, environment, executor, Peer(address: address, port: 4711))
  }

  private func frame(_ request: some RPCMessage, _ options: CallOptions) throws(RPCError) -> ByteBuffer {
    var frame = ByteBuffer()
    try request.encodeFrame(into: &frame, coding: options.compression)
    return frame
  }

  /// Begins a call of any kind and cancels it before its request has come: what the interceptors say of it.
  package func begin(_ method: RPCMethod, options: CallOptions) async throws(RPCError) {
    try await makeCall(method, options).begin().get()
  }

  // MARK: The four kinds of call

  package func unary<Request: RPCMessage, Response: RPCMessage>(
    _ method: RPCMethod, _ request: Request, options: CallOptions
  ) async throws(RPCError) -> Response {
    let frame = try frame(request, options)
    return try Response(decoding: await makeCall(method, options).run(frame).get())
  }

  package func serverStreaming<Request: RPCMessage, Response: RPCMessage, Result: Sendable>(
    _ method: RPCMethod, _ request: Request, options: CallOptions,
    _ body: (ResponseStream<Response>) async throws(RPCError) -> Result
  ) async throws(RPCError) -> Result {
    let frame = try frame(request, options)
    let call = makeCall(method, options)
    // Ends when the call does: leaving the scope cancels and awaits it.
    async let _ = call.run(frame)
    return try await body(ResponseStream(call.responses))
  }

  package func clientStreaming<Request: RPCMessage, Response: RPCMessage>(
    _ method: RPCMethod, options: CallOptions,
    _ send: @escaping @Sendable (RequestWriter<Request>) async throws(RPCError) -> Void
  ) async throws(RPCError) -> Response {
    let call = makeCall(method, options)
    // As in `serverStreaming`.
    async let _: Void = Self.run(send, call, options)
    return try Response(decoding: await call.run(nil).get())
  }

  package func bidirectional<Request: RPCMessage, Response: RPCMessage, Result: Sendable>(
    _ method: RPCMethod, options: CallOptions,
    _ send: @escaping @Sendable (RequestWriter<Request>) async throws(RPCError) -> Void,
    _ body: (ResponseStream<Response>) async throws(RPCError) -> Result
  ) async throws(RPCError) -> Result {
    let call = makeCall(method, options)
    // As in `serverStreaming`.
    async let _: Void = Self.run(send, call, options)
    async let _ = call.run(nil)
    return try await body(ResponseStream(call.responses))
  }

  private static func run<Request: RPCMessage>(
    _ send: @Sendable (RequestWriter<Request>) async throws(RPCError) -> Void, _ call: InProcessCall,
    _ options: CallOptions
  ) async {
    do throws(RPCError) {
      try await send(RequestWriter(call.requests, coding: options.compression))
      call.completeRequest()
    } catch {
      call.cancel(error)
    }
  }
}
