internal import GRPC
internal import HTTP2
internal import NIOCore

/// One stream of a server: gathers the request, runs the route's handler in a task and sends the answer.
///
///     begin ──▶ message ──▶ running ──▶ answered      one request message
///        │         └────────────┴───────────▲         refused, deadline
///        ├─────────────▶ running ───────────┤         a stream of request messages
///        └──▶ page ─────────────────────────┘         plain HTTP, or a gRPC-Web call
///
/// A call that is parked goes from running to parked when its handler returns, and back for each turn.
///
/// Kept by its connection for the next stream, once the stream is closed and the task has returned.
final class ServerStream: HTTP2StreamHandler, CallWaker.Target, @unchecked Sendable {
  // Unchecked: only touched on its event loop, which is also the executor that its task prefers.

  private enum Phase {
    /// A call waits for its one request message.
    case message
    case running
    /// Nothing runs until the call is woken.
    case parked
    case page
    case answered
  }

  private let connection: ServerConnection
  private let call = ServerCall()
  private var stream: HTTP2Stream?
  private var phase = Phase.answered
  private var request: ServerRequest?
  private var framer = MessageFramer()
  private var route: RPCRoute?
  private var hasRequest = false
  private var task: Task<Void, Never>?
  private var isTaskRunning = false
  private var share = CallShare()
  private var started = ContinuousClock.Instant.now
  private var hasInterceptedCall = false
  /// Bytes received that the peer has not been granted again.
  private var owed = 0
  /// Bytes of the request that are kept although the peer was granted them again.
  private var held = 0
  private var pageBody: [UInt8] = []
  /// What takes the body of the phase `page`, if it is a gRPC-Web call.
  private var web: WebCall?
  /// Tells the calls that used this object apart, for what comes late from other threads.
  private var generation = 0
  /// When the call has to be over.
  private var callEnd: NIODeadline?
  /// When the message that is being received began, and when it has to be complete.
  private var messageStart = NIODeadline.uptimeNanoseconds(0)
  private var messageEnd: NIODeadline?
  /// Messages of this stream that were complete.
  private var messages = 0
  /// When something of this stream has to be over.
  var deadline: NIODeadline? {
    guard let messageEnd else { return callEnd }
    return min(callEnd ?? messageEnd, messageEnd)
  }

  init(connection: ServerConnection) {
    self.connection = connection
  }

  /// Takes a new stream with its request.
  func begin(_ stream: HTTP2Stream, _ request: ServerRequest, now: NIODeadline) {
    self.stream = stream
    self.request = request
    switch request.verdict {
    case .call(let route, let timeout): accept(route, timeout: timeout, request, late: now - stream.opened)
    case .refuse(let error):
      phase = .message
      finish(error)
    case .unsupportedMediaType: beginPage(request)
    }
  }

  /// Takes a stream whose request was whole, and refused in the direct way.
  func fail(_ stream: HTTP2Stream, _ request: ServerRequest, _ error: RPCError, now: NIODeadline) {
    self.stream = stream
    self.request = request
    phase = .message
    started = .now
    if case .call(let route, _) = request.verdict {
      call.context = ServerContext(
        method: route.method,
        fields: request.head.fields,
        deadline: nil,
        peer: request.peer
      )
      hasInterceptedCall = true
    }
    finish(error)
  }

  /// Takes a stream that will be reset.
  func refuse(_ stream: HTTP2Stream) {
    self.stream = stream
    phase = .answered
  }

  private func recycleIfOver() {
    guard stream == nil, !isTaskRunning, web?.isTaskRunning != true else { return }
    generation += 1
    share.giveBack(to: connection.environment.budget)
    // The parked call knows the outbox, and the outbox it.
    call.outbox?.endParking()
    call.reset()
    request = nil
    framer.reset(limit: 0)
    route = nil
    hasRequest = false
    hasInterceptedCall = false
    owed = 0
    messages = 0
    pageBody = []
    web = nil
    letGo()
    connection.recycle(self)
  }

  // MARK: The request

  /// What the caller's source holds.
  private var account: SourceAccount { request?.account ?? connection.peer.account }

  private var hasRoom: Bool { connection.hasRoom(account) }

  private func hold(_ bytes: Int) {
    held += bytes
    connection.heldBytes += bytes
  }

  private func letGo() {
    guard held > 0 else { return }
    connection.heldBytes -= held
    held = 0
    // Which tells the server's budget as well.
    connection.wantOutput()
  }

  func stream(_ stream: HTTP2Stream, completedFields block: HTTP2FieldBlock) {
    // Trailers of a request carry nothing for gRPC.
  }

