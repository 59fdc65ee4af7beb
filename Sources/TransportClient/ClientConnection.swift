internal import DequeModule
internal import GRPC
internal import HTTP2
internal import NIOCore
internal import TLS
internal import Transport

/// One connection of a channel: an HTTP/2 session on a socket, and the calls that run or wait on it.
///
/// ```
///   connecting ──SETTINGS──▶ open ──GOAWAY, shutDown──▶ draining ──▶ closed
///       └───────────────── error, end of connection ─────────────────▲
/// ```
///
/// Lives on its event loop; `onEventLoop` is the way in from elsewhere.
final class ClientConnection: ChannelInboundHandler, HTTP2ClientSessionDelegate, @unchecked Sendable {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  /// What every connection of a channel has in common.
  struct Settings: Sendable {
    var authority: String
    var isSecure: Bool
    var userAgent: String
    var messageLimit: Int
    var decodeDetails: ResponseReader.DetailsDecoder
    var keepalive: KeepalivePolicy?
    var connectTimeout: TimeAmount
    var idleTimeout: TimeAmount
  }

  /// Who hears of the connection's life. Called on its event loop.
  protocol Owner: AnyObject, Sendable {
    /// Calls may start.
    func connectionOpened(_ connection: ClientConnection)
    /// No further call may start; those that run go on.
    func connectionDraining(_ connection: ClientConnection, _ error: RPCError)
    /// It is gone, or never came to be.
    func connectionClosed(_ connection: ClientConnection, _ error: RPCError)
    /// The server asks for fewer keepalive pings.
    func connectionPingedTooOften(_ connection: ClientConnection)
  }

  private enum Phase {
    case connecting
    case open
    case draining
    case closed
  }

  let eventLoop: any EventLoop
  let settings: Settings
  private weak let owner: (any Owner)?

  private var phase = Phase.connecting
  private(set) var session: HTTP2ClientSession?
  private var context: ChannelHandlerContext?
  private var waiting = Deque<ClientAttempt>()
  private var running = 0
  /// Why the connection ended, once it has: what its calls are told.
  private(set) var loss: RPCError?
  /// Whether the server has begun to answer a call.
  private(set) var hasAnswered = false
  private var connectTimer: Scheduled<Void>?
  private var isReading = false
  private var isProducing = false
  private var isFlushScheduled = false
  // Keepalive.
  private var lastRead = NIODeadline.now()
  private var keepaliveTimer: Scheduled<Void>?
  private var isAwaitingPing = false
  /// When the last call ended, and what sees to it that a connection without calls is closed.
  private var lastCall = NIODeadline.now()
  private var idleTimer: Scheduled<Void>?

  init(eventLoop: any EventLoop, settings: Settings, owner: any Owner) {
    self.eventLoop = eventLoop
    self.settings = settings
    self.owner = owner
  }

  /// Runs `body` on the event loop: at once when already there.
  func onEventLoop(_ body: @escaping @Sendable () -> Void) {
    if eventLoop.inEventLoop { body() } else { eventLoop.execute(body) }
  }

  // MARK: - Calls

  /// Opens a stream for an attempt, or lets it wait for one.
  func admit(_ attempt: ClientAttempt) {
    guard let session, phase == .open else {
      attempt.release(loss ?? RPCError(.unavailable, "the connection is draining"))
      return
    }
    if running < capacity(session), waiting.isEmpty {
      attempt.open(session)
      flushSoon()
    } else if waiting.count < Limits.queuedCallsPerConnection {
      waiting.append(attempt)
    } else {
      attempt.refuse(RPCError(.resourceExhausted, "too many calls wait for a stream"))
    }
  }

  private func capacity(_ session: HTTP2ClientSession) -> Int {
    min(Int(session.peerConcurrentStreams), Limits.callsPerConnection)
  }

  /// An attempt has its stream.
  func opened() {
    running += 1
    if running == 1 { scheduleKeepalive() }
  }

  /// The server has begun to answer an attempt.
  func answered() {
    hasAnswered = true
  }

