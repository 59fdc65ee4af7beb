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

  /// Appends the length-prefixed message, uncompressed.
  ///
  /// Source: gRPC over HTTP/2, "Length-Prefixed-Message".
  package func encodeFrame(into buffer: inout ByteBuffer) throws(RPCError) {
    let start = buffer.writerIndex
    buffer.writeInteger(UInt8(0))
    buffer.writeInteger(UInt32(0))
    try encode(into: &buffer)
    let length = buffer.writerIndex - start - 5
    guard let length = UInt32(exactly: length) else {
      throw RPCError(.resourceExhausted, "the message is larger than a frame can say")
    }
    buffer.setInteger(length, at: start + 1)
  }
}
