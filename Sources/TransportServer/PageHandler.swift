internal import GRPC
internal import NIOCore
internal import NIOHTTP1
internal import Transport

/// Answers requests for pages and gRPC-Web calls over HTTP/1.1, one at a time.
final class PageHandler: ChannelInboundHandler, @unchecked Sendable {
  // Unchecked: only touched on its event loop, which is also the executor that its tasks prefer.
  typealias InboundIn = HTTPServerRequestPart

  /// What comes while the request before it is answered.
  private enum Event {
    case part(HTTPServerRequestPart)
    case unreadable
    case inputClosed
  }

  let environment: ServerEnvironment
  let executor: EventLoopTaskExecutor
  let peer: ConnectionPeer
  let writer: PageAnswerWriter
  /// From one piece of a read, whose size the pacer bounds.
  private var waiting = CircularBuffer<Event>()
  private var isTakingWaiting = false
  private var head: HTTPRequestHead?
  private var body: [UInt8] = []
  /// Bytes that the parser has had and said nothing of yet.
  private var unparsed = 0
  /// Bytes of the request being received or answered: of its head, and of its body.
  private var (heldHead, heldBody) = (0, 0)
  /// The answer to a request whose body is not taken.
  private var refusal: PageResponse?
  var web: (call: WebCall, head: HTTPRequestHead)?
  private var share = CallShare()
  /// What the source of the request holds that is under way.
  var account: SourceAccount
  /// Bytes that were read and wait until they may be passed on, and those of a TLS record that has not ended.
  private var (waitingBytes, recordBytes) = (0, 0)
  /// How long what is being received has waited for others.
  var lateness = TimeAmount.zero
  /// What the server's budget was last told that this connection holds.
  private var reportedBytes = 0
  /// A request has begun to come, and not ended.
  var isReceiving = true
  private var isTaskRunning = false
  /// What makes the answer under way, while that takes time.
  private(set) var pageTask: Task<Void, Never>?
  /// The answer under way is the last one.
  private var isDraining = false
  private var timer: LoopTimer?
  /// Ends the connection when a drain has lasted long enough.
  private var drainTimer: LoopTimer?
  /// The connection was asked to give something up, and has not looked yet.
  private var isAsked = false
  /// Called when the next request may come.
  var becameFree: (() -> Void)?
  /// When the last answer was complete.
  private var lastAnswer = NIODeadline.now()

  init(environment: ServerEnvironment, executor: EventLoopTaskExecutor, peer: ConnectionPeer) {
    self.environment = environment
    self.executor = executor
    self.peer = peer
    account = peer.account
    writer = PageAnswerWriter(executor, stallTimeout: environment.configuration.stalledWriteTimeout)
  }

  func handlerAdded(context: ChannelHandlerContext) {
    writer.begin(context)
    writer.changed = { [unowned self] in reportBuffered() }
    startTimer(Limits.pageRequestTimeout)
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    abandon()
    drainTimer?.cancel()
    drainTimer = nil
    writer.end()
    environment.budget.buffered(-reportedBytes, peer.account)
    reportedBytes = 0
  }

  func channelInactive(context: ChannelHandlerContext) {
    abandon()
    context.fireChannelInactive()
  }

  private var exchange: PageExchange { writer.exchange }

  // MARK: Requests

  /// Whether the request that is under way, or the next one, may go on coming: none waits for its answer, and the peer
  /// takes those that it had.
  var isFree: Bool {
    waiting.isEmpty && !exchange.isOver && (isReceiving || writer.isReady)
  }

  /// So many bytes of what was read wait.
  func keepsWaiting(_ count: Int) {
    waitingBytes = count
  }