  /// - Parameter late: how long ago the header block was complete.
  private func accept(_ route: RPCRoute, timeout: Duration?, _ request: ServerRequest, late: TimeAmount) {
    self.route = route
    started = ContinuousClock.now - .nanoseconds(late.nanoseconds)
    framer.reset(limit: route.messageLimit)
    framer.coding = request.head.requestCoding
    let limit = route.timeLimit ?? connection.environment.configuration.timeLimit(route.method.kind)
    var callDeadline: ContinuousClock.Instant?
    if let time = timeout.map({ min($0, limit ?? $0) }) ?? limit {
      callDeadline = started + time
      let deadline = connection.now - late + TimeAmount(time)
      callEnd = deadline
      connection.watch(deadline)
    }
    let context = ServerContext(
      method: route.method,
      fields: request.head.fields,
      deadline: callDeadline,
      peer: request.peer,
      acceptedCoding: request.head.acceptedCoding,
      compressesResponses: connection.environment.configuration.compressesResponses
    )
    call.context = context
    phase = .message
    hasInterceptedCall = true
    if !route.isEssential, !connection.hasRoom(request.account) {
      return finish(connection.environment.budget.refusal())
    }
    for interceptor in connection.environment.interceptors {
      do throws(RPCError) {
        try interceptor.willHandle(context)
      } catch {
        finish(error)
        return
      }
    }
    let generation = generation
    switch route.method.kind {
    case .unary, .serverStreaming: break
    case .clientStreaming, .bidirectional:
      call.inbox = MessageInbox(
        messageLimit: route.messageLimit,
        pause: { [executor = connection.executor] in await executor.nextTurn() },
        consumed: { [self, eventLoop = connection.eventLoop] _ in
          eventLoop.runNow { if self.generation == generation { self.settle() } }
        }
      )
    }
    switch route.method.kind {
    case .unary, .clientStreaming: break
    case .serverStreaming, .bidirectional:
      call.outbox = MessageOutbox(canPark: true) { [self, eventLoop = connection.eventLoop] in
        eventLoop.runNow { if self.generation == generation { self.sendWaiting() } }
      }
    }
    if call.inbox != nil { run(route) }
  }

  func stream(_ stream: HTTP2Stream, receivedData bytes: UnsafeRawBufferPointer) {
    switch phase {
    case .message, .running:
      owed += bytes.count
      let before = messages
      do throws(RPCError) {
        // The pointer is read before `receive` returns.
        unsafe try framer.receive(bytes) { message throws(RPCError) in try take(&message) }
      } catch {
        finish(error)
        return
      }
      if call.inbox != nil {
        // A message that is whole is its reader's; of one that is not, the framer has what came.
        if messages != before { letGo() } else { hold(bytes.count) }
      }
      if messages != before {
        connection.receivedMessage()
      } else if bytes.count < Limits.smallDataBytes {
        connection.receivedSmallData()
      }
      watchMessage(isNew: messages != before)
      settle()
      shedIfFull()
    case .page:
      connection.session?.consume(stream, bytes.count)
      hold(bytes.count)
      if let web {
        guard hasRoom else { return web.end(connection.environment.budget.refusal()) }
        // The call reads it before it returns, and keeps no more than a message.
        return unsafe web.receive(bytes)
      }
      guard hasRoom else { return answerPage(.noRoom, isHead: false) }
      guard pageBody.count + bytes.count <= Limits.pageBodyBytes else { return answerPage(.tooLarge, isHead: false) }
      unsafe pageBody.append(contentsOf: bytes)
    case .parked, .answered:
      connection.session?.consume(stream, bytes.count)
    }
  }

  /// A message that has begun has a time by which it must be complete, however long the call may last.
  private func watchMessage(isNew: Bool) {
    guard !framer.isBetweenMessages, phase == .message || phase == .running else {
      messageEnd = nil
      return
    }
    if messageEnd == nil || isNew { messageStart = connection.now }
    let seconds = framer.currentLength / Limits.messageBytesPerSecond
    let end = messageStart + Limits.messageTimeout + .seconds(Int64(seconds))
    messageEnd = end
    connection.watch(end)
  }

  private func take(_ message: inout ReceivedMessage) throws(RPCError) {
    messages += 1
    if let inbox = call.inbox {
      inbox.deliver(message)
      message.bytes = ByteBuffer()
      return
    }
    // gRPC "Status codes": the request cardinality was violated.
    guard !hasRequest else { throw RPCError(.unimplemented, "the method takes one request message") }
    hasRequest = true
    if message.isCompressed {
      call.request = try message.expanded(limit: route?.messageLimit ?? 0)
      call.context?.wasRequestCompressed = true
    } else {
      swap(&call.request, &message.bytes)
    }
  }

