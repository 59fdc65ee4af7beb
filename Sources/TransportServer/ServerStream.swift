internal import GRPC
internal import HTTP2
internal import NIOCore

/// One stream of a server: a call, a page over plain HTTP, or a gRPC-Web call. Keeps to the stream's windows and times;
/// `CallRunner` knows what a call goes through.
///
/// Kept by its connection for the next stream, once the stream is closed and nothing of it runs.
final class ServerStream: HTTP2StreamHandler, @unchecked Sendable {
  // Unchecked: only touched on its event loop, which is also the executor that its task prefers.

  enum Content {
    case call
    /// Plain HTTP, or a gRPC-Web call, that is not answered yet.
    case page
    /// What comes is of no use.
    case nothing
  }

  let connection: ServerConnection
  let runner: CallRunner
  var stream: HTTP2Stream?
  var content = Content.nothing
  var request: ServerRequest?
  private var isInUse = false
  /// Bytes received that the peer has not been granted again.
  private var owed = 0
  /// Bytes of the request that are kept although the peer was granted them again.
  private var held = 0
  /// Those of the request's fields, where they are more than usual.
  private var fieldBytes = 0
  /// DATA frames of a few bytes that completed no message.
  private var smallDataFrames = 0
  /// When the call has to be over.
  private var callEnd: NIODeadline?
  /// When the message that is being received began, and when it has to be complete.
  private var messageStart = NIODeadline.uptimeNanoseconds(0)
  var messageEnd: NIODeadline?
  // Of a page.
  var pageBody: [UInt8] = []
  /// What it is told once it is whole, where that is known before.
  var refusal: PageResponse?
  var pageTask: Task<Void, Never>?
  var isPageRunning = false
  var pageShare = CallShare()
  /// What takes the body of a page, if it is a gRPC-Web call.
  var web: WebCall?

  /// When something of this stream has to be over.
  var deadline: NIODeadline? {
    guard let messageEnd else { return callEnd }
    return min(callEnd ?? messageEnd, messageEnd)
  }

  init(connection: ServerConnection) {
    self.connection = connection
    runner = CallRunner(environment: connection.environment, executor: connection.executor)
  }

  /// Takes a new stream with its request.
  func begin(_ stream: HTTP2Stream, _ request: ServerRequest, now: NIODeadline) {
    take(stream, request)
    switch request.verdict {
    case .call(let route, let timeout):
      content = .call
      runner.executor = connection.executor(of: request)
      let call = CallRunner.Request(
        head: request.head, route: route, timeout: timeout, peer: request.peer, account: request.account,
        gate: request.gate, late: now - stream.opened)
      runner.begin(call, carriedBy: self)
    case .refuse(let error):
      content = .call
      runner.refuse(error, carriedBy: self)
    case .unsupportedMediaType: beginPage(request)
    }
  }

  /// Takes a stream whose request was whole, and refused in the direct way.
  func fail(_ stream: HTTP2Stream, _ request: ServerRequest, _ error: RPCError, now: NIODeadline) {
    take(stream, request)
    content = .call
    guard case .call(let route, _) = request.verdict else { return runner.refuse(error, carriedBy: self) }
    runner.fail(error, route.method, request.head, request.peer, carriedBy: self)
  }

  /// Takes a stream that will be reset.
  func refuse(_ stream: HTTP2Stream, _ request: ServerRequest) {
    take(stream, request)
    content = .nothing
  }

  private func take(_ stream: HTTP2Stream, _ request: ServerRequest) {
    self.stream = stream
    self.request = request
    isInUse = true
    let head = request.head
    let bytes = head.fields.byteCount + head.httpPath.count + head.httpMethod.count
    guard bytes > Limits.uncountedFieldBytes else { return }
    fieldBytes = bytes
    connection.heldBytes += bytes
  }

  func recycleIfOver() {
    guard isInUse, stream == nil, !runner.isHandlerRunning, !isPageRunning, web?.isHandlerRunning != true else {
      return
    }
    isInUse = false
    runner.release(keepsBuffers: connection.keepsBuffers)
    pageShare.giveBack(to: connection.environment.budget)
    request = nil
    owed = 0
    smallDataFrames = 0
    pageBody = []
    refusal = nil
    web = nil
    letGo()
    release(fieldBytes)
    fieldBytes = 0
    connection.recycle(self)
  }

  // MARK: What is held

  /// What the caller's source holds.
  var account: SourceAccount { request?.account ?? connection.peer.account }

  var hasRoom: Bool { connection.hasRoom(account) }

  private func hold(_ bytes: Int) {
    held += bytes
    connection.heldBytes += bytes
  }

  func letGo() {
    release(held)
    held = 0
  }

  private func release(_ bytes: Int) {
    guard bytes > 0 else { return }
    connection.heldBytes -= bytes
    // Which tells the server's budget as well; where output is being made it is told after that.
    if !connection.isFlushing { connection.wantOutput() }
  }

  /// Whose call waits here; nil where none does, or is over.
  var waitingAccount: SourceAccount? {
    switch content {
    case .call: runner.waitingAccount
    case .page: web?.waitingAccount ?? pageShare.account
    case .nothing: nil
    }
  }

