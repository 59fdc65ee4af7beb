internal import HTTP2
internal import NIOCore

/// How long a connection may last, and what others want of it: does what its `ConnectionLifecycle` decides.
extension ServerConnection {
  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    environment.logger.debug("connection failed", metadata: ["error": "\(error)"])
    context.close(promise: nil)
  }

  /// Others want this connection's place: it goes if it has had no stream for a while.
  func makeRoom() {
    guard let session, session.openStreams == 0, eventLoop.now - session.lastStream >= Limits.pressureIdleTime else {
      return
    }
    session.shutDown()
    wantOutput()
  }

  /// Sources hold more than their share. This may end a hundred calls, which is done when there is time.
  func giveUpSoon(_ shed: ServerShed) {
    let isAsked = shedToCome != nil
    shedToCome = shed
    guard !isAsked else { return }
    executor.turns.soon { [self] in
      guard var shed = shedToCome else { return }
      shedToCome = nil
      if shed.isOver {
        guard let newer = environment.budget.wantedBack else { return }
        shed = newer
      }
      endShed(giveUp(shed))
      flush()
    }
  }

  /// Sources hold more than their share, and this connection may have some of it. Answers which of its calls had to go.
  private func giveUp(_ shed: ServerShed) -> [ServerStream] {
    guard let session else { return [] }
    var gone: [ServerStream] = []
    now = eventLoop.now
    // Each is refused, or has a handler that may be asked.
    let isCallsTurn = reportedCalls > 0 && shed.calls(of: peer.account)?.take(reportedCalls) == true
    let isBytesTurn = session.undecidedBytes > 0 && shed.bytes(of: peer.account)?.take(session.undecidedBytes) == true
    if isCallsTurn || isBytesTurn {
      _ = session.decide(openedUpTo: now)
      reportCalls(session)
    }
    // The newest first, which have waited least.
    for stream in streams.all.sorted(by: { $0.number > $1.number }) {
      guard let account = stream.waitingAccount, let excess = shed.calls(of: account), excess.take() else { continue }
      stream.shed()
      gone.append(stream)
    }
    guard reportedBytes > 0, let excess = shed.bytes(of: peer.account) else { return gone }
    // Those that hold the most first. A socket that takes nothing holds the rest.
    for stream in streams.all.sorted(by: { $0.heldBytes > $1.heldBytes })
    where stream.heldBytes > 0 && stream.stream != nil {
      guard excess.take(stream.heldBytes) else {
        wantOutput()
        return gone
      }
      stream.resetByShedding()
      gone.append(stream)
    }
    guard isWritable else {
      if excess.take(reportedBytes) { context?.close(promise: nil) }
      return gone
    }
    // A frame cannot be done without, nor what comes before others: there only the connection can be given up.
    // Behind a proxy it is other people's as well, and one read and one frame are all that it keeps.
    if peer.proxy == nil, unworkedBytes >= Limits.unworkedStep, excess.take(unworkedBytes) {
      session.terminate(.enhanceYourCalm, debug: "too_many_bytes")
    }
    wantOutput()
    return gone
  }

  /// The connection's place is another source's, which has fewer.
  func leave() {
    session?.terminate(.enhanceYourCalm, debug: "too_many_connections")
    // A peer that takes nothing hears nothing.
    guard isWritable else {
      context?.close(promise: nil)
      return
    }
    executor.turns.soon { [self] in
      executor.doNow()
      flush()
    }
  }

  // MARK: What is held

  /// Whether there is room for more bytes of a call of the source.
  func hasRoomForBytes(_ account: SourceAccount) -> Bool {
    hasOwnRoom(account) && environment.budget.hasRoomForBytes(of: account)
  }

  /// Whether there is room for a call of the source that is not answered at once.
  func hasRoom(_ account: SourceAccount) -> Bool {
    hasOwnRoom(account) && environment.budget.hasRoom(for: account)
  }

  /// Tells the server's budget what this connection holds, when that has changed by something.
  func reportBuffered(_ session: HTTP2ServerSession, _ context: ChannelHandlerContext) {
    reportCalls(session)
    var bytes = session.bufferedBytes + heldBytes + recordBytes
    if let rest { bytes += rest.readableBytes }
    if bytes | reportedBytes == 0, isWritable { return }
    if !isWritable, let options = context.channel.syncOptions {
      // What the socket has not taken. A channel that cannot tell has no socket.
      bytes += (try? options.getOption(.bufferedWritableBytes)) ?? 0
    }
    // In small steps, since there may be halves of frames on all connections together. What was told is taken back as well.
    let step = unworkedBytes > 0 || bytes < reportedBytes ? Limits.unworkedStep : Limits.budgetStep
    guard abs(bytes - reportedBytes) >= step || bytes == 0 else { return }
    environment.budget.buffered(bytes - reportedBytes, peer.account)
    reportedBytes = bytes
  }

  /// The same of calls whose requests are not whole and that nobody handles yet.
  private func reportCalls(_ session: HTTP2ServerSession) {
    guard session.undecided != reportedCalls else { return }
    environment.budget.callsWait(session.undecided - reportedCalls, peer.account)
    reportedCalls = session.undecided
  }

  // MARK: Memory

  /// Bytes that were received and not worked on: of a frame or a record that has not ended, and what waits for a turn.
  var unworkedBytes: Int { (session?.partialBytes ?? 0) + (rest?.readableBytes ?? 0) + recordBytes }

  /// Whether more is kept for streams to come than a client with a few calls at a time has use for.
  func hasSpares(_ session: HTTP2ServerSession) -> Bool {
    session.hasSpares || streams.spares > Limits.streamsKeptWhenQuiet
  }

  /// Frees what is kept for streams to come, which have not for a while.
  private func freeSpares(_ session: HTTP2ServerSession) {
    guard hasSpares(session) else { return session.forgetBlocks() }
    streams.freeSpares()
    directAnswer = ByteBuffer()
    session.freeSpares()
  }

  // MARK: The lifecycle

  /// A message is complete.
  func receivedMessage() { lifecycle.receivedMessage() }

  /// A DATA frame of a few bytes came that completed no message. False: the stream has had too many, where the connection is
  /// not its client's alone.
  ///
  /// - Parameter ofStream: how many such frames the stream has had, with this one.
  func mayReceiveSmallData(_ ofStream: Int) -> Bool {
    guard isShared else {
      perform(lifecycle.receivedSmallData(at: now))
      return true
    }
    return ofStream <= Limits.smallDataFramesOfStream
  }

  func perform(_ action: ConnectionLifecycle.Action?) {
    guard let action, let session, let context else { return }
    switch action {
    case .terminate(let fault): session.terminate(fault.code, debug: fault.debug)
    case .announceShutdown(let payload):
      session.announceShutdown()
      session.ping(payload)
      leaveLine()
    case .shutDown: session.shutDown()
    case .ping(let payload): session.ping(payload)
    case .close: return context.close(promise: nil)
    case .readOn: return readOnAfterPause()
    case .lookAtBlockedStreams: return session.lookAtBlockedStreams()
    case .freeSpares: return freeSpares(session)
    }
    wantOutput()
  }

  // MARK: Time

  /// What has begun and not ended has a time by which it must: a header block, a frame, and requests whose body is to
  /// come.
  func watchHalfRequests(_ session: HTTP2ServerSession) {
    if session.isReceivingBlock != lifecycle.isBlockTimed {
      lifecycle.receivesBlock(session.isReceivingBlock, at: now)
      rearm()
    }
    if session.frameBegan != nil, lifecycle.receivesFrame(at: now) { rearm() }
    if session.undecided > 0 { watch(now + shortestDirectLimit) }
  }

  /// Sees to it that `deadline` is noticed.
  func watch(_ deadline: NIODeadline) {
    guard session != nil else { return }
    if let timerDeadline, timerDeadline <= deadline { return }
    timer?.cancel()
    timerDeadline = deadline
    // Held strongly until `shutDown` cancels it: a weak reference would make every later use of `self` slower.
    timer = executor.schedule(at: deadline) { self.timeHasCome() }
  }

  func rearm() {
    if let next = lifecycle.next { watch(next) }
  }

  private func timeHasCome() {
    timer = nil
    timerDeadline = nil
    now = eventLoop.now
    // A timer of something else decides nothing.
    if let waits = session?.decide(openedUpTo: now - shortestDirectLimit) { watch(waits + shortestDirectLimit) }
    for stream in streams.all {
      if let deadline = stream.deadline, deadline <= now { stream.expire() }
    }
    for event in lifecycle.takeDue(now) {
      guard let session else { return }
      let situation = ConnectionLifecycle.Situation(
        openStreams: session.openStreams, lastStream: session.lastStream, isBehind: isBehind, isUnread: isReadHeld,
        frameBegan: session.frameBegan)
      perform(lifecycle.timeHasCome(event, situation, at: now))
    }
    guard session != nil else { return }
    rearm()
    if let next = streams.nextDeadline { watch(next) }
    flush()
  }
}
