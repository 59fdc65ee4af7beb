internal import GRPC
internal import NIOCore
internal import NIOHTTP1

/// Answers requests for pages and gRPC-Web calls over HTTP/1.1, one at a time.
final class PageHandler: ChannelInboundHandler, @unchecked Sendable {
  // Unchecked: only touched on its event loop, which is also the executor that its tasks prefer.
  typealias InboundIn = HTTPServerRequestPart
  typealias OutboundOut = HTTPServerResponsePart

  private let environment: ServerEnvironment
  private let executor: EventLoopTaskExecutor
  private let peer: Peer
  private var context: ChannelHandlerContext?
  private var head: HTTPRequestHead?
  private var body: [UInt8] = []
  /// Bytes of the body that the request being received or answered keeps.
  private var heldBody = 0
  /// The answer to a request whose body is not taken.
  private var refusal: PageResponse?
  /// Bytes that were read and wait until they may be passed on.
  private var waitingBytes = 0
  /// What the server's budget was last told that this connection holds.
  private var reportedBytes = 0
  private var isAnswering = false {
    didSet { if oldValue, !isAnswering { becameFree?() } }
  }
  private var isTaskRunning = false
  private var share = CallShare()
  /// A request has begun to come, and not ended.
  private var isReceiving = true
  private var web: (call: WebCall, head: HTTPRequestHead)?
  private var isDraining = false
  /// The last answer is on its way: nothing that comes now is read.
  private var isEnding = false
  private var timer: Scheduled<Void>?
  /// Called when the next request may come.
  var becameFree: (() -> Void)?
  /// When the last answer was complete.
  private var lastAnswer = NIODeadline.now()

  init(environment: ServerEnvironment, executor: EventLoopTaskExecutor, peer: Peer) {
    self.environment = environment
    self.executor = executor
    self.peer = peer
  }

