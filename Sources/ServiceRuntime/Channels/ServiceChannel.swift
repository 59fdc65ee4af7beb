package import GRPC
internal import LatchkeyModel
package import Logging

/// A channel to another service: each call carries the service credential where there is one, and a call with one
/// answer has a timeout.
package struct ServiceChannel: RPCChannel {
  private let channel: any RPCChannel
  private let credential: Metadata
  private let name: String
  private let address: String
  private let logger: Logger?
  private let lines = LogBudget(linesPerSecond: 1)
  /// Services that are started together find each other within moments, which is nothing to warn of.
  private let warnsFrom = ContinuousClock.now + Limits.peerPatience

  /// - Parameters:
  ///   - name: what the service is called in what others are told.
  ///   - address: where it is called, for the log alone.
  ///   - logger: is told why calls cannot be made; nil for nobody.
  package init(
    _ channel: any RPCChannel,
    to name: String = "service",
    at address: String = "",
    token: ServiceToken?,
    logger: Logger? = nil
  ) {
    self.channel = channel
    self.name = name
    self.address = address
    self.logger = logger
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
    let allowed = options
    return try await telling { () throws(RPCError) in
      try await channel.unary(method, request, options: allowed)
    }
  }

  package func serverStreaming<Request: RPCMessage, Response: RPCMessage, Result: Sendable>(
    _ method: RPCMethod,
    _ request: Request,
    options: CallOptions,
    _ body: (ResponseStream<Response>) async throws(RPCError) -> Result
  ) async throws(RPCError) -> Result {
    try await telling { () throws(RPCError) in
      try await channel.serverStreaming(method, request, options: authenticated(options), body)
    }
  }

  package func clientStreaming<Request: RPCMessage, Response: RPCMessage>(
    _ method: RPCMethod,
    options: CallOptions,
    _ send: @escaping @Sendable (RequestWriter<Request>) async throws(RPCError) -> Void
  ) async throws(RPCError) -> Response {
    try await telling { () throws(RPCError) in
      try await channel.clientStreaming(method, options: authenticated(options), send)
    }
  }

  package func bidirectional<Request: RPCMessage, Response: RPCMessage, Result: Sendable>(
    _ method: RPCMethod,
    options: CallOptions,
    _ send: @escaping @Sendable (RequestWriter<Request>) async throws(RPCError) -> Void,
    _ body: (ResponseStream<Response>) async throws(RPCError) -> Result
  ) async throws(RPCError) -> Result {
    try await telling { () throws(RPCError) in
      try await channel.bidirectional(method, options: authenticated(options), send, body)
    }
  }

  /// An outage's cause names addresses of this installation and is for the log: what is thrown here reaches anybody.
  private func telling<Value>(_ call: () async throws(RPCError) -> Value) async throws(RPCError) -> Value {
    do throws(RPCError) {
      return try await call()
    } catch {
      guard error.code == .unavailable || error.code == .deadlineExceeded, error.details.reason == nil else {
        throw error
      }
      if let logger, let suppressed = lines.take(second: SystemClock().now().secondsSinceEpoch) {
        var fields: Logger.Metadata = ["service": "\(name)", "address": "\(address)", "cause": "\(error.message)"]
        if suppressed > 0 { fields["suppressed_lines"] = "\(suppressed)" }
        let level: Logger.Level = ContinuousClock.now < warnsFrom ? .info : .warning
        logger.log(level: level, "a call to another service failed", metadata: fields)
      }
      var told = error
      told.message = error.code == .unavailable ? "\(name) cannot be reached now" : "\(name) took too long"
      throw told
    }
  }
}
