package import GRPC
package import NIOCore
internal import NIOPosix
package import TLS

/// A channel to one target: its connections, balanced in turn, reopened when they break, and the calls on them.
///
///     let channel = ClientChannel(.init(target: try ChannelTarget("localhost:7401"), decodeDetails: StatusDetails.decode))
///     let response = try await IdentityV1.GuestServiceClient(channel: channel).issueGuest(request)
///     await channel.close()
///
/// Opens no connection before the first call. Usable from any task; from a task on one of its event loops, a call on a
/// connection of that loop starts without a hop. Retries as `RetryPolicy` says.
package final class ClientChannel: RPCChannel {
  package struct Configuration: Sendable {
    package var target: ChannelTarget
    /// TLS for every connection; nil speaks cleartext.
    package var tls: TLSClientContext?
    /// The name that the server's certificate must be for, where it is not the target's host.
    package var serverName: String?
    /// Where the connections live.
    package var group: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton
    package var resolver: any AddressResolver = SystemAddressResolver()
    package var userAgent = "grpc-swift-latchkey/0.1"
    /// The timeout of calls that name none; nil for none.
    package var defaultTimeout: Duration?
    /// The largest response message.
    package var messageLimit = Limits.responseBytes
    /// nil never retries but transparently: what the server has certainly not seen.
    package var retry: RetryPolicy? = RetryPolicy()
    package var retryThrottle = RetryThrottle()
    package var backoff = Backoff.connection
    package var connectTimeout = Limits.connectTimeout
    package var keepalive: KeepalivePolicy?
    /// A connection without a call is closed after this; the next call opens another. What gRPC's channels have.
    package var idleTimeout = TimeAmount.minutes(30)
    /// Reads `grpc-status-details-bin`, which this module knows no messages for.
    package var decodeDetails: ResponseReader.DetailsDecoder
    /// Uniform in 0..<1; spreads the waits of clients.
    package var random: @Sendable () -> Double = { Double.random(in: 0..<1) }

    package init(
      target: ChannelTarget,
      tls: TLSClientContext? = nil,
      decodeDetails: @escaping ResponseReader.DetailsDecoder
    ) {
      self.target = target
      self.tls = tls
      self.decodeDetails = decodeDetails
    }
  }

  private let configuration: Configuration
  private let pool: ConnectionPool

  package init(_ configuration: Configuration) {
    self.configuration = configuration
    pool = ConnectionPool(
      ConnectionPool.Configuration(
        target: configuration.target,
        group: configuration.group,
        resolver: configuration.resolver,
        tls: configuration.tls,
        serverName: configuration.serverName ?? configuration.target.endpoint.host,
        settings: ClientConnection.Settings(
          authority: configuration.target.endpoint.text,
          isSecure: configuration.tls != nil,
          userAgent: configuration.userAgent,
          messageLimit: configuration.messageLimit,
          decodeDetails: configuration.decodeDetails,
          keepalive: configuration.keepalive,
          connectTimeout: configuration.connectTimeout,
          idleTimeout: configuration.idleTimeout
        ),
        backoff: configuration.backoff,
        random: configuration.random
      )
    )
  }

  deinit {
    pool.abandon()
  }

  /// Takes no more calls; returns when those on their way have ended, or when `grace` is over and they were ended.
  package func close(grace: Duration = .seconds(30)) async {
    await pool.close(grace: TimeAmount(grace))
  }

  // MARK: - The four kinds of call

  package func unary<Request: RPCMessage, Response: RPCMessage>(
    _ method: RPCMethod,
    _ request: Request,
    options: CallOptions
  ) async throws(RPCError) -> Response {
    let call = try makeCall(method, options, request: .message(frame(request, options)))
    return try await response(drive(call))
  }

  package func serverStreaming<Request: RPCMessage, Response: RPCMessage, Result: Sendable>(
    _ method: RPCMethod,
    _ request: Request,
    options: CallOptions,
    _ body: (ResponseStream<Response>) async throws(RPCError) -> Result
  ) async throws(RPCError) -> Result {
    let call = try makeCall(method, options, request: .message(frame(request, options)))
    return try await stream(call, body)
  }

  package func clientStreaming<Request: RPCMessage, Response: RPCMessage>(
    _ method: RPCMethod,
    options: CallOptions,
    _ send: @escaping @Sendable (RequestWriter<Request>) async throws(RPCError) -> Void
  ) async throws(RPCError) -> Response {
    let call = makeCall(method, options, request: .stream)
    // Ends when the call does: leaving the scope cancels and awaits it.
    async let _: Void = Self.run(send, call)
    let result = await drive(call)
    call.outbox.close(RPCError(.cancelled, "the call is over"))
    return try response(result)
  }

  package func bidirectional<Request: RPCMessage, Response: RPCMessage, Result: Sendable>(
    _ method: RPCMethod,
    options: CallOptions,
    _ send: @escaping @Sendable (RequestWriter<Request>) async throws(RPCError) -> Void,
    _ body: (ResponseStream<Response>) async throws(RPCError) -> Result
  ) async throws(RPCError) -> Result {
    let call = makeCall(method, options, request: .stream)
    // As in `clientStreaming`.
    async let _: Void = Self.run(send, call)
    return try await stream(call, body)
  }

  // MARK: - Helpers

  private func frame(_ request: some RPCMessage, _ options: CallOptions) throws(RPCError) -> ByteBuffer {
    var frame = ByteBuffer()
    try request.encodeFrame(into: &frame, coding: options.compression)
    return frame
  }

  private func makeCall(_ method: RPCMethod, _ options: CallOptions, request: ClientCall.Request) -> ClientCall {
    let timeout = options.timeout ?? configuration.defaultTimeout
    let deadline = timeout.map { NIODeadline.now() + TimeAmount($0) }
    return ClientCall(
      method,
      options,
      deadline: deadline,
      responseLimit: configuration.messageLimit,
      request: request
    )
  }

  private func response<Response: RPCMessage>(
    _ result: Result<ByteBuffer?, RPCError>
  ) throws(RPCError) -> Response {
    guard let message = try result.get() else { throw RPCError(.internal, "the call ended without a response") }
    do throws(RPCError) {
      return try Response(decoding: message)
    } catch {
      throw RPCError(.internal, "the response does not decode: \(error.message)")
    }
  }

  /// Runs `body` on the response stream of a call whose attempts run beside it.
  private func stream<Response: RPCMessage, Result: Sendable>(
    _ call: ClientCall,
    _ body: (ResponseStream<Response>) async throws(RPCError) -> Result
  ) async throws(RPCError) -> Result {
    guard let inbox = call.inbox else { throw RPCError(.internal, "the method has no response stream") }
    // As in `clientStreaming`.
    async let _: Void = driveStream(call, inbox)
    // Left early, by returning or by throwing, the call is of no more use.
    defer { call.cancel(RPCError(.cancelled, "the caller left the response stream")) }
    return try await body(ResponseStream(inbox))
  }

  private func driveStream(_ call: ClientCall, _ inbox: MessageInbox) async {
    guard case .failure(let error) = await drive(call) else { return }
    inbox.finish(error)
    call.outbox.close(error)
  }

  private static func run<Request: RPCMessage>(
    _ send: @Sendable (RequestWriter<Request>) async throws(RPCError) -> Void,
    _ call: ClientCall
  ) async {
    do throws(RPCError) {
      try await send(RequestWriter(call.outbox, coding: call.coding))
      call.completeRequest()
    } catch {
      call.cancel(error)
    }
  }

  /// Makes attempts until the call is decided, or its response stream has begun (nil).
  private func drive(_ call: ClientCall) async -> Result<ByteBuffer?, RPCError> {
    var attempts = 0
    var refusals = 0
    while true {
      let connection: ClientConnection
      do throws(RPCError) {
        connection = try await pool.connection(waitForReady: call.waitForReady, deadline: call.deadline)
      } catch {
        return .failure(error)
      }
      let attempt = ClientAttempt(call, on: connection, previousAttempts: attempts)
      switch await attempt.run() {
      case .message(let message):
        configuration.retryThrottle.recordSuccess()
        return .success(message)
      case .streaming:
        configuration.retryThrottle.recordSuccess()
        return .success(nil)
      case .failed(let failure):
        if failure.progress == .refused { refusals += 1 }
        switch decide(call, failure, attempts: attempts + 1, refusals: refusals) {
        case .giveUp:
          return .failure(failure.error)
        case .again:
          continue
        case .after(let wait):
          attempts += 1
          if let error = await pause(wait, call, failure.error) { return .failure(error) }
        }
      }
    }
  }

  private func decide(
    _ call: ClientCall,
    _ failure: ClientAttempt.Failure,
    attempts: Int,
    refusals: Int
  ) -> RetryPolicy.Decision {
    guard call.failure == nil, failure.progress == .notSent || call.canReplay else { return .giveUp }
    // Without a policy of its own, the channel repeats only what the server has not seen.
    let policy = configuration.retry ?? RetryPolicy(maxAttempts: 1)
    let decision = policy.decide(
      failure.error,
      progress: failure.progress,
      pushback: failure.pushback,
      attempts: attempts,
      refusals: refusals,
      throttle: configuration.retryThrottle,
      isIdempotent: call.isIdempotent,
      random: configuration.random()
    )
    if decision == .giveUp, !policy.retryableCodes.contains(failure.error.code) {
      configuration.retryThrottle.recordSuccess()
    }
    return decision
  }

  /// Waits before a retry; answers the error that ends the call when there is no time for it.
  private func pause(_ wait: Duration, _ call: ClientCall, _ cause: RPCError) async -> RPCError? {
    if let deadline = call.deadline, deadline - .now() <= TimeAmount(wait) { return cause }
    do {
      try await Task.sleep(for: wait)
      return nil
    } catch {
      return RPCError(.cancelled, "the call was cancelled")
    }
  }
}
