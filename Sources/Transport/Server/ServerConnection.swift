internal import GRPC
internal import HTTP2
internal import Logging
internal import NIOCore

/// One HTTP/2 connection of a server, between its channel and its streams.
///
/// A read pass takes what the socket had, lets the session and the handlers work, and ends with one write.
final class ServerConnection: ChannelDuplexHandler, HTTP2SessionDelegate, @unchecked Sendable {
  // Unchecked: only touched on its event loop.
  typealias InboundIn = ByteBuffer
  typealias OutboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  let environment: ServerEnvironment
  let eventLoop: any EventLoop
  let executor: EventLoopTaskExecutor
  private(set) var peer: Peer
  private(set) var session: HTTP2Session?
  /// The time of the current pass, by the loop's clock and by the one that callers see.
  private(set) var now = NIODeadline.now()
  private(set) var clock = ContinuousClock.Instant.now

  private var context: ChannelHandlerContext?
  private var streams: [ServerStream] = []
  private var free: [ServerStream] = []
  private var isReading = false
  private var isFlushScheduled = false
  /// The peer does not take our bytes: reading on would only make more of them.
  private var isReadHeld = false
  private var timers: ConnectionTimers
  private var timer: Scheduled<Void>?
  private var timerDeadline: NIODeadline?
  private var drain = Drain.none
  private var lastPing: NIODeadline?
  private var pingStrikes = 0

  private enum Drain {
    case none
    /// GOAWAY 2^31-1 is out; its PING is under way.
    case announced
    /// The last stream is fixed.
    case fixed
  }

  init(environment: ServerEnvironment, executor: EventLoopTaskExecutor, peer: Peer) {
    self.environment = environment
    self.executor = executor
    self.eventLoop = executor.eventLoop
    self.peer = peer
    timers = ConnectionTimers()
  }

