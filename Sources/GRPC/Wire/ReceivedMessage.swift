internal import Compression
package import NIOCore

/// A message as it came, without its prefix.
///
/// It stays compressed until somebody reads it: what waits is bounded by the windows, and what it stands for may be a
/// thousand times as much.
package struct ReceivedMessage: Sendable {
  package var bytes: ByteBuffer
  package var isCompressed: Bool

  package init(bytes: ByteBuffer, isCompressed: Bool = false) {
    self.bytes = bytes
    self.isCompressed = isCompressed
  }

  /// The message itself.
  ///
  /// Errors: `RESOURCE_EXHAUSTED` for one that stands for more than `limit`, before it takes that much memory;
  /// `INTERNAL` for what is not gzip.
  package func expanded(limit: Int) throws(RPCError) -> ByteBuffer {
    guard isCompressed else { return bytes }
    var expanded = ByteBuffer()
    do throws(CompressionError) {
      var failure: CompressionError?
      // Both pointers are read within their closures only.
      unsafe bytes.withUnsafeReadableBytes { source in
        do throws(CompressionError) {
          unsafe try Gzip.decompress(source, limit: limit) { unsafe expanded.writeBytes($0) }
        } catch {
          failure = error
        }
      }
      if let failure { throw failure }
    } catch {
      switch error {
      case .overLimit: throw RPCError(.resourceExhausted, "a compressed message of more than \(limit) bytes")
      case .corrupt, .truncated: throw RPCError(.internal, "the compressed message is not gzip")
      case .outOfMemory: throw RPCError(.resourceExhausted, "no memory to expand the message")
      case .library: throw RPCError(.internal, "the message could not be expanded")
      }
    }
    return expanded
  }
}
