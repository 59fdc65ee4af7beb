import NIOCore

/// Takes writes as a socket does: from the one that fails on they fail when they are flushed, and the channel closes
/// within that.
final class FailingSocket: ChannelOutboundHandler {
  typealias OutboundIn = ByteBuffer

  private let failing: Int
  private var unwritten: [(bytes: ByteBuffer, promise: EventLoopPromise<Void>?)] = []
  private var writes = 0
  private(set) var answers: [UInt8] = []

  /// - Parameter failing: the first write that fails.
  init(failing: Int) {
    self.failing = failing
  }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    guard context.channel.isActive else {
      promise?.fail(ChannelError.ioOnClosedChannel)
      return
    }
    unwritten.append((unwrapOutboundIn(data), promise))
  }

  func flush(context: ChannelHandlerContext) {
    while !unwritten.isEmpty {
      let next = unwritten.removeFirst()
      guard writes < failing else {
        let left = [next] + unwritten
        unwritten = []
        for write in left { write.promise?.fail(ChannelError.ioOnClosedChannel) }
        return context.close(promise: nil)
      }
      writes += 1
      answers.append(contentsOf: next.bytes.readableBytesView)
      next.promise?.succeed()
    }
  }
}
