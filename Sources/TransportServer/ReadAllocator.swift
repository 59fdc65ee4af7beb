internal import NIOCore

/// Sizes the buffers that a connection reads into.
///
/// Over cleartext these are the event loop's (``ReadBuffers``), but for the first one, which is small and which the channel keeps.
/// TLS keeps a small one as well; its larger ones are made for one read each, so that a connection keeps nothing of a burst that
/// is over.
struct ReadAllocator: RecvByteBufferAllocator {
  private let shared: ReadBuffers?
  private var hasRead = false
  private var adaptive = AdaptiveRecvByteBufferAllocator(
    minimum: 1024,
    initial: Limits.keptReadBytes,
    maximum: Limits.readBytes
  )

  /// - Parameter shared: nil where nobody gives the buffers back.
  init(_ shared: ReadBuffers? = nil) {
    self.shared = shared
  }

  func buffer(allocator: ByteBufferAllocator) -> ByteBuffer {
    guard let shared else { return adaptive.buffer(allocator: allocator) }
    return hasRead ? shared.take(allocator) : allocator.buffer(capacity: Limits.keptReadBytes)
  }

  /// Whether the next buffer must be another one than the channel keeps.
  mutating func record(actualReadBytes: Int) -> Bool {
    hasRead = true
    guard shared == nil else { return true }
    let grows = adaptive.record(actualReadBytes: actualReadBytes)
    return grows || nextBufferSize() == nil
  }

  /// Nil for a size that the channel must not keep.
  func nextBufferSize() -> Int? {
    guard shared == nil else { return nil }
    return adaptive.nextBufferSize().flatMap { $0 <= Limits.keptReadBytes ? Limits.keptReadBytes : nil }
  }
}
