internal import Callers
internal import NIOCore

/// Hands the bytes of requests over HTTP/1.1 on as they are worked off: the next ones when those before are answered,
/// and no more in one go than fits the connection's turn.
///
/// Tells the page handler behind it that bytes of a request come, before they are a request, and how many wait here.
final class RequestPacer: ChannelDuplexHandler, TurnTaker, @unchecked Sendable {
  // Unchecked: only touched on its event loop.
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer
  typealias OutboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private let pages: PageHandler
  private var executor: EventLoopTaskExecutor { pages.executor }
  private var turns: LoopTurns { executor.turns }
  private var context: ChannelHandlerContext?
  private var rest = ByteBuffer()
  private var isTurnComing = false
  /// The work for others that was done when the wait for a turn began.
  private var waitBegin = TimeAmount.zero
  private var isPassing = false
  private var isReadHeld = false
  /// The peer has ended its side; whoever is behind learns it after the bytes. A call that is answered learns it at once: it
  /// has no reader, and nothing behind it will be answered.
  private var isInputClosed = false

  var source: TurnSource { executor.source }
  var isBegun: Bool { false }

  init(_ pages: PageHandler) {
    self.pages = pages
  }

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    pages.becameFree = { [weak self] in self?.goOn() }
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    self.context = nil
    pages.becameFree = nil
    rest = ByteBuffer()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    var bytes = unwrapInboundIn(data)
    guard rest.readableBytes == 0 else {
      rest.writeBuffer(&bytes)
      return pages.keepsWaiting(rest.readableBytes)
    }
    rest = turns.readBuffers.keep(bytes)
    let start = turns.eventLoop.now
    pages.lateness = .zero
    passOn(until: turns.end(ofTurnFrom: start))
    executor.worked(from: start, until: turns.eventLoop.now)
    waitForTurn()
  }

  func read(context: ChannelHandlerContext) {
    if rest.readableBytes == 0, pages.isFree { context.read() } else { isReadHeld = true }
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if case ChannelEvent.inputClosed = event, rest.readableBytes > 0, !pages.isCallAnswered {
      isInputClosed = true
    } else {
      context.fireUserInboundEventTriggered(event)
    }
  }

  func takeTurn(until end: NIODeadline) -> Bool {
    isTurnComing = false
    guard let context else { return false }
    let start = turns.eventLoop.now
    // The turn in which the wait began may not be counted as its own before it ends.
    pages.lateness = max(executor.othersWork - waitBegin, .zero)
    passOn(until: end)
    context.fireChannelReadComplete()
    executor.worked(from: start, until: turns.eventLoop.now)
    guard rest.readableBytes == 0 else {
      isTurnComing = pages.isFree
      return isTurnComing
    }
    rest = ByteBuffer()
    if isInputClosed {
      isInputClosed = false
      context.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
    } else {
      goOn()
    }
    return false
  }

  private func passOn(until end: NIODeadline) {
    isPassing = true
    defer {
      isPassing = false
      rest = turns.readBuffers.keep(rest)
      pages.keepsWaiting(rest.readableBytes)
    }
    while pages.isFree, let context,
      let piece = rest.readSlice(length: min(rest.readableBytes, Limits.pageBytesBetweenLooks)),
      piece.readableBytes > 0
    {
      guard pages.receivesBytes(piece.readableBytes) else { return }
      context.fireChannelRead(wrapInboundOut(piece))
      if turns.eventLoop.now >= end { return }
    }
  }

  private func goOn() {
    waitForTurn()
    guard rest.readableBytes == 0, isReadHeld, pages.isFree else { return }
    isReadHeld = false
    context?.read()
  }

  private func waitForTurn() {
    guard rest.readableBytes > 0, pages.isFree, !isTurnComing, !isPassing else { return }
    isTurnComing = true
    // What waited for an answer to what came before it waited for itself.
    waitBegin = executor.othersWork
    turns.wait(self)
  }
}