  /// Whose call waits here; nil where none does, or is over.
  var waitingAccount: SourceAccount? { phase == .answered ? nil : web?.waitingAccount ?? share.account }

  /// The stream's, which grow; 0 where there is none.
  var number: Int32 { stream?.id ?? 0 }

  /// Bytes that wait here for a reader or a window.
  var heldBytes: Int { held + (stream?.pendingBytes ?? 0) }

  /// Ends the call because others have less than its source does.
  func shed() {
    let error = connection.environment.budget.refusal()
    if phase == .page {
      if let web { web.end(error) } else { answerPage(.noRoom, isHead: false) }
    } else {
      finish(error)
      stopHandler(error)
    }
  }

  /// Ends the stream at once because of what it holds. gRPC's clients take the code for RESOURCE_EXHAUSTED.
  func resetByShedding() {
    if let stream { connection.session?.shed(stream) }
  }

  /// Ends a call whose request is kept while its connection, or the server, has no room.
  private func shedIfFull() {
    guard held > 0, !hasRoom, route?.isEssential != true else { return }
    let error = connection.environment.budget.refusal()
    finish(error)
    stopHandler(error)
  }

  /// Grants the peer the bytes that the reader has taken. A message that needs more than a part of the window is
  /// granted as it comes, or it would never be complete; its limit bounds it.
  private func settle() {
    guard owed > 0, let stream else { return }
    if let inbox = call.inbox {
      guard inbox.waiting == 0 else { return }
    } else {
      guard framer.currentLength > Int(connection.environment.configuration.http2.streamWindow) / 2 else { return }
    }
    connection.session?.consume(stream, owed)
    if call.inbox == nil { hold(owed) }
    owed = 0
    connection.wantOutput()
  }

  func streamReceivedEnd(_ stream: HTTP2Stream) {
    switch phase {
    case .message:
      guard framer.isBetweenMessages else { return finish(RPCError(.internal, "the request ends within a message")) }
      guard hasRequest, let route else {
        return finish(RPCError(.unimplemented, "the method takes one request message"))
      }
      run(route)
    case .running:
      guard framer.isBetweenMessages else { return finish(RPCError(.internal, "the request ends within a message")) }
      call.inbox?.finish()
    case .page:
      messageEnd = nil
      if let web { web.receivedEnd() } else { runPage() }
    case .parked, .answered: break
    }
  }

  // MARK: The handler

  private func run(_ route: RPCRoute) {
    // Calls that were let in while there was room may have filled it by now.
    if !route.isEssential, !hasRoom { return finish(connection.environment.budget.refusal()) }
    phase = .running
    isTaskRunning = true
    let task = Task.immediate(executorPreference: connection.executor) { [self] in
      var failure: RPCError?
      do throws(RPCError) {
        try await route.run(call)
      } catch {
        failure = error
      }
      taskEnded(failure)
    }
    if isTaskRunning { taskWaits(task) }
  }

  private func taskWaits(_ task: Task<Void, Never>) {
    self.task = task
    share.take(of: connection.environment.budget, for: account)
  }

  private func taskEnded(_ failure: RPCError?) {
    isTaskRunning = false
    task = nil
    if failure == nil, phase == .running, let parked = call.outbox?.parked { return park(parked) }
    finish(failure)
    recycleIfOver()
  }

  /// The call waits, and keeps little meanwhile.
  private func park(_ parked: any ParkedCall) {
    sendWaiting()
    phase = .parked
    call.request = ByteBuffer()
    framer = MessageFramer()
    letGo()
    share.take(of: connection.environment.budget, for: account)
    if !parked.park(CallWaker(self, number: generation)) { wake(generation) }
  }

  /// Of `CallWaker.Target`. Never runs the turn at once: whoever wakes may be within another call.
  func wake(_ number: Int) {
    connection.eventLoop.execute {
      guard self.generation == number, self.phase == .parked, let parked = self.call.outbox?.parked else { return }
      self.runTurn(parked)
    }
  }

  private func runTurn(_ parked: any ParkedCall) {
    phase = .running
    isTaskRunning = true
    let task = Task.immediate(executorPreference: connection.executor) { [self] in
      parked.unpark()
      var failure: RPCError?
      do throws(RPCError) {
        if try await parked.turn() { call.outbox?.endParking() }
      } catch {
        failure = error
      }
      taskEnded(failure)
    }
    if isTaskRunning { self.task = task }
  }

