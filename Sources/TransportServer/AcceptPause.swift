internal import Glibc
internal import NIOCore

/// Stops accepting for a while when the process has no room for another connection: those that wait would have the
/// event loop try again and again meanwhile.
final class AcceptPause: ChannelInboundHandler {
  typealias InboundIn = Channel

  private static let shortages: Set<CInt> = [EMFILE, ENFILE, ENOBUFS, ENOMEM]
  private var isPaused = false

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    if let error = error as? IOError, Self.shortages.contains(error.errnoCode), !isPaused {
      isPaused = true
      setAccepting(false, context)
      let loop = context.eventLoop.assumeIsolated()
      loop.scheduleTask(in: Limits.acceptPause) {
        self.isPaused = false
        self.setAccepting(true, context)
      }
    }
    context.fireErrorCaught(error)
  }

  private func setAccepting(_ accepts: Bool, _ context: ChannelHandlerContext) {
    // A channel that takes no options has been closed.
    try? context.channel.syncOptions?.setOption(.autoRead, value: accepts)
  }
}
