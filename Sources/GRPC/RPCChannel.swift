/// What generated clients call through: a connection, a balanced set of connections, or a test's loopback.
package protocol RPCChannel: Sendable {
  /// One request, one response. Errors: the status that the server answered, or the channel's own
  /// `UNAVAILABLE`, `DEADLINE_EXCEEDED` or `CANCELLED`.
  func unary<Request: RPCMessage, Response: RPCMessage>(
    _ method: RPCMethod,
    _ request: Request,
    options: CallOptions
  ) async throws(RPCError) -> Response

  /// One request, a stream of responses. Leaving `body` early cancels the call.
  func serverStreaming<Request: RPCMessage, Response: RPCMessage, Result: Sendable>(
    _ method: RPCMethod,
    _ request: Request,
    options: CallOptions,
    _ body: (ResponseStream<Response>) async throws(RPCError) -> Result
  ) async throws(RPCError) -> Result

  /// A stream of requests, one response. `send` writes them; the stream half-closes when it returns.
  func clientStreaming<Request: RPCMessage, Response: RPCMessage>(
    _ method: RPCMethod,
    options: CallOptions,
    _ send: @escaping @Sendable (RequestWriter<Request>) async throws(RPCError) -> Void
  ) async throws(RPCError) -> Response

  /// Streams both ways. `send` runs beside `body`.
  func bidirectional<Request: RPCMessage, Response: RPCMessage, Result: Sendable>(
    _ method: RPCMethod,
    options: CallOptions,
    _ send: @escaping @Sendable (RequestWriter<Request>) async throws(RPCError) -> Void,
    _ body: (ResponseStream<Response>) async throws(RPCError) -> Result
  ) async throws(RPCError) -> Result
}
