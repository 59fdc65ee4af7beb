internal import NIOCore
internal import NIOHTTP1

/// Writes the answers of one connection of HTTP/1.1, in the one order that there is, and sees to it that they leave.
///
/// A write may fail, which closes the channel within the call: whoever writes checks `exchange` again behind it.
final class PageAnswerWriter: @unchecked Sendable {
  // Unchecked: only touched on its event loop.
  private typealias Part = HTTPServerResponsePart

  private let executor: EventLoopTaskExecutor
  private let stallTimeout: TimeAmount
  private var context: ChannelHandlerContext?
  private(set) var exchange = PageExchange()
  /// A head is being written: what of it cannot be written is no fault of the peer's.
  private(set) var isSendingHead = false
  /// Writes that are not complete, and the bytes of bodies among them.
  private var unwrittenParts = 0
  private(set) var unwrittenBytes = 0
  /// Bytes that have left since the timer began.
  private var progress = 0
  private var stallTimer: LoopTimer?
  private var closesWhenWritten = false
  /// Called when something has left.
  var changed: (() -> Void)?

  /// - Parameter stallTimeout: how long the peer may leave everything unread.
  init(_ executor: EventLoopTaskExecutor, stallTimeout: TimeAmount) {
    self.executor = executor
    self.stallTimeout = stallTimeout
  }

  func begin(_ context: ChannelHandlerContext) {
    self.context = context
  }

  /// The channel is gone, or no longer this handler's.
  func end() {
    abandon()
    stallTimer?.cancel()
    stallTimer = nil
    context = nil
    changed = nil
  }

  /// Whether a request may be answered now: the peer has taken the answers before it, more or less.
  var isReady: Bool { exchange.isIdle && context?.channel.isWritable == true }

  var hasUnwritten: Bool { unwrittenParts > 0 }

  /// A request came that wants an answer.
  func receivedHead() -> Bool { exchange.receivedHead() }

  // MARK: The end

  /// Nothing more is written. False when that was known.
  @discardableResult
  func abandon() -> Bool { exchange.end() }

  func close() {
    abandon()
    context?.close(promise: nil)
  }

  /// Ends the connection when the peer has what was answered before.
  func closeWhenWritten() {
    abandon()
    closesWhenWritten = true
    if !hasUnwritten { context?.close(promise: nil) }
  }

  // MARK: Answers

  /// Lets a client that waits for that send its body.
  func sendContinue() {
    guard let context, !exchange.isOver else { return }
    let head = HTTPResponseHead(version: .http1_1, status: .continue)
    context.writeAndFlush(NIOAny(Part.head(head)), promise: nil)
  }

  /// False when no head may be written now.
  @discardableResult
  func sendHead(
    _ status: Int,
    _ fields: [(name: String, value: String)],
    to request: HTTPRequestHead,
    isKeptAlive: Bool
  ) -> Bool {
    guard exchange.sendHead(), let context else { return false }
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
    isSendingHead = true
    context.write(NIOAny(Part.head(head)), promise: nil)
    isSendingHead = false
    return !exchange.isOver
  }

  /// - Parameter wrote: learns how much of it has left.
  func sendBody(_ body: ByteBuffer, wrote: ((Int) -> Void)? = nil) {
    var body = body
    // In pieces, so that those which leave show that the peer reads.
    while exchange.maySendBody, body.readableBytes > 0,
      let piece = body.readSlice(length: min(body.readableBytes, Limits.stallProgress))
    {
      write(.body(.byteBuffer(piece)), bytes: piece.readableBytes, wrote)
    }
  }

  /// False when there was nothing to end.
  func sendEnd(isKeptAlive: Bool) -> Bool {
    guard exchange.sendEnd(isLast: !isKeptAlive) else { return false }
    if !isKeptAlive { closesWhenWritten = true }
    write(.end(nil), bytes: 0)
    return true
  }

  private func write(_ part: Part, bytes: Int, _ wrote: ((Int) -> Void)? = nil) {
    guard let context else { return }
    unwrittenParts += 1
    unwrittenBytes += bytes
    let written = context.eventLoop.makePromise(of: Void.self)
    written.futureResult.assumeIsolated().whenComplete { [self] result in
      if case .success = result { wrote?(bytes) }
      completed(bytes)
    }
    context.writeAndFlush(NIOAny(part), promise: written)
    watch()
  }

  /// A write is complete, or has failed, which the channel does not outlive.
  private func completed(_ bytes: Int) {
    unwrittenParts -= 1
    unwrittenBytes -= bytes
    progress += bytes
    if !hasUnwritten || progress >= Limits.stallProgress {
      stallTimer?.cancel()
      stallTimer = nil
      watch()
    }
    changed?()
    if closesWhenWritten, !hasUnwritten { context?.close(promise: nil) }
  }

  /// What waits for the peer to read has a time by which some of it must have left.
  private func watch() {
    guard stallTimer == nil, hasUnwritten, let context, context.channel.isActive else { return }
    progress = 0
    stallTimer = executor.schedule(at: context.eventLoop.now + stallTimeout) { [weak self] in self?.close() }
  }
}
