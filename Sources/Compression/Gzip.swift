internal import Synchronization

/// The gzip format (RFC 1952), for messages that are whole in memory.
///
/// The coders are kept between messages: setting one up costs more than coding a small message.
package enum Gzip {
  private struct Kept: Sendable {
    var compressors: [GzipCompressor] = []
    var decompressors: [GzipDecompressor] = []
  }

  /// Taking one out and putting it back is a few nanoseconds; an actor would make every message wait for a hop.
  private static let kept = Mutex(Kept())

  /// Hands the compressed form of `bytes` to `output`, piece by piece. The pieces are valid during the call.
  package static func compress(
    _ bytes: UnsafeRawBufferPointer,
    output: (UnsafeRawBufferPointer) -> Void
  ) throws(CompressionError) {
    let idle = kept.withLock { $0.compressors.popLast() }
    let coder = if let idle { idle } else { try GzipCompressor() }
    defer {
      kept.withLock { if $0.compressors.count < Limits.keptCoders { $0.compressors.append(coder) } }
    }
    // Passed on to a call that keeps no pointer.
    try unsafe coder.compress(bytes, output: output)
  }

  /// Hands what `bytes` stand for to `output`, piece by piece, and never more than `limit` bytes of it: a small input
  /// that stands for gigabytes costs no more than its limit. The pieces are valid during the call.
  package static func decompress(
    _ bytes: UnsafeRawBufferPointer,
    limit: Int,
    output: (UnsafeRawBufferPointer) -> Void
  ) throws(CompressionError) {
    let idle = kept.withLock { $0.decompressors.popLast() }
    let coder = if let idle { idle } else { try GzipDecompressor() }
    defer {
      kept.withLock { if $0.decompressors.count < Limits.keptCoders { $0.decompressors.append(coder) } }
    }
    // Passed on to a call that keeps no pointer.
    try unsafe coder.decompress(bytes, limit: limit, output: output)
  }
}
