internal import Glibc
internal import NIOCore

/// Stops accepting for a while when this process has few files left, or the system none.
///
/// Connections that wait would have the event loop try again and again meanwhile. The last files are for everything else:
/// the system's libraries end a process that cannot open one (libdispatch looks at its threads in /proc). What is accepted
/// between two looks at the sockets is accepted though there may be room for its first only, so that after one there is one
/// at a time: a low number that is free does not say how many others are.
///
/// Cost: three system calls for all connections that are accepted between two looks.
final class AcceptPause: ChannelInboundHandler {
  typealias InboundIn = Channel

  private static let shortages: Set<CInt> = [EMFILE, ENFILE, ENOBUFS, ENOMEM]
  private var isPaused = false

  /// What is accepted between two looks at the sockets is there: nothing more is when too few files are left.
  func channelReadComplete(context: ChannelHandlerContext) {
    if !Self.hasSpareFiles { pause(context) }
    context.fireChannelReadComplete()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    if let error = error as? IOError, Self.shortages.contains(error.errnoCode) { pause(context) }
    context.fireErrorCaught(error)
  }

  private func pause(_ context: ChannelHandlerContext) {
    guard !isPaused else { return }
    isPaused = true
    setAccepting(false, context)
    // A channel that takes no options has been closed.
    try? context.channel.syncOptions?.setOption(.maxMessagesPerRead, value: 1)
    resumeLater(context)
  }

  private func resumeLater(_ context: ChannelHandlerContext) {
    context.eventLoop.assumeIsolated().scheduleTask(in: Limits.acceptPause) { [self] in
      guard Self.hasSpareFiles || !context.channel.isActive else { return resumeLater(context) }
      isPaused = false
      setAccepting(true, context)
    }
  }

  private func setAccepting(_ accepts: Bool, _ context: ChannelHandlerContext) {
    // A channel that takes no options has been closed.
    try? context.channel.syncOptions?.setOption(.autoRead, value: accepts)
  }

  /// Whether the lowest number that is free leaves room for others: the kernel gives the lowest one to whoever asks. The
  /// limit is asked for each time, since it may be changed from outside.
  private static var hasSpareFiles: Bool {
    var limit = rlimit()
    // getrlimit fills the struct and keeps nothing.
    guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return true }
    let lowest = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0)
    // Without a standard error there is nothing to make a second one of, and nothing is known.
    if lowest < 0 { return errno != EMFILE }
    close(lowest)
    return Int(lowest) + Limits.spareFiles < Int(clamping: limit.rlim_cur)
  }
}