  /// The stream's, which grow; 0 where there is none.
  var number: Int32 { stream?.id ?? 0 }

  /// Bytes that wait here for a reader or a window.
  var heldBytes: Int {
    // Of a client's stream the same bytes are held and owed; those of a request that is whole are a small part of its call.
    held + fieldBytes + (content == .call && runner.isReceiving ? owed : 0) + (stream?.pendingBytes ?? 0)
  }

  /// Ends the call because others have less than its source does.
  func shed() {
    let error = connection.environment.budget.refusal()
    switch content {
    case .call: runner.end(error)
    case .page: if let web { web.end(error) } else { answerPage(noRoomPage, isHead: false) }
    case .nothing: break
    }
  }

  /// Ends the stream at once because of what it holds. gRPC's clients take the code for RESOURCE_EXHAUSTED.
  func resetByShedding() {
    if let stream { connection.session?.shed(stream) }
  }

  /// Ends a call whose request is kept while its connection, or the server, has no room.
  ///
  /// - Parameter hasMore: messages came, and a stream of them may bring as many answers.
  private func shedIfFull(hasMore: Bool) {
    let holds = held > 0 || owed > 0 && !runner.isBetweenMessages || hasMore && runner.hasInbox
    guard holds, !runner.isEssential, !connection.hasRoomForBytes(account) else { return }
    runner.end(connection.environment.budget.refusal())
  }

  // MARK: The request

  func stream(_ stream: HTTP2Stream, completedFields block: HTTP2FieldBlock) {
    // Trailers of a request carry nothing for gRPC.
  }

  func stream(_ stream: HTTP2Stream, receivedData bytes: UnsafeRawBufferPointer) {
    switch content {
    // Read before the calls return.
    case .call where runner.isTakingBytes: unsafe receive(bytes)
    case .page: unsafe receivePage(stream, bytes)
    case .call, .nothing: connection.session?.consume(stream, bytes.count)
    }
  }

  private func receive(_ bytes: UnsafeRawBufferPointer) {
    owed += bytes.count
    let before = runner.messages
    // The pointer is read before `receive` returns.
    guard unsafe runner.receive(bytes) else { return }
    let isNew = runner.messages != before
    if runner.hasInbox {
      // A message that is whole is its reader's; of one that is not, the framer has what came.
      if isNew { letGo() }
      hold(isNew ? runner.partialBytes : bytes.count)
    }
    if isNew {
      smallDataFrames = max(0, smallDataFrames - (runner.messages - before))
      connection.receivedMessage()
    } else if bytes.count < Limits.smallDataBytes {
      smallDataFrames += 1
      guard connection.mayReceiveSmallData(smallDataFrames) else {
        return runner.end(RPCError(.resourceExhausted, "too many small frames", reason: "OVERLOADED"))
      }
    }
    watchMessage(isNew: isNew)
    settle()
    shedIfFull(hasMore: isNew)
  }

  private func receivePage(_ stream: HTTP2Stream, _ bytes: UnsafeRawBufferPointer) {
    connection.session?.consume(stream, bytes.count)
    guard refusal == nil else { return }
    hold(bytes.count)
    if let web {
      guard connection.hasRoomForBytes(account) else { return web.end(connection.environment.budget.refusal()) }
      // The call reads it before it returns, and keeps no more than a message, which may be longer than what came of it.
      let before = web.heldBytes
      unsafe web.receive(bytes)
      if self.web === web { hold(max(0, web.heldBytes - before - bytes.count)) }
      return
    }
    guard connection.hasRoomForBytes(account) else { return answerPage(noRoomPage, isHead: false) }
    guard pageBody.count + bytes.count <= Limits.pageBodyBytes else { return answerPage(.tooLarge, isHead: false) }
    unsafe pageBody.append(contentsOf: bytes)
  }

  func streamReceivedEnd(_ stream: HTTP2Stream) {
    switch content {
    case .call: runner.receivedEnd()
    case .page:
      messageEnd = nil
      if let web { web.receivedEnd() } else { runPage() }
    case .nothing: break
    }
  }

  /// Grants the peer the bytes that the reader has taken. A message that needs more than a part of the window is
  /// granted as it comes, or it would never be complete; its limit bounds it.
  private func settle() {
    guard owed > 0, let stream else { return }
    if runner.hasInbox {
      guard runner.unreadMessages == 0 else { return }
    } else {
      let window = Int(connection.environment.configuration.http2.streamWindow)
      guard runner.currentLength > window / 2 else { return }
    }
    connection.session?.consume(stream, owed)
    if !runner.hasInbox { hold(owed) }
    owed = 0
    connection.wantOutput()
  }

  // MARK: Time

  /// A message that has begun has a time by which it must be complete, however long the call may last.
  private func watchMessage(isNew: Bool) {
    guard !runner.isBetweenMessages, runner.isTakingBytes else {
      messageEnd = nil
      return
    }
    if messageEnd == nil || isNew { messageStart = connection.now }
    let seconds = runner.currentLength / Limits.messageBytesPerSecond
    let end = messageStart + Limits.messageTimeout + .seconds(Int64(seconds))
    messageEnd = end
    connection.watch(end)
  }

