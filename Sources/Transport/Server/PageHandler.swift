internal import GRPC
internal import NIOCore
internal import NIOHTTP1

/// Answers requests for pages over HTTP/1.1, one at a time.
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
  private var isRefused = false
  private var isAnswering = false
  private var isDraining = false
  private var timer: Scheduled<Void>?

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
    try pipeline.configureHTTPServerPipeline(withPipeliningAssistance: true, withErrorHandling: true)
    try pipeline.addHandler(PageHandler(environment: environment, executor: executor, peer: peer))
  }

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    startTimer(Limits.pageRequestTimeout)
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    self.context = nil
    timer?.cancel()
    timer = nil
  }

  private func startTimer(_ time: TimeAmount) {
    timer?.cancel()
    timer = executor.eventLoop.assumeIsolated().scheduleTask(in: time) { [weak self] in
      self?.context?.close(promise: nil)
    }
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch unwrapInboundIn(data) {
    case .head(let head):
      self.head = head
      body = []
      isRefused = false
    case .body(let bytes):
      guard !isRefused else { return }
      guard body.count + bytes.readableBytes <= Limits.pageBodyBytes else {
        isRefused = true
        return
      }
      body.append(contentsOf: bytes.readableBytesView)
    case .end:
      guard let head else { return }
      self.head = nil
      answer(head)
    }
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if event is ServerDrain {
      isDraining = true
      if !isAnswering { context.close(promise: nil) }
    } else {
      context.fireUserInboundEventTriggered(event)
    }
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
    let isTooLarge = isRefused
    Task.immediate(executorPreference: executor) { [self] in
      if isTooLarge {
        send(PageResponse(status: 413, text: "too large\n"), to: head)
      } else if head.headers.contains(name: "content-type"), head.headers["content-type"].contains(where: isGRPC) {
        // RFC 9110 §15.5.22 would be 426, but gRPC clients know 415.
        send(PageResponse(status: 415, text: "gRPC needs HTTP/2\n"), to: head)
      } else {
        send(await environment.pages.answer(request), to: head)
      }
    }
  }

  private func isGRPC(_ contentType: String) -> Bool {
    contentType.utf8.starts(with: "application/grpc".utf8)
  }

  private func send(_ response: PageResponse, to request: HTTPRequestHead) {
    isAnswering = false
    guard let context else { return }
    let isKeptAlive = request.isKeepAlive && !isDraining
    var headers = HTTPHeaders()
    for (name, value) in response.headers { headers.add(name: name, value: value) }
    headers.replaceOrAdd(name: "content-length", value: String(response.body.count))
    if !isKeptAlive {
      headers.replaceOrAdd(name: "connection", value: "close")
    } else if request.version == .http1_0 {
      headers.replaceOrAdd(name: "connection", value: "keep-alive")
    }
    let head = HTTPResponseHead(
      version: request.version == .http1_0 ? .http1_0 : .http1_1,
      status: HTTPResponseStatus(statusCode: response.status),
      headers: headers
    )
    context.write(wrapOutboundOut(.head(head)), promise: nil)
    if request.method != .HEAD, !response.body.isEmpty {
      context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: response.body)))), promise: nil)
    }
    let written = context.eventLoop.makePromise(of: Void.self)
    context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: written)
    if isKeptAlive {
      startTimer(Limits.pageIdleTimeout)
    } else {
      written.futureResult.assumeIsolated().whenComplete { [self] _ in self.context?.close(promise: nil) }
    }
  }
}