  /// A stream is gone: the next attempt in the queue takes its place.
  func closed() {
    running -= 1
    if running == 0 { lastCall = .now() }
    admitWaiting()
    if phase == .draining, running == 0 { flushSoon() }
  }

  private func admitWaiting() {
    guard let session, phase == .open else { return }
    while running < capacity(session), let next = waiting.popFirst() {
      if next.isWaiting { next.open(session) }
    }
  }

  /// Stops new calls, lets those on their way finish, then closes.
  func shutDown() {
    guard phase == .open || phase == .connecting else { return }
    guard phase == .open else {
      close(RPCError(.unavailable, "the channel was closed"))
      return
    }
    finishCalls(RPCError(.unavailable, "the channel was closed"))
  }

  private func finishCalls(_ error: RPCError) {
    session?.shutDown()
    drain(error)
    flushSoon()
  }

  /// Closes now; calls on their way fail with `error`.
  func close(_ error: RPCError) {
    if loss == nil { loss = error }
    if let context { context.close(promise: nil) } else { end() }
  }

  private func drain(_ error: RPCError) {
    phase = .draining
    owner?.connectionDraining(self, error)
    let released = waiting
    waiting.removeAll()
    for attempt in released { attempt.release(error) }
  }

  // MARK: - The channel

  func handlerAdded(context: ChannelHandlerContext) {
    guard phase != .closed else {
      // Closed before its channel was there: nobody would close it later.
      context.close(promise: nil)
      return
    }
    self.context = context
    connectTimer = eventLoop.assumeIsolated().scheduleTask(in: settings.connectTimeout) { [weak self] in
      self?.close(RPCError(.unavailable, "the connection took too long to come up"))
    }
    if context.channel.isActive, !settings.isSecure { startSession(context) }
  }

  func channelActive(context: ChannelHandlerContext) {
    if !settings.isSecure { startSession(context) }
    context.fireChannelActive()
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if event is TLSHandshakeFinished { startSession(context) }
    context.fireUserInboundEventTriggered(event)
  }

  private func startSession(_ context: ChannelHandlerContext) {
    guard session == nil, phase == .connecting else { return }
    do {
      let session = try HTTP2ClientSession(allocator: context.channel.allocator, now: .now())
      session.delegate = self
      self.session = session
      flush()
    } catch {
      close(RPCError(.internal, "no HTTP/2 session: \(error)"))
    }
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard let session else { return }
    lastRead = .now()
    isReading = true
    // The session keeps no pointer into the buffer.
    unsafe unwrapInboundIn(data).withUnsafeReadableBytes { bytes in
      unsafe session.receive(bytes, now: lastRead)
    }
    isReading = false
    if session.failure != nil, loss == nil {
      loss = RPCError(.unavailable, "the HTTP/2 connection failed")
    }
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    flush()
    context.fireChannelReadComplete()
  }

  func channelWritabilityChanged(context: ChannelHandlerContext) {
    flush()
    context.fireChannelWritabilityChanged()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    if loss == nil { loss = RPCError(.unavailable, "the connection failed: \(error)") }
    context.close(promise: nil)
  }

  func channelInactive(context: ChannelHandlerContext) {
    end()
    context.fireChannelInactive()
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    end()
  }

  /// The connection never came up.
  func failed(_ error: any Error) {
    if loss == nil {
      loss = RPCError(.unavailable, "cannot connect to \(settings.authority): \(ConnectFailure.text(error))")
    }
    end()
  }

  private func end() {
    guard phase != .closed else { return }
    let error = loss ?? RPCError(.unavailable, "the server closed the connection")
    loss = error
    phase = .closed
    context = nil
    connectTimer?.cancel()
    keepaliveTimer?.cancel()
    idleTimer?.cancel()
    owner?.connectionClosed(self, error)
    let released = waiting
    waiting.removeAll()
    for attempt in released { attempt.release(error) }
    session?.abandon()
  }

  // MARK: - Writing

  /// Writes once the work of this pass of the event loop is done: calls that start together share a write.
  func flushSoon() {
    guard !isReading, !isProducing, !isFlushScheduled, phase != .closed else { return }
    isFlushScheduled = true
    eventLoop.execute {
      self.isFlushScheduled = false
      self.flush()
    }
  }