  /// The body has a time by which it must be complete, as over HTTP/1.1.
  func watchBody() {
    let end = connection.now + Limits.pageRequestTimeout
    messageEnd = end
    connection.watch(end)
  }

  /// The deadline passed: nobody waits for the answer any more.
  func expire() {
    let isCallOver = callEnd.map { $0 <= connection.now } ?? false
    if !isCallOver, connection.isBehind || runner.unreadMessages > 0 {
      // It is we who hold the peer up.
      messageStart = connection.now
      return content == .page ? watchBody() : watchMessage(isNew: false)
    }
    callEnd = nil
    messageEnd = nil
    switch content {
    case .call:
      let reason = isCallOver ? "the deadline passed" : "a message of the request took too long to arrive"
      runner.end(RPCError(.deadlineExceeded, reason))
    case .page:
      if let web {
        web.end(RPCError(.deadlineExceeded, "the request took too long to arrive"))
      } else {
        let late = PageResponse(status: 408, text: "the request took too long to arrive\n")
        answerPage(refusal ?? late, isHead: false)
      }
    case .nothing: break
    }
  }

  // MARK: The stream

  func stream(_ stream: HTTP2Stream, wrote bytes: Int) {
    connection.answered()
    runner.call.outbox?.sent(bytes)
    web?.wrote(bytes)
  }

  func stream(_ stream: HTTP2Stream, closed code: HTTP2ErrorCode) {
    self.stream = nil
    // A peer may say so of a stream that it resets.
    if code == .noError, stream.isLocalEnded, connection.isShared { request?.account.answered() }
    callEnd = nil
    messageEnd = nil
    content = .nothing
    web?.end(RPCError(.cancelled, "the client cancelled the call"))
    pageTask?.cancel()
    runner.abandon()
    connection.streamClosed()
    recycleIfOver()
  }
}

// MARK: The answer to a call

extension ServerStream: CallCarrier {
  var now: NIODeadline { connection.now }

  func callEnds(at end: NIODeadline?) {
    callEnd = end
    if let end { connection.watch(end) } else { messageEnd = nil }
  }

  func callTookMessages() { settle() }

  func callKeeps(_ bytes: Int) { hold(bytes) }

  func callKeepsLittle() { letGo() }

  func handlerReturned() { recycleIfOver() }

  func send(_ frames: [ByteBuffer]) {
    guard let stream, let session = connection.session else { return }
    sendInitialFields(stream, session)
    for frame in frames { session.write(stream, frame) }
    connection.wantOutput()
  }

  func send(_ failure: RPCError?, of call: ServerCall) {
    if held > 0 {
      // The answer may wait for long; nobody reads the request again.
      runner.dropRequest()
      letGo()
    }
    guard let stream, let session = connection.session else { return }
    if let failure {
      sendFailure(failure, stream, session)
    } else {
      sendInitialFields(stream, session)
      if call.answer.readableBytes > 0 {
        session.write(stream) { pending in
          if pending.readableBytes == 0 { swap(&pending, &call.answer) } else { pending.writeBuffer(&call.answer) }
        }
      }
      if let metadata = call.context?.trailingMetadata, !metadata.isEmpty {
        var trailers = ServerFields.common.trailers
        trailers.add(metadata)
        session.finish(stream, trailers: trailers)
      } else {
        session.finishCommon(stream)
      }
    }
    connection.wantOutput()
  }

  private func sendInitialFields(_ stream: HTTP2Stream, _ session: HTTP2ServerSession) {
    guard !stream.hasAnswered else { return }
    let isCompressed = runner.call.context?.settledCoding == .gzip
    let metadata = runner.call.context?.initialMetadata ?? Metadata()
    guard isCompressed || !metadata.isEmpty else { return session.respond(stream, nil) }
    var fields = ServerFields.common.head
    if isCompressed { fields.add("grpc-encoding", "gzip") }
    fields.add(metadata)
    session.respond(stream, fields)
  }

  private func sendFailure(_ failure: RPCError, _ stream: HTTP2Stream, _ session: HTTP2ServerSession) {
    let initial = runner.call.context?.initialMetadata ?? Metadata()
    if !initial.isEmpty { sendInitialFields(stream, session) }
    // Trailers-Only when nothing went ahead.
    var fields = stream.hasAnswered ? HTTP2FieldList() : ServerFields.common.head
    ServerFields.add(failure, connection.environment.statusDetailsEncoder, to: &fields)
    if let metadata = runner.call.context?.trailingMetadata { fields.add(metadata) }
    if stream.hasAnswered {
      session.finish(stream, trailers: fields)
    } else {
      session.respond(stream, fields, endStream: true)
    }
  }
}

extension EventLoop {
  /// Runs `body` at once on this loop's thread, soon from another.
  func runNow(_ body: @escaping @Sendable () -> Void) {
    if inEventLoop { body() } else { execute(body) }
  }
}
