internal import GRPC
internal import HTTP2
internal import NIOCore

/// What the session tells its connection: header blocks, calls that are answered at once, streams and pings.
extension ServerConnection: HTTP2ServerSessionDelegate {
  func session(_ session: HTTP2ServerSession, received block: HTTP2RequestBlock) {
    let request = ServerRequest(block, environment, peer)
    block.meaning = request
    block.patience = request.patience(within: environment.configuration)
    if let timeLimit = request.refusable(within: environment.configuration) {
      // Whose time is nearly over is one for the timers of calls.
      shortestDirectLimit = min(shortestDirectLimit, max(timeLimit, Limits.shortestWait), Limits.messageTimeout)
    }
    if block.patience != nil { shortestDirectLimit = min(shortestDirectLimit, Limits.messageTimeout) }
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
    guard let direct = request.direct else { return isRefused(stream, block, session) }
    do throws(RPCError) {
      // Read before the call returns.
      guard unsafe try direct.answer(body, into: &directAnswer) else { return isRefused(stream, block, session) }
    } catch {
      let handler = handler()
      session.adopt(stream, handler)
      handler.fail(stream, request, error, now: now)
      return true
    }
    served += 1
    session.answer(stream, &directAnswer)
    directAnswer.clear()
    if directCalls !== direct {
      // A pass rarely brings calls of two kinds.
      reportAnswered(at: eventLoop.now)
      directCalls = direct
    }
    return true
  }

  func session(_ session: HTTP2ServerSession, isShut block: HTTP2RequestBlock) -> Bool {
    guard let meaning = block.meaning else { return false }
    // Only `session(_:received:)` sets it.
    let request = unsafe unsafeDowncast(meaning, to: ServerRequest.self)
    let patience = block.patience ?? .zero
    if isShared, isLateHere(request, patience) { return true }
    guard let gate = request.gate else { return false }
    let source = request.account.source
    return gate.isShut(to: source) || readLate.isLate(gate, of: source, patience: patience)
  }

  /// Refuses a call that comes too late to be begun, at the least cost: many more are to be refused than can be served.
  private func isRefused(_ stream: HTTP2Stream, _ block: HTTP2RequestBlock, _ session: HTTP2ServerSession) -> Bool {
    guard session.isTooLate(block) else { return false }
    environment.budget.callRefused()
    guard let meaning = block.meaning else {
      session.turnAway(stream)
      return true
    }
    // Only `session(_:received:)` sets it.
    let request = unsafe unsafeDowncast(meaning, to: ServerRequest.self)
    let patience = block.patience ?? .zero
    let isLate = session.lateness > patience || isShared && request.gate?.isShut(to: request.account.source) != true
    refusedCalls.add(request, isLate ? .late(patience) : .shut(request.gate, of: request.account.source), environment)
    if let (head, body) = request.ownRefusal(environment) {
      session.turnAway(stream, head, body)
    } else {
      session.turnAway(stream)
    }
    return true
  }

  func session(_ session: HTTP2ServerSession, refuses stream: HTTP2Stream, _ block: HTTP2RequestBlock) -> Bool {
    isRefused(stream, block, session)
  }

  func session(_ session: HTTP2ServerSession, foresees body: UnsafeRawBufferPointer) -> Bool {
    // Most likely another call like the last. Read before the call returns.
    guard let directCalls else { return false }
    return unsafe directCalls.foresee(body)
  }

  /// Tells the interceptors of the calls that this pass answered: each of them took as long as the pass.
  func reportAnswered(at end: NIODeadline) {
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
    if hasTooManyHandlers(request.account) {
      handler.refuse(stream, request)
      session.reset(stream, .refusedStream)
    } else {
      served += 1
      handler.begin(stream, request, now: now)
    }
    return handler
  }

  func session(_ session: HTTP2ServerSession, countsReset stream: HTTP2Stream) -> Bool {
    let request = (stream.handler as? ServerStream)?.request ?? stream.block?.meaning as? ServerRequest
    // Without a client's name it is the proxy's.
    guard let account = request?.account, account !== peer.account else { return false }
    return account.cancelled(at: now)
  }

  private func handler() -> ServerStream { streams.take { ServerStream(connection: self) } }

  func session(_ session: HTTP2ServerSession, receivedSettings acknowledged: Bool) {
    if acknowledged { lifecycle.settingsWereAcknowledged() }
  }

  func session(_ session: HTTP2ServerSession, receivedPing payload: UInt64, acknowledged: Bool) {
    perform(lifecycle.received(ping: payload, isAnswer: acknowledged, openStreams: session.openStreams, at: now))
  }

  /// Something of an answer went out.
  func answered() { lifecycle.answered() }

  /// A stream of this connection is gone.
  func streamClosed() {
    answered()
  }

  /// Whether a stream that is over keeps buffers for the next call.
  var keepsBuffers: Bool { streams.spares < Limits.streamsWithBuffers }

  func recycle(_ stream: ServerStream) {
    guard session != nil else { return }
    streams.giveBack(stream)
  }
}
