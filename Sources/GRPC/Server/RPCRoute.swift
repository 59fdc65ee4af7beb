/// A method with the handler that answers it, its types erased.
package struct RPCRoute: Sendable {
  package let method: RPCMethod
  /// The largest request message that the method takes.
  package var messageLimit = Limits.messageBytes
  /// The longest that a call may take, whatever the client asks for; nil takes the server's default for its kind.
  package var timeLimit: Duration?
  /// Makes what answers calls within the read pass that brings their requests; nil where that takes a task.
  package var directAnswers: (@Sendable () -> any DirectAnswers)?
  /// Answered even by a server that has no room for other calls, as a health check must be.
  package var isEssential = false
  /// Runs the handler and leaves the framed answer of a call that has one in `ServerCall.answer`.
  package let run: @Sendable (ServerCall) async throws(RPCError) -> Void

  /// The same route with a shorter way for the calls that what `make` makes can take.
  package func answeringDirectly(by make: @escaping @Sendable () -> any DirectAnswers) -> RPCRoute {
    precondition(method.kind == .unary, "only a call of one request and one response is answered in one go")
    var route = self
    route.directAnswers = make
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

  /// Streams both ways. The handler begins with the client's first message, or with its end: the server does not speak first.
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
