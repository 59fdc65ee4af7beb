internal import GRPC
internal import HTTP2
internal import Logging
internal import NIOCore

/// One HTTP/2 connection of a server, between its channel and its streams.
///
/// A read pass takes what the socket had, lets the session and the handlers work, and ends with one write.
final class ServerConnection: ChannelDuplexHandler, HTTP2ServerSessionDelegate, @unchecked Sendable {
  // Unchecked: only touched on its event loop.
  typealias InboundIn = ByteBuffer
  typealias OutboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  let environment: ServerEnvironment
  let eventLoop: any EventLoop
  let executor: EventLoopTaskExecutor
  private let isNextToSocket: Bool
  let peer: ConnectionPeer
  private(set) var session: HTTP2ServerSession?
  /// The time of the current pass.
  private(set) var now: NIODeadline

  private var context: ChannelHandlerContext?
  /// Nil when there is another handler between this one and the socket, or no socket.
  private var socket: SocketWriter?
  private var streams: [ServerStream] = []
  private var free: [ServerStream] = []
  /// The calls that this pass has answered directly.
  private var directCalls: DirectCalls?
  /// Where such an answer is made. Empty between calls.
  private var directAnswer = ByteBuffer()
  private var isReading = false
  private var isFlushScheduled = false
  private var isFlushing = false
  /// Whether the header block that is being received has its timer.
  private var isBlockTimed = false
  /// What the channel last said of itself.
  private var isWritable = true
  /// The peer does not take our bytes, or its last turn was too short for what it asked: reading on would only make
  /// more of it.
  private var isReadHeld = false
  /// What was read and has to wait for a turn.
  private var rest: ByteBuffer?
  /// There is output for whose writing the turn was too short.
  private var hasLateOutput = false
  private var isTurnComing = false
  /// The peer was too fast: it is not read for a while.
  private var isPaused = false
  /// Passes in a row that did not overrun their turn, up to what counts.
  private var passesKept = 0
  private var timers: ConnectionTimers
  private var timer: Scheduled<Void>?
  private var timerDeadline: NIODeadline?
  private var drain = Drain.none
  /// When the peer last gave a sign of life.
  private var lastRead: NIODeadline
  /// When it was last asked for one.
  private var lastAsked: NIODeadline
  private var smallData: Budget
  /// What the server's budget was last told that this connection holds.
  private var reportedBytes = 0
  /// Bytes of requests that streams keep beyond the windows.
  var heldBytes = 0
  private var lastPing: NIODeadline?
  private var pingStrikes = 0
  /// The shortest time that any request here had which may be answered directly.
  private var shortestDirectLimit = TimeAmount.minutes(5)

  private enum Drain {
    case none
    /// GOAWAY 2^31-1 is out; its PING is under way.
    case announced
    /// The last stream is fixed.
    case fixed
  }

  /// - Parameter isNextToSocket: no other handler changes what this one writes.
  init(
    environment: ServerEnvironment,
    executor: EventLoopTaskExecutor,
    peer: ConnectionPeer,
    isNextToSocket: Bool = false
  ) {
    self.environment = environment
    self.executor = executor
    self.isNextToSocket = isNextToSocket
    self.eventLoop = executor.eventLoop
    self.peer = peer
    timers = ConnectionTimers()
    now = executor.eventLoop.now
    lastRead = now
    lastAsked = now
    smallData = Budget(Limits.smallDataFrames, now: now)
  }