  /// Adds the HTTP/1.1 codec and a page handler at the end of a pipeline.
  static func addHandlers(
    to pipeline: ChannelPipeline.SynchronousOperations,
    environment: ServerEnvironment,
    executor: EventLoopTaskExecutor,
    peer: Peer
  ) throws {
    let pages = PageHandler(environment: environment, executor: executor, peer: peer)
    try pipeline.addHandler(RequestPacer(pages, executor.turns))
    var bounds = NIOHTTPDecoderLimitConfiguration()
    bounds.maxHeaderFieldSize = Limits.pageHeaderBytes
    bounds.maxHeaderListSize = Limits.pageHeaderBytes
    bounds.maxHeaderFieldCount = Limits.pageHeaderFields
    try pipeline.configureHTTPServerPipeline(
      withPipeliningAssistance: true,
      withErrorHandling: true,
      withOutboundHeaderValidation: true,
      withEncoderConfiguration: .init(),
      withDecoderLimitConfiguration: bounds
    )
    try pipeline.addHandler(pages)
  }

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    startTimer(Limits.pageRequestTimeout)
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    environment.budget.buffered(-reportedBytes)
    reportedBytes = 0
    self.context = nil
    timer?.cancel()
    timer = nil
  }

  /// Whether the request that is under way, or the next one, may go on coming: none waits for its answer.
  var isFree: Bool { isReceiving || !isAnswering }

  private func startTimer(_ time: TimeAmount) {
    timer?.cancel()
    timer = executor.eventLoop.assumeIsolated().scheduleTask(in: time) { [weak self] in
      self?.context?.close(promise: nil)
    }
  }

  /// So many bytes of what was read wait.
  func keepsWaiting(_ count: Int) {
    waitingBytes = count
  }

  /// Bytes of a request come, or of the next one: from its first byte on it has its time.
  func receivesBytes() {
    guard !isReceiving, !isAnswering else { return }
    isReceiving = true
    startTimer(Limits.pageRequestTimeout)
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard !isEnding else { return }
    switch unwrapInboundIn(data) {
    case .head(var head):
      isReceiving = true
      if let refusal = head.refusal { return refuse(head, refusal) }
      if let target = head.originForm { head.uri = target }
      if head.waitsForContinue {
        let leave = HTTPResponseHead(version: .http1_1, status: .continue)
        context.writeAndFlush(wrapOutboundOut(.head(leave)), promise: nil)
      }
      if beginWeb(head) { return }
      self.head = head
      body = []
      heldBody = 0
      refusal = nil
    case .body(let bytes):
      if let web {
        guard !environment.budget.isExhausted else { return web.call.end(environment.budget.refusal()) }
        // The call reads it before it returns, and keeps no more than a message.
        return unsafe bytes.withUnsafeReadableBytes { unsafe web.call.receive($0) }
      }
      guard refusal == nil else { return }
      if environment.budget.isExhausted {
        refusal = .noRoom
      } else if body.count + bytes.readableBytes > Limits.pageBodyBytes {
        refusal = .tooLarge
      } else {
        body.append(contentsOf: bytes.readableBytesView)
      }
      if refusal != nil { body = [] }
      heldBody = body.count
    case .end:
      isReceiving = false
      if let web {
        timer?.cancel()
        web.call.receivedEnd()
        return
      }
      guard let head else { return }
      self.head = nil
      answer(head)
    }
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    reportBuffered()
    context.fireChannelReadComplete()
  }

  /// Tells the server's budget what this connection holds.
  private func reportBuffered() {
    guard let context else { return }
    var bytes = waitingBytes + (isAnswering || isReceiving ? heldBody + (web?.call.heldBytes ?? 0) : 0)
    if !context.channel.isWritable, let options = context.channel.syncOptions {
      // What the socket has not taken. A channel that cannot tell has no socket.
      bytes += (try? options.getOption(.bufferedWritableBytes)) ?? 0
    }
    guard bytes != reportedBytes else { return }
    environment.budget.buffered(bytes - reportedBytes)
    reportedBytes = bytes
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if event is ServerDrain {
      isDraining = true
      if !isAnswering { context.close(promise: nil) }
    } else if event is ServerPressure {
      // Others want this connection's place.
      if !isAnswering, !isReceiving, .now() - lastAnswer >= Limits.pressureIdleTime { context.close(promise: nil) }
    } else if case ChannelEvent.inputClosed = event, let web {
      // The client has gone; what it asked for has no reader.
      self.web = nil
      web.call.end(RPCError(.cancelled, "the client is gone"))
      closeSoon()
    } else if case ChannelEvent.inputClosed = event {
      // Nothing more will be asked; what is under way is still answered.
      isDraining = true
      if !isAnswering { closeSoon() }
    } else {
      context.fireUserInboundEventTriggered(event)
    }
  }

  private func closeSoon() {
    executor.turns.soon { self.context?.close(promise: nil) }
  }

  func channelInactive(context: ChannelHandlerContext) {
    if let web {
      self.web = nil
      web.call.end(RPCError(.cancelled, "the client is gone"))
    }
    context.fireChannelInactive()
  }

  func channelWritabilityChanged(context: ChannelHandlerContext) {
    // While an answer goes out no other timer runs.
    if !context.channel.isWritable {
      startTimer(Limits.stalledWriteTimeout)
    } else if isAnswering {
      timer?.cancel()
    }
    reportBuffered()
    context.fireChannelWritabilityChanged()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    environment.logger.debug("connection failed", metadata: ["error": "\(error)"])
    context.close(promise: nil)
  }

  private func answer(_ head: HTTPRequestHead) {
    isAnswering = true
    timer?.cancel()
    let (path, query) = PageTable.split(head.uri)
    let request = PageRequest(
      method: head.method.rawValue,
      path: path,
      query: query,
      headers: head.headers.map { ($0.name.lowercased(), $0.value) },
      body: body,
      peerAddress: peer.address
    )
    body = []
    let refusal = refusal
    isTaskRunning = true
    Task.immediate(executorPreference: executor) { [self] in
      if let refusal {
        send(refusal, to: head)
      } else if head.headers.contains(name: "content-type"), head.headers["content-type"].contains(where: isGRPC) {
        // RFC 9110 §15.5.22 would be 426, but gRPC clients know 415.
        send(PageResponse(status: 415, text: "gRPC needs HTTP/2\n"), to: head)
      } else {
        send(await environment.answer(request), to: head)
      }
      isTaskRunning = false
      share.giveBack(to: environment.budget)
    }
    guard isTaskRunning else { return }
    share.take(of: environment.budget)
    reportBuffered()
  }

  /// Answers a request whose body is not waited for, and ends the connection: where the next one begins is in doubt.
  private func refuse(_ head: HTTPRequestHead, _ refusal: PageResponse) {
    isDraining = true
    timer?.cancel()
    send(refusal, to: head)
  }

  private func isGRPC(_ contentType: String) -> Bool {
    contentType.utf8.starts(with: "application/grpc".utf8)
  }

  /// Whether the parser takes what follows the request for another protocol, which nobody here speaks: that is passed
  /// over, be it the next request (RFC 9110 §7.8, §9.3.6).
  private static func endsHTTP(_ request: HTTPRequestHead) -> Bool {
    request.method == .CONNECT || request.headers.contains(name: "upgrade")
  }

  private func send(_ response: PageResponse, to request: HTTPRequestHead) {
    isAnswering = false
    guard let context else { return }
    let isKeptAlive = request.isKeepAlive && !isDraining && !Self.endsHTTP(request)
    sendHead(response.status, response.sentFields, to: request, isKeptAlive: isKeptAlive, context)
    if request.method != .HEAD, !response.body.isEmpty {
      context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: response.body)))), promise: nil)
    }
    sendEnd(isKeptAlive: isKeptAlive, context)
  }

  private func sendHead(
    _ status: Int,
    _ fields: [(name: String, value: String)],
    to request: HTTPRequestHead,
    isKeptAlive: Bool,
    _ context: ChannelHandlerContext
  ) {
    var headers = HTTPHeaders()
    for (name, value) in fields { headers.add(name: name, value: value) }
    if !isKeptAlive {
      headers.replaceOrAdd(name: "connection", value: "close")
    } else if request.version == .http1_0 {
      headers.replaceOrAdd(name: "connection", value: "keep-alive")
    }
    let head = HTTPResponseHead(
      version: request.version == .http1_0 ? .http1_0 : .http1_1,
      status: HTTPResponseStatus(statusCode: status),
      headers: headers
    )
    context.write(wrapOutboundOut(.head(head)), promise: nil)
  }

  private func sendEnd(isKeptAlive: Bool, _ context: ChannelHandlerContext) {
    isEnding = !isKeptAlive
    lastAnswer = .now()
    heldBody = 0
    reportBuffered()
    guard isKeptAlive else {
      let written = context.eventLoop.makePromise(of: Void.self)
      context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: written)
      return written.futureResult.assumeIsolated().whenComplete { [self] _ in self.context?.close(promise: nil) }
    }
    // Before the end is written, which may bring the next request and its own time.
    startTimer(Limits.pageIdleTimeout)
    context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
  }
}

