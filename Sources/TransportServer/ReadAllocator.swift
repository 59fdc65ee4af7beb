internal import NIOCore

/// Sizes the buffers that a connection reads into. A small one is the connection's, which uses it again; larger ones are
/// made for one read each, so that a connection keeps nothing of a burst that is over.
struct ReadAllocator: RecvByteBufferAllocator {
  private var adaptive = AdaptiveRecvByteBufferAllocator(
    minimum: 1024,
    initial: Limits.keptReadBytes,
    maximum: Limits.readBytes
  )

  func buffer(allocator: ByteBufferAllocator) -> ByteBuffer {
    adaptive.buffer(allocator: allocator)
  }

  /// Whether the next buffer must be another one than the channel keeps.
  mutating func record(actualReadBytes: Int) -> Bool {
    let grows = adaptive.record(actualReadBytes: actualReadBytes)
    return grows || nextBufferSize() == nil
  }

  /// Nil for a size that the channel must not keep.
  func nextBufferSize() -> Int? {
    adaptive.nextBufferSize().flatMap { $0 <= Limits.keptReadBytes ? Limits.keptReadBytes : nil }
  }
}