  // MARK: The channel

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    if isNextToSocket { socket = SocketWriter(context) }
    executor.caughtUp = { [unowned self] in readOn() }
    now = eventLoop.now
    do throws(HTTP2Error) {
      let session = try HTTP2ServerSession(
        limits: environment.configuration.http2,
        common: ServerFields.common,
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
    timers[.keepalive] = now + environment.configuration.keepalive.interval
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
    executor.caughtUp = nil
    self.context = nil
    socket = nil
  }

  func channelInactive(context: ChannelHandlerContext) {
    shutDown()
    context.fireChannelInactive()
  }

  private func shutDown() {
    timer?.cancel()
    timer = nil
    guard let session else { return }
    self.session = nil
    rest = nil
    // Dozens of streams, with their calls and what waits in them.
    executor.turns.soon { [self] in
      session.abandon()
      environment.budget.buffered(-reportedBytes, peer.account)
      reportedBytes = 0
      free = []
      streams = []
    }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    environment.logger.debug("connection failed", metadata: ["error": "\(error)"])
    context.close(promise: nil)
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard let session else { return }
    if !isReading {
      beginPass()
      lastRead = now
      executor.turnEnd = executor.turns.end(ofTurnFrom: now)
    }
    var bytes = unwrapInboundIn(data)
    guard rest == nil else {
      rest?.writeBuffer(&bytes)
      return
    }
    guard bytes.readableBytes < Limits.promptBytes || mayReadMuch else {
      rest = bytes
      return waitForTurn()
    }
    // The session keeps no pointer into the buffer.
    unsafe bytes.withUnsafeReadableBytes { unsafe session.receive($0, now: now) }
    guard session.untaken > 0 else { return }
    bytes.moveReaderIndex(to: bytes.writerIndex - session.untaken)
    rest = bytes
    passesKept = 0
    waitForTurn()
  }

  /// Whether a read of many bytes is worked on at once: for who is known to keep to its turns unless many wait for
  /// theirs, for others while there is time.
  private var mayReadMuch: Bool {
    guard !executor.turns.isCrowded else { return false }
    return passesKept >= Limits.passesKept || executor.turns.admits(at: now)
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    guard isReading else { return }
    executor.turns.worked(from: now, until: endPass())
  }

  private func beginPass() {
    isReading = true
    now = eventLoop.now
  }

  /// Answers when the pass ended.
  @discardableResult
  private func endPass() -> NIODeadline {
    // Nobody comes behind this handler who would want to know.
    isReading = false
    if passesKept < Limits.passesKept { passesKept += 1 }
    flush()
    let end = eventLoop.now
    if directCalls != nil { reportAnswered(at: end) }
    if let session, session.undecided > 0 || session.isReceivingBlock || isBlockTimed { watchHalfRequests(session) }
    return end
  }

  func read(context: ChannelHandlerContext) {
    if isWritable, !isBehind { context.read() } else { isReadHeld = true }
  }

  /// Reads if that was held and the reasons are gone.
  private func readOn() {
    guard isReadHeld, isWritable, !isBehind else { return }
    isReadHeld = false
    context?.read()
  }

  func channelWritabilityChanged(context: ChannelHandlerContext) {
    isWritable = context.channel.isWritable
    if isWritable {
      timers[.stalledWrite] = nil
      // A flush that is under way goes on by itself.
      if !isFlushing {
        if eventLoop.now >= executor.turnEnd || !executor.turns.promptly({ flush() }) { hasLateOutput = true }
        waitForTurn()
      }
      readOn()
    } else {
      timers[.stalledWrite] = eventLoop.now + environment.configuration.stalledWriteTimeout
      rearm()
    }
    context.fireChannelWritabilityChanged()
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if event is ServerDrain {
      beginDrain()
    } else if event is ServerPressure {
      makeRoom()
    } else if let shed = event as? ServerShed {
      giveUp(shed)
    } else if event is ServerDisplacement {
      leave()
    } else if case ChannelEvent.inputClosed = event {
      // The peer has gone; what it asked for has no reader.
      executor.turns.soon { self.context?.close(promise: nil) }
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
      guard !self.isReading, !self.executor.turns.promptly({ self.flush() }) else { return }
      self.hasLateOutput = true
      self.waitForTurn()
    }
  }

  private func flush() {
    guard let session, let context, !isFlushing else { return }
    isFlushing = true
    while isWritable, self.session != nil {
      session.produce()
      guard session.output.readableBytes > 0 else { break }
      var bytes = ByteBuffer()
      swap(&bytes, &session.output)
      let hasMore = session.wantsToWrite
      if socket?.write(&bytes) != true { context.writeAndFlush(wrapOutboundOut(bytes), promise: nil) }
      if !hasMore {
        // The memory is the session's again once the socket has the bytes, which mostly is by now.
        if session.output.capacity == 0, bytes.capacity <= Limits.keptOutputCapacity {
          bytes.clear()
          session.output = bytes
        }
        break
      }
      guard eventLoop.now < executor.turnEnd else {
        // A peer that reads as fast as we write would have us write all that there is.
        hasLateOutput = true
        passesKept = 0
        break
      }
    }
    isFlushing = false
    // A write that fails closes the channel within the call: then nothing is held that anybody would give back.
    guard self.session != nil else { return }
    waitForTurn()
    reportBuffered(session, context)
    if session.hasBlockedStreams, timers[.blockedStreams] == nil {
      timers[.blockedStreams] = eventLoop.now + blockedInterval
      rearm()
    }
    if session.hasSpares || free.count > Limits.streamsKeptWhenQuiet, timers[.spares] == nil {
      timers[.spares] = eventLoop.now + Limits.quietTime
      rearm()
    }
    closeIfOver(session, context)
  }

  /// Between two looks at streams that wait for windows: all of them but the first take the peer's time.
  private var blockedInterval: TimeAmount {
    .nanoseconds(environment.configuration.stalledWriteTimeout.nanoseconds / Int64(HTTP2.Limits.looksAtBlocked - 1))
  }

  /// Tells the server's budget what this connection holds, when that has changed by something.
  private func reportBuffered(_ session: HTTP2ServerSession, _ context: ChannelHandlerContext) {
    var bytes = session.bufferedBytes + heldBytes
    if bytes | reportedBytes == 0, context.channel.isWritable { return }
    if !context.channel.isWritable, let options = context.channel.syncOptions {
      // What the socket has not taken. A channel that cannot tell has no socket.
      bytes += (try? options.getOption(.bufferedWritableBytes)) ?? 0
    }
    guard abs(bytes - reportedBytes) >= Limits.budgetStep || bytes == 0 else { return }
    environment.budget.buffered(bytes - reportedBytes, peer.account)
    reportedBytes = bytes
  }

  /// Whether there is room for a call of the source that is not answered at once.
  func hasRoom(_ account: SourceAccount) -> Bool {
    let budget = environment.budget
    return (session?.bufferedBytes ?? 0) + heldBytes < budget.bounds.connectionBytes && budget.hasRoom(for: account)
  }

  private func closeIfOver(_ session: HTTP2ServerSession, _ context: ChannelHandlerContext) {
    if session.failure != nil {
      guard timers[.closing] == nil else { return }
      timers[.closing] = eventLoop.now + Limits.closingTimeout
      rearm()
      // Completes when the bytes before it are written.
      context.writeAndFlush(wrapOutboundOut(ByteBuffer())).assumeIsolated().whenComplete { [self] _ in
        self.context?.close(promise: nil)
      }
    } else if !session.wantsToRead, !session.wantsToWrite {
      context.close(promise: nil)
    }
  }

  // MARK: Turns

  func sessionMayGoOn(_ session: HTTP2ServerSession) -> Bool {
    eventLoop.now < executor.turnEnd
  }

  func sessionIsOverrun(_ session: HTTP2ServerSession) {
    guard !isPaused else { return }
    isPaused = true
    timers[.pause] = now + Limits.overrunPause
    rearm()
  }

  /// Whether it is us who hold the peer up: what it has sent waits for a turn, and what it sends after that is not read.
  var isBehind: Bool { rest != nil || executor.isBehind || isPaused }

  /// Until the peer takes its answers there is no turn for more of its requests.
  private func waitForTurn() {
    guard rest != nil || hasLateOutput, isWritable, !isTurnComing else { return }
    isTurnComing = true
    executor.turns.wait(self)
  }

  // MARK: The session

  func session(_ session: HTTP2ServerSession, received block: HTTP2RequestBlock) {
    let request = ServerRequest(block, environment, peer)
    block.meaning = request
    guard let direct = request.direct else { return }
    block.allowsDirectAnswer = true
    shortestDirectLimit = min(shortestDirectLimit, direct.timeLimit)
  }

  func session(
    _ session: HTTP2ServerSession,
    answersDirectly stream: HTTP2Stream,
    _ block: HTTP2RequestBlock,
    _ body: UnsafeRawBufferPointer
  ) -> Bool {
    guard let meaning = block.meaning else { return false }
    // Only `session(_:received:)` sets it.
    let request = unsafe unsafeDowncast(meaning, to: ServerRequest.self)
    guard let direct = request.direct else { return false }
    do throws(RPCError) {
      // Read before the call returns.
      guard unsafe try direct.answer(body, into: &directAnswer) else { return false }
    } catch {
      let handler = handler()
      session.adopt(stream, handler)
      handler.fail(stream, request, error, now: now)
      return true
    }
    session.answer(stream, &directAnswer)
    directAnswer.clear()
    if directCalls !== direct {
      // A pass rarely brings calls of two kinds.
      reportAnswered(at: eventLoop.now)
      directCalls = direct
    }
    return true
  }

  func session(_ session: HTTP2ServerSession, foresees body: UnsafeRawBufferPointer) -> Bool {
    // Most likely another call like the last. Read before the call returns.
    guard let directCalls else { return false }
    return unsafe directCalls.foresee(body)
  }

  /// Tells the interceptors of the calls that this pass answered: each of them took as long as the pass.
  private func reportAnswered(at end: NIODeadline) {
    guard let direct = directCalls else { return }
    directCalls = nil
    direct.report(nanoseconds: (end - now).nanoseconds)
    answered()
  }

  func session(
    _ session: HTTP2ServerSession,
    opened stream: HTTP2Stream,
    _ block: HTTP2RequestBlock
  ) -> any HTTP2StreamHandler {
    let handler = handler()
    let request = block.meaning as? ServerRequest ?? ServerRequest(block, environment, peer)
    if streams.count - free.count > Limits.handlersPerConnection {
      handler.refuse(stream)
      session.reset(stream, .refusedStream)
    } else {
      handler.begin(stream, request, now: now)
    }
    return handler
  }

  private func handler() -> ServerStream {
    if let kept = free.popLast() { return kept }
    let handler = ServerStream(connection: self)
    streams.append(handler)
    return handler
  }

  func session(_ session: HTTP2ServerSession, receivedSettings acknowledged: Bool) {
    if acknowledged { timers[.settings] = nil }
  }

  func session(_ session: HTTP2ServerSession, receivedPing payload: UInt64, acknowledged: Bool) {
    if acknowledged {
      if drain == .announced, payload != Self.keepalivePayload { fixDrain() }
      return
    }
    let interval = session.openStreams > 0 ? Limits.busyPingInterval : Limits.idlePingInterval
    if let lastPing, now - lastPing < interval { pingStrikes += 1 }
    lastPing = now
    if pingStrikes > Limits.pingStrikes { session.terminate(.enhanceYourCalm, debug: "too_many_pings") }
  }

  /// Something of an answer went out: pings are no longer the only traffic. Clients that measure their bandwidth ping
  /// while an answer streams in.
  func answered() {
    pingStrikes = 0
    lastPing = nil
  }

  /// A stream of this connection is gone.
  func streamClosed() {
    answered()
  }

  func recycle(_ stream: ServerStream) {
    guard session != nil else { return }
    free.append(stream)
  }

  /// Others want this connection's place: it goes if it has had no stream for a while.
  private func makeRoom() {
    guard let session, session.openStreams == 0, eventLoop.now - session.lastStream >= Limits.pressureIdleTime else {
      return
    }
    session.shutDown()
    wantOutput()
  }

  /// Sources hold more than their share, and this connection may have some of it.
  private func giveUp(_ shed: ServerShed) {
    guard session != nil else { return }
    now = eventLoop.now
    // The newest first, which have waited least.
    for stream in streams.sorted(by: { $0.number > $1.number }) {
      guard let account = stream.waitingAccount, let excess = shed.calls(of: account), excess.take() else { continue }
      stream.shed()
    }
    guard reportedBytes > 0, let excess = shed.bytes(of: peer.account) else { return }
    // Those that hold the most first. A socket that takes nothing holds the rest.
    for stream in streams.sorted(by: { $0.heldBytes > $1.heldBytes }) where stream.heldBytes > 0 {
      guard excess.take(stream.heldBytes) else { return wantOutput() }
      stream.resetByShedding()
    }
    if isWritable { wantOutput() } else if excess.take(reportedBytes) { context?.close(promise: nil) }
  }

  /// The connection's place is another source's, which has fewer.
  private func leave() {
    session?.terminate(.enhanceYourCalm, debug: "too_many_connections")
    // A peer that takes nothing hears nothing.
    if isWritable { wantOutput() } else { context?.close(promise: nil) }
  }

  // MARK: Memory

  /// Frees what is kept for streams to come, which have not for a while.
  private func freeSpares(_ session: HTTP2ServerSession) {
    let spares = Set(free.map(ObjectIdentifier.init))
    streams = streams.filter { !spares.contains(ObjectIdentifier($0)) }
    free = []
    directAnswer = ByteBuffer()
    session.freeSpares()
  }

  // MARK: Drain

  private func beginDrain() {
    guard drain == .none, let session else { return }
    drain = .announced
    now = eventLoop.now
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

  // MARK: Signs of life

  /// Tells the answer to a keepalive PING from that to a drain's.
  private static let keepalivePayload: UInt64 = 0x616c_6976_653f_3f3f

  /// A message is complete: a library that sends its prefix apart from it may do so.
  func receivedMessage() {
    smallData.earn()
  }

  /// A DATA frame of a few bytes came that completed no message.
  func receivedSmallData() {
    guard !smallData.spend(now: now) else { return }
    session?.terminate(.enhanceYourCalm, debug: "too_many_small_frames")
    wantOutput()
  }

  // MARK: Time

  /// What has begun and not ended has a time by which it must: a header block, and requests whose body is to come.
  private func watchHalfRequests(_ session: HTTP2ServerSession) {
    if session.isReceivingBlock != isBlockTimed {
      isBlockTimed.toggle()
      timers[.headerBlock] = isBlockTimed ? now + Limits.headerBlockTimeout : nil
      rearm()
    }
    if session.undecided > 0 { watch(now + shortestDirectLimit) }
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
    now = eventLoop.now
    session?.decideAll()
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
    case .settings where isBehind: timers[.settings] = now + Limits.settingsTimeout
    case .settings: session.terminate(.settingsTimeout)
    case .headerBlock where isBehind: timers[.headerBlock] = now + Limits.headerBlockTimeout
    case .headerBlock:
      // The peer did not finish its header block, so the connection cannot go on either.
      session.terminate(.enhanceYourCalm, debug: "header_timeout")
    case .idle:
      let end = session.lastStream + environment.configuration.idleTimeout
      if session.openStreams > 0 {
        timers[.idle] = now + environment.configuration.idleTimeout
      } else if end > now {
        timers[.idle] = end
      } else {
        session.shutDown()
      }
    case .keepalive:
      let end = lastRead + environment.configuration.keepalive.interval
      if session.openStreams == 0 {
        // Idle: it has its own end.
        timers[.keepalive] = now + environment.configuration.keepalive.interval
      } else if end > now {
        timers[.keepalive] = end
      } else {
        session.ping(Self.keepalivePayload)
        lastAsked = now
        timers[.keepaliveAnswer] = now + environment.configuration.keepalive.timeout
      }
    case .keepaliveAnswer where isBehind:
      timers[.keepaliveAnswer] = now + environment.configuration.keepalive.timeout
    case .keepaliveAnswer:
      guard lastRead > lastAsked else { return context.close(promise: nil) }
      timers[.keepalive] = lastRead + environment.configuration.keepalive.interval
    case .blockedStreams: session.lookAtBlockedStreams()
    case .spares:
      let end = session.lastStream + Limits.quietTime
      if end > now { timers[.spares] = end } else { freeSpares(session) }
    case .pause:
      isPaused = false
      readOn()
    case .age: beginDrain()
    case .drainRoundTrip: fixDrain()
    case .drainGrace, .stalledWrite, .closing: context.close(promise: nil)
    }
  }
}

extension ServerConnection: TurnTaker {
  func takeTurn(until end: NIODeadline) -> Bool {
    isTurnComing = false
    guard isWritable, let session else { return false }
    beginPass()
    executor.turnEnd = end
    hasLateOutput = false
    if var bytes = rest {
      // The session keeps no pointer into the buffer.
      unsafe bytes.withUnsafeReadableBytes { unsafe session.receive($0, now: now) }
      bytes.moveReaderIndex(to: bytes.writerIndex - session.untaken)
      rest = session.untaken > 0 ? bytes : nil
      if rest != nil { passesKept = 0 }
    }
    // Writing may make more room than there is time for: that has another turn.
    isTurnComing = true
    endPass()
    isTurnComing = (rest != nil || hasLateOutput) && isWritable
    readOn()
    return isTurnComing
  }
}

/// Asks a connection to finish what it has begun and close: a user event of its channel.
struct ServerDrain: Sendable {}

/// Asks a connection that has done nothing for a while to close: others want its place.
struct ServerPressure: Sendable {}