  // MARK: The channel

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    refreshTime()
    do throws(HTTP2Error) {
      let session = try HTTP2Session(
        role: .server,
        limits: environment.configuration.http2,
        allocator: context.channel.allocator,
        now: now
      )
      session.delegate = self
      self.session = session
    } catch {
      environment.logger.error("no HTTP/2 session", metadata: ["error": "\(error)"])
      context.close(promise: nil)
      return
    }
    timers[.settings] = now + Limits.settingsTimeout
    timers[.idle] = now + environment.configuration.idleTimeout
    if let age = environment.configuration.maximumAge {
      // Spread by a tenth each way, so that clients that came together do not come back together.
      let spread = Int64.random(in: -100...100)
      timers[.age] = now + .nanoseconds(age.nanoseconds + age.nanoseconds / 1000 * spread)
    }
    rearm()
    wantOutput()
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    shutDown()
    self.context = nil
  }

  func channelInactive(context: ChannelHandlerContext) {
    shutDown()
    context.fireChannelInactive()
  }

  private func shutDown() {
    timer?.cancel()
    timer = nil
    guard let session else { return }
    session.abandon()
    self.session = nil
    free = []
    streams = []
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    environment.logger.debug("connection failed", metadata: ["error": "\(error)"])
    context.close(promise: nil)
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard let session else { return }
    if !isReading {
      isReading = true
      refreshTime()
    }
    let bytes = unwrapInboundIn(data)
    // The session keeps no pointer into the buffer.
    unsafe bytes.withUnsafeReadableBytes { unsafe session.receive($0, now: now) }
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    isReading = false
    flush()
    context.fireChannelReadComplete()
  }

  func read(context: ChannelHandlerContext) {
    if context.channel.isWritable { context.read() } else { isReadHeld = true }
  }

  func channelWritabilityChanged(context: ChannelHandlerContext) {
    if context.channel.isWritable {
      timers[.stalledWrite] = nil
      flush()
      if isReadHeld {
        isReadHeld = false
        context.read()
      }
    } else {
      timers[.stalledWrite] = NIODeadline.now() + Limits.stalledWriteTimeout
      rearm()
    }
    context.fireChannelWritabilityChanged()
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if event is ServerDrain {
      beginDrain()
    } else if case ChannelEvent.inputClosed = event {
      // The peer has gone; what it asked for has no reader.
      context.close(promise: nil)
    } else {
      context.fireUserInboundEventTriggered(event)
    }
  }

  // MARK: Output

  /// There is something to send: at the end of this read pass, or soon.
  func wantOutput() {
    guard !isReading, !isFlushScheduled else { return }
    isFlushScheduled = true
    eventLoop.execute {
      self.isFlushScheduled = false
      guard !self.isReading else { return }
      self.flush()
    }
  }

  private func flush() {
    guard let session, let context else { return }
    var isWritten = false
    while context.channel.isWritable {
      do throws(HTTP2Error) {
        try session.produce()
      } catch {
        environment.logger.debug("session failed", metadata: ["error": "\(error)"])
        context.close(promise: nil)
        return
      }
      guard session.output.readableBytes > 0 else { break }
      context.write(wrapOutboundOut(session.output), promise: nil)
      isWritten = true
      // The write holds the bytes until the socket has them; then the memory is the session's own again.
      session.output = ByteBuffer()
      guard session.wantsToWrite else { break }
    }
    if isWritten { context.flush() }
    closeIfOver(session, context)
  }

  private func closeIfOver(_ session: HTTP2Session, _ context: ChannelHandlerContext) {
    if session.failure != nil {
      guard timers[.closing] == nil else { return }
      timers[.closing] = NIODeadline.now() + Limits.closingTimeout
      rearm()
      // Completes when the bytes before it are written.
      context.writeAndFlush(wrapOutboundOut(ByteBuffer())).assumeIsolated().whenComplete { [self] _ in
        self.context?.close(promise: nil)
      }
    } else if !session.wantsToRead, !session.wantsToWrite {
      context.close(promise: nil)
    }
  }

  // MARK: The session

  func session(_ session: HTTP2Session, opened stream: HTTP2Stream) -> any HTTP2StreamHandler {
    let handler: ServerStream
    if let kept = free.popLast() {
      handler = kept
    } else {
      handler = ServerStream(connection: self)
      streams.append(handler)
    }
    handler.begin(stream, now: now)
    timers[.idle] = nil
    if streams.count - free.count > Limits.handlersPerConnection { session.reset(stream, .refusedStream) }
    return handler
  }

  func session(_ session: HTTP2Session, receivedSettings acknowledged: Bool) {
    if acknowledged { timers[.settings] = nil }
  }

  func session(_ session: HTTP2Session, receivedPing payload: UInt64, acknowledged: Bool) {
    if acknowledged {
      if drain == .announced { fixDrain() }
      return
    }
    let interval = session.openStreams > 0 ? Limits.busyPingInterval : Limits.idlePingInterval
    if let lastPing, now - lastPing < interval { pingStrikes += 1 }
    lastPing = now
    if pingStrikes > Limits.pingStrikes { session.terminate(.enhanceYourCalm, debug: "too_many_pings") }
  }

  func session(_ session: HTTP2Session, receivedGoAway code: HTTP2ErrorCode, lastStreamID: Int32, debug: [UInt8]) {}

  /// Something of an answer went out: pings are no longer the only traffic. Clients that measure their bandwidth ping
  /// while an answer streams in.
  func answered() {
    pingStrikes = 0
    lastPing = nil
  }

  /// A stream of this connection is gone.
  func streamClosed() {
    answered()
    guard let session, session.openStreams <= 1 else { return }
    timers[.idle] = now + environment.configuration.idleTimeout
    watch(now + environment.configuration.idleTimeout)
  }

  func recycle(_ stream: ServerStream) {
    guard session != nil else { return }
    free.append(stream)
  }

  // MARK: Drain

  private func beginDrain() {
    guard drain == .none, let session else { return }
    drain = .announced
    now = .now()
    session.announceShutdown()
    session.ping(0x6c61_7463_686b_6579)
    timers[.drainRoundTrip] = now + Limits.drainRoundTrip
    timers[.drainGrace] = now + environment.configuration.drainGrace
    rearm()
    wantOutput()
  }

  private func fixDrain() {
    guard drain == .announced, let session else { return }
    drain = .fixed
    timers[.drainRoundTrip] = nil
    session.shutDown()
    wantOutput()
  }

  // MARK: Time

  private func refreshTime() {
    now = .now()
    clock = .now
  }

  /// Sees to it that `deadline` is noticed.
  func watch(_ deadline: NIODeadline) {
    guard session != nil else { return }
    if let timerDeadline, timerDeadline <= deadline { return }
    timer?.cancel()
    timerDeadline = deadline
    // Held strongly until `shutDown` cancels it: a weak reference would make every later use of `self` slower.
    timer = eventLoop.assumeIsolated().scheduleTask(deadline: deadline) { self.timeHasCome() }
  }

  private func rearm() {
    if let next = timers.earliest { watch(next) }
  }

  private func timeHasCome() {
    timer = nil
    timerDeadline = nil
    refreshTime()
    for stream in streams {
      if let deadline = stream.deadline, deadline <= now { stream.expire() }
    }
    for event in timers.takeDue(now) { handle(event) }
    guard session != nil else { return }
    rearm()
    if let next = streams.compactMap(\.deadline).min() { watch(next) }
    flush()
  }

  private func handle(_ event: ConnectionTimers.Event) {
    guard let session, let context else { return }
    switch event {
    case .settings: session.terminate(.settingsTimeout)
    case .idle:
      if session.openStreams == 0 { session.shutDown() }
    case .age: beginDrain()
    case .drainRoundTrip: fixDrain()
    case .drainGrace, .stalledWrite, .closing: context.close(promise: nil)
    }
  }
}

/// Asks a connection to finish what it has begun and close: a user event of its channel.
struct ServerDrain: Sendable {}
