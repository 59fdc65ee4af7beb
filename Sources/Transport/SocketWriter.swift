package import NIOCore

#if canImport(Glibc)
  internal import Glibc
#else
  internal import Darwin
#endif

/// Writes to a channel's socket at once, past the channel's queue: most answers are small, the socket has room for them,
/// and the way through the queue takes as long as all else that a short request needs.
///
/// All that a connection sends is offered here first: only so does it know when something is in the queue.
package struct SocketWriter {
  private let channel: any Channel
  private let descriptor: CInt
  /// Bytes that went through the queue may still be there: those that come after must not overtake them.
  private var mayHaveQueue = false

  /// Nil for a channel that has no socket, as in a test.
  package init?(_ context: ChannelHandlerContext) {
    let operations = context.pipeline.syncOperations
    let found = try? operations.withUnsafeTransportIfAvailable(of: NIOBSDSocket.Handle.self) { $0 }
    guard let descriptor = found ?? nil else { return nil }
    channel = context.channel
    self.descriptor = descriptor
  }

  /// Takes from the front of `bytes` what the socket has room for. True when that was all; otherwise the rest is for the
  /// channel, which also finds out what is wrong with a socket that takes nothing.
  package mutating func write(_ bytes: inout ByteBuffer) -> Bool {
    // The number of a closed channel's socket may be another's by now. The channel is no longer active before anybody
    // else runs on its event loop, which is the one that calls this.
    guard channel.isActive, isQueueEmpty else {
      mayHaveQueue = true
      return false
    }
    // The system reads the bytes before it returns.
    let sent = unsafe bytes.withUnsafeReadableBytes { unsafe send(descriptor, $0.baseAddress, $0.count, Self.flags) }
    if sent > 0 { bytes.moveReaderIndex(forwardBy: sent) }
    mayHaveQueue = bytes.readableBytes > 0
    return !mayHaveQueue
  }

  private static let flags = CInt(MSG_DONTWAIT) | CInt(MSG_NOSIGNAL)

  private var isQueueEmpty: Bool {
    guard mayHaveQueue else { return true }
    let queued = try? channel.syncOptions?.getOption(.bufferedWritableBytes)
    return queued == 0
  }
}
