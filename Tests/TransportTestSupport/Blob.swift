package import GRPC
package import NIOCore

/// A message that is its own bytes.
package struct Blob: RPCMessage, Equatable {
  package var bytes: [UInt8]

  package init(_ bytes: [UInt8]) { self.bytes = bytes }

  package init(decoding bytes: UnsafeRawBufferPointer) throws(RPCError) { self.bytes = unsafe Array(bytes) }

  package func encode(into buffer: inout ByteBuffer) throws(RPCError) { buffer.writeBytes(bytes) }

  /// The message behind its prefix.
  package var frame: [UInt8] {
    let count = UInt32(bytes.count)
    return [0] + [24, 16, 8, 0].map { UInt8(count >> $0 & 0xff) } + bytes
  }
}