  /// Bytes of a request come, or of the next one: from its first byte on it has its time. False: the parser would keep more
  /// than any head or trailer is, be it blanks, which it does not count, and the connection ends.
  func receivesBytes(_ count: Int) -> Bool {
    if !isReceiving, exchange.isIdle {
      isReceiving = true
      startTimer(Limits.pageRequestTimeout)
    }
    unparsed += count
    guard unparsed > Limits.unparsedPageBytes else { return true }
    receive(.unreadable)
    return false
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let part = unwrapInboundIn(data)
    if case .head = part { heldHead += unparsed }
    unparsed = 0
    receive(.part(part))
  }

  /// Takes the event now, or when the answers to the requests before it are complete.
  private func receive(_ event: Event) {
    guard !exchange.isOver else { return }
    // Nothing behind a call is answered once its client is gone.
    if case .inputClosed = event, isCallAnswered { return take(event) }
    guard waiting.isEmpty, mayTake(event) else { return waiting.append(event) }
    take(event)
  }

  private func mayTake(_ event: Event) -> Bool {
    switch event {
    case .part(.head): writer.isReady
    case .part: true
    // It is the request under way that cannot be read, or the next one.
    case .unreadable: exchange.isIdle || isReceiving
    case .inputClosed: true
    }
  }

  private func takeWaiting() {
    guard !isTakingWaiting else { return }
    isTakingWaiting = true
    while let event = waiting.first, mayTake(event) {
      waiting.removeFirst()
      take(event)
    }
    isTakingWaiting = false
    if isFree { becameFree?() }
  }

  private func take(_ event: Event) {
    guard !exchange.isOver else { return }
    switch event {
    case .part(.head(let head)): begin(head)
    case .part(.body(let bytes)): takeBody(bytes)
    case .part(.end(let trailers)): takeEnd(trailers)
    case .unreadable: refuseUnreadable()
    case .inputClosed: takeInputClosed()
    }
  }

  private func begin(_ request: HTTPRequestHead) {
    var head = request
    guard writer.receivedHead() else { return }
    isReceiving = true
    if let refusal = head.refusal { return refuse(head, refusal) }
    if let target = head.originForm { head.uri = target }
    if head.waitsForContinue { writer.sendContinue() }
    guard !exchange.isOver, !beginWeb(head) else { return }
    // Whose bytes come next.
    if peer.proxy != nil { _ = client(of: head) }
    self.head = head
    body = []
    heldBody = 0
    refusal = nil
  }

  private func takeBody(_ bytes: ByteBuffer) {
    if let web {
      guard environment.budget.hasRoomForBytes(of: account) else { return web.call.end(environment.budget.refusal()) }
      // The call reads it before it returns, and keeps no more than a message.
      return unsafe bytes.withUnsafeReadableBytes { unsafe web.call.receive($0) }
    }
    guard refusal == nil else { return }
    if !environment.budget.hasRoom(for: account) {
      refusal = environment.noRoomPage(head?.headers.first(name: "origin"))
    } else if body.count + bytes.readableBytes > Limits.pageBodyBytes {
      refusal = .tooLarge
    } else {
      body.append(contentsOf: bytes.readableBytesView)
    }
    if refusal != nil { body = [] }
    heldBody = body.count
  }

  private func takeEnd(_ trailers: HTTPHeaders?) {
    isReceiving = false
    // The parser takes them for the head's, and what follows for another protocol.
    if let trailers, ["connection", "proxy-connection"].contains(where: { trailers.contains(name: $0) }) {
      isDraining = true
    }
    // What keeps a call open is not taken away for a head of the usual size.
    if heldHead <= Limits.usualHeadBytes { heldHead = 0 }
    timer?.cancel()
    if let web { return web.call.receivedEnd() }
    guard let head else { return }
    // A page that is only read costs what refusing it does.
    guard refusal == nil, head.method == .POST, isLate(after: Limits.pagePatience) else { return answer(head) }
    body = []
    environment.budget.callRefused()
    send(environment.latePage(head.headers.first(name: "origin")), to: head)
  }

