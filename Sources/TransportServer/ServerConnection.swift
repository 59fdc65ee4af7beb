internal import Callers
internal import GRPC
internal import HTTP2
internal import Logging
internal import NIOCore
internal import Transport

/// One HTTP/2 connection of a server, between its channel and its streams.
///
/// A read pass takes what the socket had, lets the session and the handlers work, and ends with one write. Here are the
/// bytes and the turns; what the session tells, what comes of its calls and what time brings stand beside it.
final class ServerConnection: ChannelDuplexHandler, @unchecked Sendable {
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
  var now: NIODeadline

  private(set) var context: ChannelHandlerContext?
  /// Nil when there is another handler between this one and the socket, or no socket.
  private var socket: SocketWriter?
  var streams = ConnectionStreams()
  /// What runs the handlers of those who share the connection.
  var executors = ClientExecutors()
  /// The calls that this pass has answered directly.
  var directCalls: DirectCalls?
  /// The calls that this pass has refused.
  var refusedCalls = RefusedCalls()
  /// Where such an answer is made. Empty between calls.
  var directAnswer = ByteBuffer()
  /// How many calls this pass has answered at once or begun.
  var served = 0
  private var isReading = false
  private var isFlushScheduled = false
  private(set) var isFlushing = false
  /// What the channel last said of itself.
  private(set) var isWritable = true
  /// The peer does not take our bytes, its last turn was too short for what it asked, or calls of it were refused: reading on
  /// would only make more of it.
  private(set) var isReadHeld = false
  /// What was read and has to wait for a turn.
  private(set) var rest: ByteBuffer?
  /// There is output for whose writing the turn was too short.
  private var hasLateOutput = false
  private var isTurnComing = false
  private var waitForOthers = WaitForOthers()
  /// Whether the socket is left unread because calls were refused.
  var isInLine = false
  /// How late that makes what was sent meanwhile.
  var lateByLine = UnreadWait()
  /// The same of what is being worked on.
  private(set) var readLate = UnreadWait()
  /// When the last read came, if it had no room for more.
  private var readFull: NIODeadline?
  /// Reads in a row that are late because the one before was, and had no room for more.
  private var fullReads = 0
  /// How long what this pass works on has waited, or will, for all that is not the connection's.
  private(set) var ownLateness = TimeAmount.zero
  /// What this pass works on has waited for too long already.
  private var isLate = false
  /// Passes in a row that did not overrun their turn, up to what counts.
  private var passesKept = 0
  var lifecycle: ConnectionLifecycle
  var timer: LoopTimer?
  /// What the connection was asked for and has not looked at yet.
  var shedToCome: ServerShed?
  var timerDeadline: NIODeadline?
  /// What the server's budget was last told that this connection holds.
  var reportedBytes = 0
  /// The same of calls that nobody handles yet, since their request is not whole.
  var reportedCalls = 0
  /// Bytes of requests that streams keep beyond the windows.
  var heldBytes = 0
  /// Bytes of a TLS record that has not ended.
  var recordBytes = 0
  /// The shortest time that any request here had which may be answered directly.
  var shortestDirectLimit = TimeAmount.minutes(5)

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
    now = executor.eventLoop.now
    lifecycle = ConnectionLifecycle(ConnectionLifecycle.Rules(environment.configuration), at: now)
  }

  // MARK: The channel

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    if isNextToSocket { socket = SocketWriter(context) }
    executor.hasRun = { [unowned self] in writeAnswers() }
    executor.caughtUp = { [unowned self] in readOn() }
    now = eventLoop.now
    var limits = environment.configuration.http2
    limits.isShared = isShared
    do throws(HTTP2Error) {
      let session = try HTTP2ServerSession(
        limits: limits,
        common: environment.commonAnswer,
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
    rearm()
    wantOutput()
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    shutDown()
    executor.hasRun = nil
    executor.caughtUp = nil
    executors.leave()
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
      environment.budget.callsWait(-reportedCalls, peer.account)
      (reportedBytes, reportedCalls) = (0, 0)
      streams = ConnectionStreams()
    }
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard let session else { return }
    if !isReading {
      beginPass()
      lifecycle.read(at: now)
      executor.turnEnd = executor.turns.end(ofTurnFrom: now)
    }
    var bytes = unwrapInboundIn(data)
    let isFew = bytes.readableBytes < Limits.promptBytes
    waitForOthers.read(executor.othersWork, isMore: rest != nil, isFew: isFew)
    guard rest == nil else {
      rest?.writeBuffer(&bytes)
      return readBuffers.giveBack(bytes)
    }
    // What a late read had no room for is as late.
    let isRest = readFull.map { now - $0 <= Limits.restOfRead } ?? false
    // One that is late by itself begins the row anew.
    let isAsLate = isRest && readLate > lateByLine && fullReads < Limits.fullReads
    fullReads = isAsLate ? fullReads + 1 : 0
    readLate = isAsLate ? readLate.and(lateByLine) : lateByLine
    readFull = bytes.writableBytes == 0 ? now : nil
    guard isFew || mayReadMuch else {
      rest = readBuffers.keep(bytes)
      return waitForTurn()
    }
    measureLateness(session)
    // The session keeps no pointer into the buffer.
    unsafe bytes.withUnsafeReadableBytes { unsafe session.receive($0, now: now) }
    guard session.untaken > 0 else { return readBuffers.giveBack(bytes) }
    bytes.moveReaderIndex(to: bytes.writerIndex - session.untaken)
    rest = readBuffers.keep(bytes)
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
    executor.worked(from: now, until: endPass())
  }

  private func beginPass() {
    isReading = true
    served = 0
    refusedCalls.beginPass()
    now = eventLoop.now
  }

  /// Answers when the pass ended.
  @discardableResult
  private func endPass() -> NIODeadline {
    // Nobody comes behind this handler who would want to know.
    isReading = false
    if passesKept < Limits.passesKept { passesKept += 1 }
    // Without room they are refused like others, and not looked at with their request only.
    if let session, session.undecided > reportedCalls, !hasRoom(peer.account) { _ = session.decide(openedUpTo: now) }
    flush()
    let end = eventLoop.now
    if directCalls != nil { reportAnswered(at: end) }
    if !refusedCalls.isEmpty {
      // Behind a proxy are many peers, and who is served in the same pass does not only ask for what is refused. A few
      // calls that are served are no reason to read hundreds that are not.
      if peer.proxy == nil, !isServed { waitInLine(refusedCalls.reason) }
      refusedCalls.report(to: environment)
    }
    if let session, session.undecided > 0 || session.isHalfway || lifecycle.isBlockTimed {
      watchHalfRequests(session)
    }
    return end
  }

  func read(context: ChannelHandlerContext) {
    guard !isWritable || holdsReads else { return context.read() }
    isReadHeld = true
    if rest != nil || executor.isBehind { waitForOthers.held() }
  }

  /// Its pause is over. What others did meanwhile is not what held it up.
  func readOnAfterPause() {
    if !isBehind { waitForOthers.forgetHold() }
    readOn()
  }

  /// Reads if that was held and the reasons are gone.
  func readOn() {
    guard isReadHeld, isWritable, !holdsReads else { return }
    isReadHeld = false
    lifecycle.readsOn(at: eventLoop.now)
    waitForOthers.goesOn(executor.othersWork)
    context?.read()
  }

  func channelWritabilityChanged(context: ChannelHandlerContext) {
    isWritable = context.channel.isWritable
    if isWritable {
      lifecycle.isWritable(true, at: eventLoop.now)
      // A flush that is under way goes on by itself.
      if !isFlushing {
        if eventLoop.now >= executor.turnEnd || !executor.promptly({ flush() }) { hasLateOutput = true }
        waitForTurn()
      }
      readOn()
    } else {
      lifecycle.isWritable(false, at: eventLoop.now)
      rearm()
    }
    context.fireChannelWritabilityChanged()
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if event is ServerDrain {
      now = eventLoop.now
      perform(lifecycle.beginDrain(at: now))
      rearm()
      wantOutput()
    } else if event is ServerPressure {
      makeRoom()
    } else if let shed = event as? ServerShed {
      giveUpSoon(shed)
    } else if let record = event as? TLSRecordWaits {
      recordBytes = record.bytes
      // At the end of a pass it is told with what the pass brought.
      if !isReading, let session { reportBuffered(session, context) }
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
      guard self.isFlushScheduled else { return }
      self.isFlushScheduled = false
      guard !self.isReading, !self.executor.promptly({ self.flush() }) else { return }
      self.hasLateOutput = true
      self.waitForTurn()
    }
  }

  /// What a turn's tasks have made goes out at its end: nobody waits for another turn with an answer that is there.
  func writeAnswers() {
    guard isFlushScheduled, !isReading else { return }
    isFlushScheduled = false
    flush()
  }

  func flush() {
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
    if session.hasBlockedStreams, lifecycle.hasBlockedStreams(at: eventLoop.now) { rearm() }
    if hasSpares(session) || session.remembersMuch, lifecycle.hasSpares(at: eventLoop.now) { rearm() }
    closeIfOver(session, context)
  }

  private func closeIfOver(_ session: HTTP2ServerSession, _ context: ChannelHandlerContext) {
    if session.failure != nil {
      guard lifecycle.isClosing(at: eventLoop.now) else { return }
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
    // What is refused takes little, and lets the connection catch up.
    eventLoop.now < (isLate && !isServed ? executor.turnEnd + Limits.turn : executor.turnEnd)
  }

  /// Whether this pass served more than a few of the calls that it brought. What is late is not refused in any case: not what
  /// callers wait long for, no page that is only read, and no health check.
  private var isServed: Bool { refusedCalls.inPass <= Limits.refusedForEachServed * served }

  /// How long what the peer sends, or what came of it, has waited for others, or will wait: where there is too much to do
  /// all wait for the turns of those before them.
  private func measureLateness(_ session: HTTP2ServerSession) {
    let own = max(waitForOthers.length(executor.othersWork), executor.waited, readLate.any)
    isLate = own > Limits.shortestWait
    ownLateness = own
    // Where many share it, each call is looked at by itself.
    guard !isShared else { return }
    session.lateness = environment.budget.lateness(
      own: own, refused: readLate.any, turn: executor.turns.wait(of: source), of: peer.account)
  }

  func sessionIsOverrun(_ session: HTTP2ServerSession) {
    lifecycle.pauses(for: Limits.overrunPause, at: now)
    rearm()
  }

  /// Whether it is us who hold the peer up: what it has sent waits for a turn, and what it sends after that is not read.
  var isBehind: Bool { rest != nil || executor.isBehind }

  /// Whether the socket is left unread.
  private var holdsReads: Bool { isBehind || isInLine || lifecycle.isPaused }

  /// Until the peer takes its answers there is no turn for more of its requests.
  private func waitForTurn() {
    guard rest != nil || hasLateOutput, isWritable, !isTurnComing else { return }
    isTurnComing = true
    executor.turns.wait(self)
  }
}

extension ServerConnection: TurnTaker {
  var source: TurnSource { executor.source }
  var isBegun: Bool { rest == nil }

  func takeTurn(until end: NIODeadline) -> Bool {
    isTurnComing = false
    guard isWritable, let session else { return false }
    beginPass()
    executor.turnEnd = end
    hasLateOutput = false
    if var bytes = rest {
      measureLateness(session)
      // The session keeps no pointer into the buffer.
      unsafe bytes.withUnsafeReadableBytes { unsafe session.receive($0, now: now) }
      bytes.moveReaderIndex(to: bytes.writerIndex - session.untaken)
      if session.untaken > 0 {
        passesKept = 0
        rest = readBuffers.keep(bytes)
      } else {
        rest = nil
        readBuffers.giveBack(bytes)
      }
    }
    // Writing may make more room than there is time for: that has another turn.
    isTurnComing = true
    executor.worked(from: now, until: endPass())
    isTurnComing = (rest != nil || hasLateOutput) && isWritable
    readOn()
    return isTurnComing
  }
}
