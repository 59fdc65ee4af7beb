internal import HTTP2
package import NIOCore
package import TLS

/// The channel handler around a `TLSSession`: ciphertext towards the socket, plaintext towards the rest.
///
/// Sends `TLSHandshakeFinished` up the pipeline once, before the first plaintext, and before that `TLSHandshakeWaits`
/// whenever the handshake has to wait for others, and `TLSRecordWaits` whenever a record has come in part. What is written
/// before the handshake is finished waits.
/// A failure goes up as a `TLSError`; then the peer gets its alert and the channel closes. It stands next to the socket.
package final class TLSHandler: ChannelDuplexHandler {
  package typealias InboundIn = ByteBuffer
  package typealias InboundOut = ByteBuffer
  package typealias OutboundIn = ByteBuffer
  package typealias OutboundOut = ByteBuffer

  private let session: TLSSession
  private let isClient: Bool
  private let handshakeTimeout: TimeAmount
  /// Where the handshakes of many wait for one another.
  private let turns: (any ChoreQueue)?
  /// What the peer sent for a handshake that has to wait.
  private var early = ByteBuffer()
  /// How many bytes of that the handlers behind this one were last told of.
  private var toldEarly = 0
  private var isHandshakeComing = false
  private var handshakeLengths = HandshakeLengths()
  private var unfinished = UnfinishedRecord()
  /// How many bytes of a record the handlers behind this one were last told of.
  private var toldUnfinished = 0
  /// Calls off the end of a handshake that takes too long.
  private var cancelTimer: (() -> Void)?
  private var socket: SocketWriter?
  /// Plaintext that waits for a flush, small pieces joined so that they share a record.
  private var pending: [ByteBuffer] = []
  /// Completes with the next write; later promises hang on it.
  private var pendingPromise: EventLoopPromise<Void>?
  private var isFlushWanted = false
  /// Ciphertext was written that no flush has followed.
  private var needsFlush = false
  /// Bytes that the peer made this side answer while it did not read.
  private var unreadOutput = 0
  /// What is left of the patience with records that hold no data, once the handshake is over.
  private var idleRecords: Budget?
  private var isClosed = false

  /// The handler of a connection that a server accepted.
  ///
  /// - Parameter turns: of the connection's event loop.
  package init(server: TLSServerContext, handshakeTimeout: TimeAmount, turns: (any ChoreQueue)?) throws(TLSError) {
    session = try TLSSession(server: server)
    isClient = false
    self.turns = turns
    self.handshakeTimeout = handshakeTimeout
  }

  /// The handler of a connection to `host`, which the server's certificate must be for.
  package init(client: TLSClientContext, host: String, handshakeTimeout: TimeAmount) throws(TLSError) {
    session = try TLSSession(client: client, host: host)
    isClient = true
    turns = nil
    self.handshakeTimeout = handshakeTimeout
  }

  // MARK: - Life

  package func handlerAdded(context: ChannelHandlerContext) {
    socket = SocketWriter(context)
    if context.channel.isActive { start(context) }
  }

  package func channelActive(context: ChannelHandlerContext) {
    start(context)
    context.fireChannelActive()
  }

  private func start(_ context: ChannelHandlerContext) {
    guard cancelTimer == nil, !session.isHandshakeFinished else { return }
    let isOver = { [weak self] in self?.fail(TLSError(.handshake, .peer, .handshakeTimeout), context) ?? () }
    if let turns {
      cancelTimer = turns.after(handshakeTimeout, isOver)
    } else {
      let timer = context.eventLoop.assumeIsolated().scheduleTask(in: handshakeTimeout, isOver)
      cancelTimer = { timer.cancel() }
    }
    guard isClient else { return }
    do throws(TLSError) {
      try session.start()
      writeOutput(context, promise: nil)
      flush(written: context)
    } catch {
      fail(error, context)
    }
  }

  package func channelInactive(context: ChannelHandlerContext) {
    let wasWithinHandshake = !session.isHandshakeFinished && !isClosed
    end()
    if wasWithinHandshake { context.fireErrorCaught(TLSError(.handshake, .peer, .closedInHandshake)) }
    context.fireChannelInactive()
  }

  package func handlerRemoved(context: ChannelHandlerContext) {
    end()
    socket = nil
  }

  // MARK: - From the peer

  package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard !isClosed else { return }
    var bytes = unwrapInboundIn(data)
    guard let turns, !session.isHandshakeFinished else { return receive(bytes, context) }
    early.writeBuffer(&bytes)
    // A peer that sends more than a handshake while it waits has no patience of ours.
    guard !isHandshakeComing else {
      if early.readableBytes <= Limits.waitingHandshakeBytes { return tellEarly(context) }
      let reason = TLSError.Reason.protocolViolation("more than a handshake came before its turn")
      return fail(TLSError(.handshake, .peer, reason), context)
    }
    // A signature and a key exchange: a hundred short calls.
    isHandshakeComing = true
    var isLate = false
    turns.soon { [self] in
      isHandshakeComing = false
      receiveEarly(context)
      if isLate { channelReadComplete(context: context) }
    }
    isLate = true
    if isHandshakeComing { tellEarly(context) }
  }

  private func receiveEarly(_ context: ChannelHandlerContext) {
    let bytes = early
    early = ByteBuffer()
    tellEarly(context)
    if bytes.readableBytes > 0, !isClosed { receive(bytes, context) }
  }

  /// Tells the handlers behind this one what waits, where that is something else than before.
  private func tellEarly(_ context: ChannelHandlerContext) {
    guard early.readableBytes != toldEarly else { return }
    toldEarly = early.readableBytes
    context.fireUserInboundEventTriggered(TLSHandshakeWaits(bytes: toldEarly))
  }

  private func receive(_ ciphertext: ByteBuffer, _ context: ChannelHandlerContext) {
    var plaintext = ByteBuffer()
    let progress: TLSSession.Progress
    let wasFinished = session.isHandshakeFinished
    if !isClient { unfinished.receive(ciphertext) }
    if !isClient, !wasFinished,
      !handshakeLengths.allow(ciphertext, isOldVersion: session.version == .tls12)
    {
      let reason = TLSError.Reason.protocolViolation("a handshake message is too long")
      return fail(TLSError(.handshake, .peer, reason), context)
    }
    do throws(TLSError) {
      progress = try session.receive(ciphertext, into: &plaintext)
    } catch {
      // Records before the one at fault were sound. What came with the end of the handshake has nobody yet who knows whose it is.
      if wasFinished, plaintext.readableBytes > 0 { context.fireChannelRead(wrapInboundOut(plaintext)) }
      fail(error, context)
      return
    }
    let answered = writeOutput(context, promise: nil)
    if progress.isHandshakeFinished {
      finishHandshake(context)
    } else if answered > 0, session.isHandshakeFinished, !isReading(context, answered) {
      return
    }
    guard !isClosed, bringsEnough(plaintext.readableBytes, progress, context) else { return }
    // A read that had no room for more is passed on as one: there may be more in the socket.
    if !isClient, ciphertext.writableBytes == 0, let full = plaintext.readSlice(length: plaintext.readableBytes) {
      plaintext = full
    }
    if plaintext.readableBytes > 0 { context.fireChannelRead(wrapInboundOut(plaintext)) }
    if progress.isClosedByPeer, !isClosed { context.close(promise: nil) }
    if !isClient, session.isHandshakeFinished, !isClosed { tellUnfinished(context) }
  }

  /// Tells the handlers behind this one what OpenSSL keeps of a record, where that is something else than before.
  private func tellUnfinished(_ context: ChannelHandlerContext) {
    let bytes = unfinished.bytes >= Limits.unfinishedRecordBytes ? unfinished.bytes : 0
    guard bytes != toldUnfinished else { return }
    toldUnfinished = bytes
    context.fireUserInboundEventTriggered(TLSRecordWaits(bytes: bytes))
  }

  package func channelReadComplete(context: ChannelHandlerContext) {
    context.fireChannelReadComplete()
    flush(written: context)
  }

  private func finishHandshake(_ context: ChannelHandlerContext) {
    cancelTimer?()
    cancelTimer = nil
    context.fireUserInboundEventTriggered(
      TLSHandshakeFinished(
        applicationProtocol: session.applicationProtocol,
        peerNames: session.peerNames,
        version: session.version,
        isResumed: session.isResumed
      )
    )
    if isFlushWanted { flush(context: context) }
  }

  /// Whether the peer sends data, more or less: false ended the connection. Work below the application's sight, such as
  /// key updates, is nobody's turn.
  private func bringsEnough(_ bytes: Int, _ progress: TLSSession.Progress, _ context: ChannelHandlerContext) -> Bool {
    guard session.isHandshakeFinished, !progress.isHandshakeFinished else { return true }
    var idle = progress.idleRecords + (bytes == 0 ? 1 : 0)
    if idle == 0, idleRecords == nil { return true }
    let now = context.eventLoop.now
    var budget = idleRecords ?? Budget(Limits.idleRecords, now: now)
    for _ in 0..<bytes / Limits.bytesPerIdleRecord { budget.earn() }
    while idle > 0, budget.spend(now: now) { idle -= 1 }
    idleRecords = budget
    guard idle > 0 else { return true }
    fail(TLSError(.receive, .peer, .idleRecords), context)
    return false
  }

  /// A peer may ask for answers below the application's sight, by key updates (RFC 8446 §4.6.3). One that does so
  /// and does not read them would fill memory: false ended the connection.
  private func isReading(_ context: ChannelHandlerContext, _ answered: Int) -> Bool {
    guard !context.channel.isWritable else {
      unreadOutput = 0
      return true
    }
    unreadOutput += answered
    guard unreadOutput > Limits.unreadOutput else { return true }
    fail(TLSError(.receive, .peer, .unreadOutput), context)
    return false
  }

  // MARK: - From this side

  package func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    guard !isClosed else {
      promise?.fail(ChannelError.ioOnClosedChannel)
      return
    }
    let bytes = unwrapOutboundIn(data)
    if let last = pending.last, last.readableBytes + bytes.readableBytes <= TLS.Limits.recordPlaintext {
      pending[pending.count - 1].writeImmutableBuffer(bytes)
    } else {
      pending.append(bytes)
    }
    guard let promise else { return }
    if let pendingPromise {
      pendingPromise.futureResult.cascade(to: promise)
    } else {
      pendingPromise = promise
    }
  }

  package func flush(context: ChannelHandlerContext) {
    guard session.isHandshakeFinished, !isClosed else {
      isFlushWanted = true
      return
    }
    isFlushWanted = false
    encryptPending(context)
    flush(written: context)
  }

  package func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
    guard mode != .input else {
      context.close(mode: mode, promise: promise)
      return
    }
    if !isClosed {
      if session.isHandshakeFinished { encryptPending(context) }
      session.close()
      writeOutput(context, promise: nil)
      flush(written: context)
      end()
    }
    context.close(mode: mode, promise: promise)
  }

  // MARK: - Helpers

  private func encryptPending(_ context: ChannelHandlerContext) {
    guard !pending.isEmpty else { return }
    let buffers = pending
    let promise = pendingPromise
    pending.removeAll(keepingCapacity: buffers.count <= 4)
    pendingPromise = nil
    do throws(TLSError) {
      for buffer in buffers { try session.send(buffer) }
    } catch {
      promise?.fail(error)
      fail(error, context)
      return
    }
    writeOutput(context, promise: promise)
  }

  /// Hands the session's ciphertext on; answers how much that was.
  @discardableResult
  private func writeOutput(_ context: ChannelHandlerContext, promise: EventLoopPromise<Void>?) -> Int {
    guard var output = session.takeOutput() else {
      promise?.succeed()
      return 0
    }
    let count = output.readableBytes
    if !needsFlush, socket?.write(&output) == true {
      promise?.succeed()
    } else {
      context.write(wrapOutboundOut(output), promise: promise)
      needsFlush = true
    }
    return count
  }

  private func flush(written context: ChannelHandlerContext) {
    guard needsFlush else { return }
    needsFlush = false
    context.flush()
  }

  private func fail(_ error: TLSError, _ context: ChannelHandlerContext) {
    guard !isClosed else { return }
    // The alert, if the error left one.
    writeOutput(context, promise: nil)
    flush(written: context)
    end(error)
    context.fireErrorCaught(error)
    context.close(promise: nil)
  }

  private func end(_ error: TLSError? = nil) {
    guard !isClosed else { return }
    isClosed = true
    cancelTimer?()
    cancelTimer = nil
    // Nobody has to be told: the connection ends.
    early = ByteBuffer()
    toldEarly = 0
    pending.removeAll()
    let promise = pendingPromise
    pendingPromise = nil
    if let error { promise?.fail(error) } else { promise?.fail(ChannelError.ioOnClosedChannel) }
  }
}
