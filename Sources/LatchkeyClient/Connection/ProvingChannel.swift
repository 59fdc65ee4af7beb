import GRPC

/// A channel whose calls prove the device's key where they must.
struct ProvingChannel: RPCChannel {
  /// Whose nonces the proofs hold.
  enum Peer {
    case identity
    case qr
    case migrator
  }

  private let channel: any RPCChannel
  private let peer: Peer
  private let prover: Prover

  init(_ channel: any RPCChannel, to peer: Peer, _ prover: Prover) {
    self.channel = channel
    self.peer = peer
    self.prover = prover
  }

  func unary<Request: RPCMessage, Response: RPCMessage>(
    _ method: RPCMethod, _ request: Request, options: CallOptions
  ) async throws(RPCError) -> Response {
    let options = try prover.proving(options, method, to: peer)
    return try await noting { () throws(RPCError) in try await channel.unary(method, request, options: options) }
  }

  func serverStreaming<Request: RPCMessage, Response: RPCMessage, Result: Sendable>(
    _ method: RPCMethod, _ request: Request, options: CallOptions,
    _ body: (ResponseStream<Response>) async throws(RPCError) -> Result
  ) async throws(RPCError) -> Result {
    let options = try prover.proving(options, method, to: peer)
    return try await noting { () throws(RPCError) in
      try await channel.serverStreaming(method, request, options: options, body)
    }
  }

  func clientStreaming<Request: RPCMessage, Response: RPCMessage>(
    _ method: RPCMethod, options: CallOptions,
    _ send: @escaping @Sendable (RequestWriter<Request>) async throws(RPCError) -> Void
  ) async throws(RPCError) -> Response {
    let options = try prover.proving(options, method, to: peer)
    return try await noting { () throws(RPCError) in
      try await channel.clientStreaming(method, options: options, send)
    }
  }

  func bidirectional<Request: RPCMessage, Response: RPCMessage, Result: Sendable>(
    _ method: RPCMethod, options: CallOptions,
    _ send: @escaping @Sendable (RequestWriter<Request>) async throws(RPCError) -> Void,
    _ body: (ResponseStream<Response>) async throws(RPCError) -> Result
  ) async throws(RPCError) -> Result {
    let options = try prover.proving(options, method, to: peer)
    return try await noting { () throws(RPCError) in
      try await channel.bidirectional(method, options: options, send, body)
    }
  }

  private func noting<Value>(
    _ call: () async throws(RPCError) -> Value
  ) async throws(RPCError) -> Value {
    do throws(RPCError) {
      return try await call()
    } catch {
      prover.note(error, from: peer)
      throw error
    }
  }
}
