package import NIOCore

/// A method with the handler that answers it, its types erased.
package struct RPCRoute: Sendable {
  package let method: RPCMethod
  /// The largest request message that the method takes.
  package var messageLimit = Limits.messageBytes
  /// Runs the handler. Returns the framed answer of a call that has one, nil when the answers were streamed.
  package let run: @Sendable (ServerCall) async throws(RPCError) -> ByteBuffer?

  private init(
    _ method: RPCMethod,
    run: @escaping @Sendable (ServerCall) async throws(RPCError) -> ByteBuffer?
  ) {
    self.method = method
    self.run = run
  }

  /// One request, one response.
  package static func unary<Request: RPCMessage, Response: RPCMessage>(
    _ method: RPCMethod,
    _ handle: @escaping @Sendable (Request, ServerContext) async throws(RPCError) -> Response
  ) -> RPCRoute {
    RPCRoute(method) { call throws(RPCError) in
      let response = try await handle(Request(decoding: call.request), call.context)
      var frame = ByteBuffer()
      try response.encodeFrame(into: &frame)
      return frame
    }
  }

  /// One request, a stream of responses.
  package static func serverStreaming<Request: RPCMessage, Response: RPCMessage>(
    _ method: RPCMethod,
    _ handle: @escaping @Sendable (Request, ResponseWriter<Response>, ServerContext) async throws(RPCError) -> Void
  ) -> RPCRoute {
    RPCRoute(method) { call throws(RPCError) in
      try await handle(Request(decoding: call.request), ResponseWriter(call.outbox), call.context)
      return nil
    }
  }

  /// A stream of requests, one response.
  package static func clientStreaming<Request: RPCMessage, Response: RPCMessage>(
    _ method: RPCMethod,
    _ handle: @escaping @Sendable (RequestStream<Request>, ServerContext) async throws(RPCError) -> Response
  ) -> RPCRoute {
    RPCRoute(method) { call throws(RPCError) in
      let response = try await handle(RequestStream(call.inbox), call.context)
      var frame = ByteBuffer()
      try response.encodeFrame(into: &frame)
      return frame
    }
  }

  /// Streams both ways.
  package static func bidirectional<Request: RPCMessage, Response: RPCMessage>(
    _ method: RPCMethod,
    _ handle:
      @escaping @Sendable (RequestStream<Request>, ResponseWriter<Response>, ServerContext)
      async throws(RPCError) -> Void
  ) -> RPCRoute {
    RPCRoute(method) { call throws(RPCError) in
      try await handle(RequestStream(call.inbox), ResponseWriter(call.outbox), call.context)
      return nil
    }
  }
}