  private func flush() {
    guard let session, let context, !isProducing, phase != .closed else { return }
    isProducing = true
    defer { isProducing = false }
    do {
      while context.channel.isWritable {
        try session.produce()
        guard session.output.readableBytes > 0 else { break }
        let output = session.output
        session.output = ByteBuffer()
        context.writeAndFlush(wrapOutboundOut(output), promise: nil)
      }
    } catch {
      close(RPCError(.unavailable, "the HTTP/2 session failed: \(error)"))
      return
    }
    // Nothing more is expected either way: a GOAWAY was sent or received and the last call is done.
    if context.channel.isWritable, !session.wantsToWrite, !session.wantsToRead || isDrained {
      context.close(promise: nil)
    }
  }

  private var isDrained: Bool { phase == .draining && running == 0 }

  // MARK: - The session

  func session(_ session: HTTP2ClientSession, receivedSettings acknowledged: Bool) {
    guard !acknowledged else { return }
    if phase == .connecting {
      phase = .open
      connectTimer?.cancel()
      connectTimer = nil
      scheduleKeepalive()
      lastCall = .now()
      watchIdle()
      owner?.connectionOpened(self)
    }
    admitWaiting()
  }

  func session(_ session: HTTP2ClientSession, receivedPing payload: UInt64, acknowledged: Bool) {
    if acknowledged { isAwaitingPing = false }
  }

  func session(
    _ session: HTTP2ClientSession,
    receivedGoAway code: HTTP2ErrorCode,
    lastStreamID: Int32,
    debug: [UInt8]
  ) {
    if code == .enhanceYourCalm, debug == Array("too_many_pings".utf8) { owner?.connectionPingedTooOften(self) }
    let reason = debug.isEmpty ? "" : ": " + String(decoding: debug.prefix(128), as: UTF8.self)
    let error = RPCError(.unavailable, "the server is going away\(reason)")
    if code != .noError, loss == nil { loss = error }
    switch phase {
    case .open: drain(error)
    case .connecting: close(error)
    case .draining, .closed: return
    }
  }

  // MARK: - Idleness

  /// Looks again when the connection may have been without a call for long enough.
  private func watchIdle() {
    let due = (running == 0 ? lastCall : .now()) + settings.idleTimeout
    idleTimer = eventLoop.assumeIsolated().scheduleTask(deadline: due) { [weak self] in self?.idleDue() }
  }

  private func idleDue() {
    idleTimer = nil
    guard phase == .open else { return }
    guard running == 0, waiting.isEmpty, lastCall + settings.idleTimeout <= .now() else { return watchIdle() }
    // The next call opens another one.
    finishCalls(RPCError(.unavailable, "the connection was idle"))
  }

  // MARK: - Keepalive

  private func scheduleKeepalive() {
    guard let policy = settings.keepalive, keepaliveTimer == nil, phase == .open || phase == .draining else { return }
    guard policy.withoutCalls || running > 0 else { return }
    scheduleKeepalive(policy, at: lastRead + policy.interval)
  }

  private func scheduleKeepalive(_ policy: KeepalivePolicy, at deadline: NIODeadline) {
    keepaliveTimer = eventLoop.assumeIsolated().scheduleTask(deadline: deadline) { [weak self] in
      self?.keepaliveDue(policy)
    }
  }

  private func keepaliveDue(_ policy: KeepalivePolicy) {
    keepaliveTimer = nil
    guard phase == .open || phase == .draining else { return }
    if isAwaitingPing {
      close(RPCError(.unavailable, "the server gave no sign of life"))
      return
    }
    guard policy.withoutCalls || running > 0 else { return }
    let due = lastRead + policy.interval
    guard due <= .now() else {
      scheduleKeepalive(policy, at: due)
      return
    }
    isAwaitingPing = true
    session?.ping(UInt64(truncatingIfNeeded: due.uptimeNanoseconds))
    flush()
    scheduleKeepalive(policy, at: .now() + policy.timeout)
  }
}