// MARK: gRPC-Web

extension PageHandler: WebCallSink {
  /// Takes the request if it is a gRPC-Web call.
  private func beginWeb(_ request: HTTPRequestHead) -> Bool {
    guard request.method == .POST, request.headers.contains(name: "content-type") else { return false }
    var head = RequestHead()
    let router = environment.router
    head.receive(":method", request.method.rawValue, router)
    head.receive(":path", request.uri, router)
    for (name, value) in request.headers where !Self.isOfConnection(name.lowercased()) {
      head.receive(name.lowercased(), value, router)
    }
    guard let format = head.webFormat else { return false }
    isAnswering = true
    let call = WebCall(
      format,
      head,
      WebCall.Place(environment: environment, executor: executor, peer: peer),
      sink: self
    )
    web = (call, request)
    call.begin(head)
    return true
  }

  /// What speaks of the connection and not of the call (RFC 9110 §7.6.1).
  private static func isOfConnection(_ name: String) -> Bool {
    switch name {
    case "connection", "content-length", "host", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade": true
    default: false
    }
  }

  /// An answer that ends before the request does ends the connection as well.
  private func isKeptAlive(_ request: HTTPRequestHead) -> Bool {
    request.isKeepAlive && request.version != .http1_0 && !isDraining && !isReceiving && !Self.endsHTTP(request)
  }

  func webCall(_ call: WebCall, answers headers: [(name: String, value: String)]) {
    guard let context, let web, web.call === call else { return }
    sendHead(200, headers, to: web.head, isKeptAlive: isKeptAlive(web.head), context)
  }

  func webCall(_ call: WebCall, sends body: ByteBuffer) {
    guard let context, let web, web.call === call else { return }
    let count = body.readableBytes
    context.writeAndFlush(wrapOutboundOut(.body(.byteBuffer(body)))).assumeIsolated().whenSuccess { call.wrote(count) }
  }

  func webCallEnded(_ call: WebCall) {
    guard let context, let web, web.call === call else { return }
    self.web = nil
    isAnswering = false
    sendEnd(isKeptAlive: isKeptAlive(web.head), context)
  }

  func webCallReturned(_ call: WebCall) {}
}

extension RequestHead {
  fileprivate mutating func receive(_ name: String, _ value: String, _ router: Router) {
    var (name, value) = (name, value)
    // Both are read before the call returns.
    name.withUTF8 { name in
      value.withUTF8 { value in
        unsafe receive(UnsafeRawBufferPointer(name), UnsafeRawBufferPointer(value), router)
      }
    }
  }
}
