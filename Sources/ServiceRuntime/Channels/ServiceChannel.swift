package import GRPC

/// A channel to another service: each call carries the service credential where there is one, and a call with one
/// answer has a timeout.
package struct ServiceChannel: RPCChannel {
  private let channel: any RPCChannel
  private let credential: Metadata

  package init(_ channel: any RPCChannel, token: ServiceToken?) {
    self.channel = channel
    credential = token?.metadata ?? [:]
  }

  private func authenticated(_ options: CallOptions) -> CallOptions {
    // A call that brings a credential of its own is made on somebody's behalf.
    guard options.metadata["authorization"] == nil else { return options }
    var options = options
    options.metadata.append(contentsOf: credential)
    return options
  }

  package func unary<Request: RPCMessage, Response: RPCMessage>(
    _ method: RPCMethod,
    _ request: Request,
    options: CallOptions
  ) async throws(RPCError) -> Response {
    var options = authenticated(options)
    if options.timeout == nil { options.timeout = Limits.peerCallTimeout }
    return try await channel.unary(method, request, options: options)
  }

  package func serverStreaming<Request: RPCMessage, Response: RPCMessage, Result: Sendable>(
    _ method: RPCMethod,
    _ request: Request,
    options: CallOptions,
    _ body: (ResponseStream<Response>) async throws(RPCError) -> Result
  ) async throws(RPCError) -> Result {
    try await channel.serverStreaming(method, request, options: authenticated(options), body)
  }

  package func clientStreaming<Request: RPCMessage, Response: RPCMessage>(
    _ method: RPCMethod,
    options: CallOptions,
    _ send: @escaping @Sendable (RequestWriter<Request>) async throws(RPCError) -> Void
  ) async throws(RPCError) -> Response {
    try await channel.clientStreaming(method, options: authenticated(options), send)
  }

  package func bidirectional<Request: RPCMessage, Response: RPCMessage, Result: Sendable>(
    _ method: RPCMethod,
    options: CallOptions,
    _ send: @escaping @Sendable (RequestWriter<Request>) async throws(RPCError) -> Void,
    _ body: (ResponseStream<Response>) async throws(RPCError) -> Result
  ) async throws(RPCError) -> Result {
    try await channel.bidirectional(method, options: authenticated(options), send, body)
  }
}