  /// Answers a request whose body is not waited for, and ends the connection: where the next one begins is in doubt.
  private func refuse(_ head: HTTPRequestHead, _ refusal: PageResponse) {
    isDraining = true
    send(refusal, to: head)
  }

  private func refuseUnreadable() {
    let head = web?.head ?? head ?? HTTPRequestHead(version: .http1_1, method: .GET, uri: "/")
    if let call = web?.call {
      web = nil
      call.end(RPCError(.internal, "the request cannot be read"))
    }
    _ = writer.receivedHead()
    refuse(head, PageResponse(status: 400, text: "the request is not understood\n"))
    // The answer to a call may have begun.
    if !exchange.isOver { close() }
  }

  private func takeInputClosed() {
    // Nothing more will be asked; what is under way is still answered, but a call has no reader.
    isDraining = true
    guard web != nil || exchange.isIdle || isReceiving else { return }
    executor.turns.soon { self.closeWhenWritten() }
  }

  // MARK: Time and pressure

  private func startTimer(_ time: TimeAmount) {
    timer?.cancel()
    timer = executor.schedule(at: executor.eventLoop.now + time) { [weak self] in self?.timeIsOver() }
  }

  private func timeIsOver() {
    // A peer that still reads what was answered is not silent, and has a time of its own for that.
    guard waiting.isEmpty, isReceiving || !writer.hasUnwritten else { return startTimer(Limits.pageIdleTimeout) }
    close()
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    reportBuffered()
    context.fireChannelReadComplete()
  }

  /// Tells the server's budget what this connection holds.
  func reportBuffered() {
    var bytes = writer.unwrittenBytes
    if !exchange.isOver {
      bytes += recordBytes + waitingBytes + unparsed + heldHead + heldBody + (web?.call.heldBytes ?? 0)
    }
    guard bytes != reportedBytes else { return }
    environment.budget.buffered(bytes - reportedBytes, peer.account)
    reportedBytes = bytes
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if let shed = event as? ServerShed {
      guard !isAsked else { return }
      isAsked = true
      executor.turns.soon { [self] in
        isAsked = false
        if let shed = shed.isOver ? environment.budget.wantedBack : shed { giveUp(shed) }
      }
    } else if let record = event as? TLSRecordWaits {
      recordBytes = record.bytes
      reportBuffered()
    } else if event is ServerDisplacement {
      endForOthers()
    } else if event is ServerDrain {
      drain()
    } else if event is ServerPressure {
      // Others want this connection's place.
      if exchange.isIdle, !isReceiving, .now() - lastAnswer >= Limits.pressureIdleTime { closeWhenWritten() }
    } else if case ChannelEvent.inputClosed = event {
      receive(.inputClosed)
    } else {
      context.fireUserInboundEventTriggered(event)
    }
  }

  /// Ends the connection with the answer that is under way, or when the server waits no longer.
  private func drain() {
    isDraining = true
    guard drainTimer == nil else { return }
    let end = executor.eventLoop.now + environment.configuration.drainGrace
    drainTimer = executor.schedule(at: end) { [weak self] in self?.close() }
    if exchange.isIdle { closeWhenWritten() }
  }

  func channelWritabilityChanged(context: ChannelHandlerContext) {
    if context.channel.isWritable { takeWaiting() }
    context.fireChannelWritabilityChanged()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    environment.logger.debug("connection failed", metadata: ["error": "\(error)"])
    // The encoder's side has errors of this type as well: a head that it does not take.
    guard error is HTTPParserError, !writer.isSendingHead else { return close() }
    receive(.unreadable)
  }

  // MARK: The end

  /// Nothing is read or written from here on, and what was begun for this connection ends.
  private func abandon() {
    timer?.cancel()
    timer = nil
    writer.abandon()
    forgetRequests()
    // Its share in the budget is given back when it has returned.
    pageTask?.cancel()
    pageTask = nil
    guard let call = web?.call else { return }
    web = nil
    call.end(RPCError(.cancelled, "the client is gone"))
  }

