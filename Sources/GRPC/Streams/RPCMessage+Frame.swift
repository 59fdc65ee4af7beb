internal import Compression
package import NIOCore

extension RPCMessage {
  /// Parses the readable bytes of a buffer.
  package init(decoding buffer: ByteBuffer) throws(RPCError) {
    var failure: RPCError?
    // The pointer is only read within the closure, which is what `init(decoding:)` promises as well.
    let message: Self? = unsafe buffer.withUnsafeReadableBytes { bytes in
      do throws(RPCError) {
        return unsafe try Self(decoding: bytes)
      } catch {
        failure = error
        return nil
      }
    }
    guard let message else { throw failure ?? RPCError(.internal, "decoding failed") }
    self = message
  }

  /// Appends the length-prefixed message, compressed if `coding` says so and it pays.
  ///
  /// Source: gRPC over HTTP/2, "Length-Prefixed-Message".
  package func encodeFrame(into buffer: inout ByteBuffer, coding: MessageCoding = .identity) throws(RPCError) {
    let start = buffer.writerIndex
    buffer.writeInteger(UInt8(0))
    buffer.writeInteger(UInt32(0))
    try encode(into: &buffer)
    let length = buffer.writerIndex - start - 5
    guard let length = UInt32(exactly: length) else {
      throw RPCError(.resourceExhausted, "the message is larger than a frame can say")
    }
    buffer.setInteger(length, at: start + 1)
    if coding == .gzip, length >= Limits.compressedMessage { Self.compress(&buffer, from: start) }
  }

  /// Replaces the frame at `start`, which ends the buffer, by its compressed form, unless that is no smaller. A message
  /// that cannot be compressed goes as it is: the flag before it says so.
  private static func compress(_ buffer: inout ByteBuffer, from start: Int) {
    let end = buffer.writerIndex
    var compressed = ByteBuffer()
    compressed.reserveCapacity((end - start) / 4)
    // The bytes lie before the writer index, and both pointers are read within their closures only.
    let isDone = unsafe buffer.withVeryUnsafeBytes { bytes -> Bool in
      do throws(CompressionError) {
        unsafe try Gzip.compress(UnsafeRawBufferPointer(rebasing: bytes[start + 5..<end])) {
          unsafe compressed.writeBytes($0)
        }
        return true
      } catch {
        return false
      }
    }
    guard isDone, compressed.readableBytes < end - start - 5 else { return }
    let length = UInt32(truncatingIfNeeded: compressed.readableBytes)
    buffer.moveWriterIndex(to: start)
    buffer.writeInteger(UInt8(1))
    buffer.writeInteger(length)
    buffer.writeBuffer(&compressed)
  }
}