  /// The deadline passed: nobody waits for the answer any more.
  func expire() {
    let isCallOver = callEnd.map { $0 <= connection.now } ?? false
    if !isCallOver, connection.isBehind || (call.inbox?.waiting ?? 0) > 0 {
      // It is we who hold the peer up.
      messageStart = connection.now
      return phase == .page ? watchBody() : watchMessage(isNew: false)
    }
    callEnd = nil
    messageEnd = nil
    switch phase {
    case .message, .running, .parked:
      let reason = isCallOver ? "the deadline passed" : "a message of the request took too long to arrive"
      let error = RPCError(.deadlineExceeded, reason)
      finish(error)
      stopHandler(error)
    case .page:
      if let web {
        web.end(RPCError(.deadlineExceeded, "the request took too long to arrive"))
      } else {
        answerPage(PageResponse(status: 408, text: "the request took too long to arrive\n"), isHead: false)
      }
    case .answered: break
    }
  }

  private func stopHandler(_ error: RPCError) {
    call.context?.cancel()
    call.outbox?.parked?.unpark()
    call.inbox?.finish(error)
    call.outbox?.close(error)
    task?.cancel()
    task = nil
  }

  // MARK: The answer

  /// Moves what the handler wrote to the stream.
  private func sendWaiting() {
    guard phase == .running, let stream, let session = connection.session, let outbox = call.outbox else { return }
    let frames = outbox.take()
    guard !frames.isEmpty else { return }
    sendInitialFields(stream, session)
    for frame in frames { session.write(stream, frame) }
    connection.wantOutput()
  }

  private func sendInitialFields(_ stream: HTTP2Stream, _ session: HTTP2ServerSession) {
    guard !stream.hasAnswered else { return }
    let isCompressed = call.context?.settledCoding == .gzip
    let metadata = call.context?.initialMetadata ?? Metadata()
    guard isCompressed || !metadata.isEmpty else { return session.respond(stream, nil) }
    var fields = ServerFields.common.head
    if isCompressed { fields.add("grpc-encoding", "gzip") }
    fields.add(metadata)
    session.respond(stream, fields)
  }

