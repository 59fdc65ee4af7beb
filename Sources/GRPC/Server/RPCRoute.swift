package import NIOCore

/// A method with the handler that answers it, its types erased.
package struct RPCRoute: Sendable {
  package let method: RPCMethod
  /// The largest request message that the method takes.
  package var messageLimit = Limits.messageBytes
  /// The longest that a call may take, whatever the client asks for; nil takes the server's default for its kind.
  package var timeLimit: Duration?
  /// Answers a call within the read pass that brought its request; nil where that takes a task.
  package var answerDirectly: DirectAnswer?
  /// Answered even by a server that has no room for other calls, as a health check must be.
  package var isEssential = false
  /// Runs the handler and leaves the framed answer of a call that has one in `ServerCall.answer`.
  package let run: @Sendable (ServerCall) async throws(RPCError) -> Void

  /// Decides a unary call without waiting: leaves the framed answer and says true, or throws the call's status. False
  /// when the call may have to wait or needs its context; then nothing was done, and `run` takes it.
  package typealias DirectAnswer =
    @Sendable (_ request: Span<UInt8>, _ answer: inout ByteBuffer) throws(RPCError) -> Bool

  /// The same route with a shorter way for the calls that `answer` can take.
  package func answeringDirectly(_ answer: @escaping DirectAnswer) -> RPCRoute {
    precondition(method.kind == .unary, "only a call of one request and one response is answered in one go")
    var route = self
    route.answerDirectly = answer
    return route
  }

  /// The same route with other bounds.
  package func limited(messageBytes: Int? = nil, time: Duration? = nil) -> RPCRoute {
    var route = self
    if let messageBytes { route.messageLimit = messageBytes }
    if let time { route.timeLimit = time }
    return route
  }

  /// The same route, answered whatever the load.
  package func essential() -> RPCRoute {
    var route = self
    route.isEssential = true
    return route
  }

  private init(
    _ method: RPCMethod,
    run: @escaping @Sendable (ServerCall) async throws(RPCError) -> Void
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
      let context = try call.requireContext()
      let response = try await handle(Request(decoding: call.request), context)
      try response.encodeFrame(into: &call.answer, coding: context.settledCoding)
    }
  }

  /// One request, a stream of responses.
  package static func serverStreaming<Request: RPCMessage, Response: RPCMessage>(
    _ method: RPCMethod,
    _ handle: @escaping @Sendable (Request, ResponseWriter<Response>, ServerContext) async throws(RPCError) -> Void
  ) -> RPCRoute {
    RPCRoute(method) { call throws(RPCError) in
      let context = try call.requireContext()
      let writer = ResponseWriter<Response>(try call.requireOutbox(), context: context)
      try await handle(Request(decoding: call.request), writer, context)
    }
  }

  /// A stream of requests, one response.
  package static func clientStreaming<Request: RPCMessage, Response: RPCMessage>(
    _ method: RPCMethod,
    _ handle: @escaping @Sendable (RequestStream<Request>, ServerContext) async throws(RPCError) -> Response
  ) -> RPCRoute {
    RPCRoute(method) { call throws(RPCError) in
      let context = try call.requireContext()
      let response = try await handle(RequestStream(call.requireInbox()), context)
      try response.encodeFrame(into: &call.answer, coding: context.settledCoding)
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
      let context = try call.requireContext()
      let writer = ResponseWriter<Response>(try call.requireOutbox(), context: context)
      try await handle(RequestStream(call.requireInbox()), writer, context)
    }
  }
}