  private func forgetRequests() {
    waiting.removeAll()
    head = nil
    body = []
    (unparsed, heldHead, heldBody) = (0, 0, 0)
  }

  private func close() {
    abandon()
    writer.close()
  }

  private func closeWhenWritten() {
    abandon()
    writer.closeWhenWritten()
  }

  /// Ends the connection because others have less, and says so to who has asked for something and takes answers: as far as a
  /// peer that still sends hears it.
  private func endForOthers() {
    let hasRequest = unparsed > 0 || waitingBytes > 0 || !exchange.isIdle
    guard hasRequest, !exchange.isOver, !exchange.maySendBody, !writer.hasUnwritten else { return close() }
    isDraining = true
    if let web {
      web.call.end(environment.budget.refusal())
    } else {
      pageTask?.cancel()
      pageTask = nil
      _ = writer.receivedHead()
      let head = head ?? HTTPRequestHead(version: .http1_1, method: .GET, uri: "/")
      refuse(head, environment.noRoomPage(head.headers.first(name: "origin")))
    }
    if !exchange.isOver || writer.hasUnwritten { close() }
  }

  // MARK: Answers

  private func answer(_ head: HTTPRequestHead) {
    let (path, query) = PageTable.split(head.uri)
    let request = PageRequest(
      method: head.method.rawValue,
      path: path,
      query: query,
      headers: head.headers.map { ($0.name.lowercased(), $0.value) },
      body: body,
      peerAddress: client(of: head).address
    )
    body = []
    let refusal = refusal
    isTaskRunning = true
    let task = Task.immediate(executorPreference: executor) { [self] in
      let response: PageResponse
      if let refusal {
        response = refusal
      } else if head.headers["content-type"].contains(where: { $0.utf8.starts(with: "application/grpc".utf8) }) {
        // RFC 9110 §15.5.22 would be 426, but gRPC clients know 415.
        response = PageResponse(status: 415, text: "gRPC needs HTTP/2\n")
      } else {
        response = await environment.answer(request, account)
      }
      // Ahead of the answer, with which the next request may begin.
      isTaskRunning = false
      pageTask = nil
      share.giveBack(to: environment.budget)
      send(response, to: head)
    }
    // An answer that took no time is complete, and the next request may have begun with it.
    guard isTaskRunning, pageTask == nil else { return }
    pageTask = task
    share.take(of: environment.budget, for: account)
    reportBuffered()
  }

  /// Sources hold more than their share, and this connection may have some of it.
  private func giveUp(_ shed: ServerShed) {
    if reportedBytes > 0, let excess = shed.bytes(of: peer.account), excess.take(reportedBytes) {
      return endForOthers()
    }
    guard let account = web?.call.waitingAccount ?? share.account, let excess = shed.calls(of: account), excess.take()
    else { return }
    if let web { web.call.end(environment.budget.refusal()) } else { endForOthers() }
  }

  func isKeptAlive(_ request: HTTPRequestHead) -> Bool { request.isKeepAlive && !isDraining && !request.endsHTTP }

  private func send(_ response: PageResponse, to request: HTTPRequestHead) {
    let isKeptAlive = isKeptAlive(request)
    guard writer.sendHead(response.status, response.sentFields, to: request, isKeptAlive: isKeptAlive) else { return }
    if request.method != .HEAD { writer.sendBody(response.sentBody) }
    sendEnd(isKeptAlive: isKeptAlive)
  }

  func sendEnd(isKeptAlive: Bool) {
    guard exchange.maySendBody else { return }
    lastAnswer = .now()
    head = nil
    (heldHead, heldBody) = (0, 0)
    if isKeptAlive {
      startTimer(Limits.pageIdleTimeout)
    } else {
      timer?.cancel()
      forgetRequests()
    }
    _ = writer.sendEnd(isKeptAlive: isKeptAlive)
    reportBuffered()
    takeWaiting()
  }
}