  /// Ends the call: nil for OK with the answer that the handler left.
  private func finish(_ failure: RPCError?) {
    switch phase {
    case .answered, .page: return
    case .running: sendWaiting()
    case .message, .parked: break
    }
    phase = .answered
    callEnd = nil
    messageEnd = nil
    if held > 0 {
      // The answer may wait for long; nobody reads the request again.
      call.request = ByteBuffer()
      framer = MessageFramer()
      letGo()
    }
    if hasInterceptedCall, let context = call.context, !connection.environment.interceptors.isEmpty {
      let duration = started.duration(to: .now)
      for interceptor in connection.environment.interceptors {
        interceptor.didFinish(context, status: failure?.code ?? .ok, duration: duration)
      }
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
    // What a late writer adds has nowhere to go.
    call.outbox?.close(failure ?? RPCError(.cancelled, "the call is over"))
    connection.wantOutput()
  }

  private func sendFailure(_ failure: RPCError, _ stream: HTTP2Stream, _ session: HTTP2ServerSession) {
    let initial = call.context?.initialMetadata ?? Metadata()
    if !initial.isEmpty { sendInitialFields(stream, session) }
    // Trailers-Only when nothing went ahead.
    var fields = stream.hasAnswered ? HTTP2FieldList() : ServerFields.common.head
    fields.add("grpc-status", String(failure.code.rawValue))
    if !failure.message.isEmpty { fields.add("grpc-message".utf8, PercentEncoding.encode(failure.message)) }
    if let details = connection.environment.statusDetailsEncoder(failure) {
      fields.add("grpc-status-details-bin".utf8, BinaryMetadata.encode(details))
    }
    fields.add(failure.metadata)
    if let metadata = call.context?.trailingMetadata { fields.add(metadata) }
    if stream.hasAnswered {
      session.finish(stream, trailers: fields)
    } else {
      session.respond(stream, fields, endStream: true)
    }
  }

  // MARK: Pages

  private func beginPage(_ request: ServerRequest) {
    let head = request.head
    phase = .page
    watchBody()
    if let format = head.webFormat { return beginWeb(format, request) }
    let isPost = head.httpMethod.isEmpty
    let target = String(decoding: head.httpPath, as: UTF8.self)
    let method = isPost ? "POST" : String(decoding: head.httpMethod, as: UTF8.self)
    switch connection.environment.pages.find(method: method, path: PageTable.split(target).path) {
    case .none where isPost: answerPage(PageResponse(status: 415, text: "unsupported media type\n"), isHead: false)
    default: break
    }
  }

  /// The body has a time by which it must be complete, as over HTTP/1.1.
  private func watchBody() {
    let end = connection.now + Limits.pageRequestTimeout
    messageEnd = end
    connection.watch(end)
  }

  private func runPage() {
    guard phase == .page, !isTaskRunning, let asked = request else { return }
    let head = asked.head
    let (path, query) = PageTable.split(String(decoding: head.httpPath, as: UTF8.self))
    var headers: [(name: String, value: String)] = []
    var cookies: [String] = []
    head.fields.forEach { name, value in
      let (name, value) = (String(decoding: name, as: UTF8.self), String(decoding: value, as: UTF8.self))
      if name == "cookie" { cookies.append(value) } else { headers.append((name, value)) }
      return true
    }
    // RFC 9113 §8.2.3: a client may give each cookie a field of its own.
    if !cookies.isEmpty { headers.append(("cookie", cookies.joined(separator: "; "))) }
    let request = PageRequest(
      method: head.httpMethod.isEmpty ? "POST" : String(decoding: head.httpMethod, as: UTF8.self),
      path: path,
      query: query,
      headers: headers,
      body: pageBody,
      peerAddress: asked.peer.address
    )
    isTaskRunning = true
    let task = Task.immediate(executorPreference: connection.executor) { [self] in
      let response = await connection.environment.answer(request, asked.account)
      isTaskRunning = false
      self.task = nil
      answerPage(response, isHead: request.method == "HEAD")
      recycleIfOver()
    }
    if isTaskRunning { taskWaits(task) }
  }

  private func answerPage(_ response: PageResponse, isHead: Bool) {
    guard phase == .page else { return }
    phase = .answered
    messageEnd = nil
    guard let stream, let session = connection.session else { return }
    var fields = HTTP2FieldList()
    fields.add(":status", String(response.status))
    for (name, value) in response.sentFields { fields.add(name.utf8, value.utf8) }
    let isEmpty = response.body.isEmpty || isHead
    session.respond(stream, fields, endStream: isEmpty)
    if !isEmpty {
      session.write(stream, ByteBuffer(bytes: response.body))
      session.finish(stream)
    }
    connection.wantOutput()
  }

  // MARK: The stream

  func stream(_ stream: HTTP2Stream, wrote bytes: Int) {
    connection.answered()
    call.outbox?.sent(bytes)
    web?.wrote(bytes)
  }

  func stream(_ stream: HTTP2Stream, closed code: HTTP2ErrorCode) {
    self.stream = nil
    callEnd = nil
    messageEnd = nil
    web?.end(RPCError(.cancelled, "the client cancelled the call"))
    if phase != .answered {
      let error = RPCError(.cancelled, "the client cancelled the call")
      finish(error)
      phase = .answered
      stopHandler(error)
    } else {
      task?.cancel()
    }
    connection.streamClosed()
    recycleIfOver()
  }
}

// MARK: gRPC-Web

extension ServerStream: WebCallSink {
  private func beginWeb(_ format: WebFormat, _ request: ServerRequest) {
    let place = WebCall.Place(
      environment: connection.environment,
      executor: connection.executor,
      peer: request.peer,
      account: request.account
    )
    let web = WebCall(format, request.head, place, sink: self)
    self.web = web
    web.begin(request.head)
  }

  func webCall(_ call: WebCall, answers headers: [(name: String, value: String)]) {
    guard phase == .page, let stream, let session = connection.session else { return }
    var fields = HTTP2FieldList()
    fields.add(":status", "200")
    for (name, value) in headers { fields.add(name.utf8, value.utf8) }
    session.respond(stream, fields)
  }

  func webCall(_ call: WebCall, sends body: ByteBuffer) {
    guard phase == .page, let stream, let session = connection.session else { return }
    session.write(stream, body)
    connection.wantOutput()
  }

  func webCallEnded(_ call: WebCall) {
    guard phase == .page else { return }
    phase = .answered
    messageEnd = nil
    guard let stream, let session = connection.session else { return }
    session.finish(stream)
    connection.wantOutput()
  }

  func webCallReturned(_ call: WebCall) {
    recycleIfOver()
  }
}

extension EventLoop {
  /// Runs `body` at once on this loop's thread, soon from another.
  func runNow(_ body: @escaping @Sendable () -> Void) {
    if inEventLoop { body() } else { execute(body) }
  }
}
