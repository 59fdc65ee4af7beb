package import CProtobufC
package import NIOCore

/// One whole message between wire bytes and a Swift value: what generated code calls.
package enum Codec {
  package typealias Unpack<Struct> = (
    UnsafeMutablePointer<ProtobufCAllocator>?, Int, UnsafePointer<UInt8>?
  ) -> UnsafeMutablePointer<Struct>?

  /// Unpacks with protoc-c's `unpack` into this thread's arena, then reads the struct.
  @inlinable
  package static func decode<Struct, Message>(
    _ bytes: UnsafeRawBufferPointer,
    _ unpack: Unpack<Struct>,
    _ read: (UnsafePointer<Struct>) throws(ProtobufError) -> Message
  ) throws(ProtobufError) -> Message {
    let cap = Limits.decodeCap(forWireBytes: bytes.count)
    return try Arena.withCurrent(cap: cap) { arena throws(ProtobufError) in
      let start = unsafe bytes.baseAddress?.assumingMemoryBound(to: UInt8.self)
      // protobuf-c reads `bytes.count` bytes at most, and the arena lives until the struct has been read.
      guard let message = unsafe unpack(arena.allocator, bytes.count, start) else {
        throw arena.isExhausted ? .needsMoreMemory : .malformed
      }
      guard unsafe hasSoundBooleans(bytes, message) else { throw .malformed }
      return unsafe try read(message)
    }
  }

  /// - Parameter message: what protobuf-c made of the bytes.
  @usableFromInline
  static func hasSoundBooleans(_ bytes: UnsafeRawBufferPointer, _ message: UnsafeMutableRawPointer) -> Bool {
    // Every struct of protoc-c begins with its `ProtobufCMessage`.
    guard let descriptor = unsafe message.assumingMemoryBound(to: ProtobufCMessage.self).pointee.descriptor else {
      return false
    }
    return unsafe BooleanFields.areWellFormed(in: bytes, descriptor)
  }

  /// Builds the struct in this thread's arena, then packs it straight into `buffer` with protoc-c's functions.
  @inlinable
  package static func encode<Struct>(
    into buffer: inout ByteBuffer,
    _ fill: (Arena) throws(ProtobufError) -> UnsafeMutablePointer<Struct>,
    _ size: (UnsafePointer<Struct>?) -> Int,
    _ pack: (UnsafePointer<Struct>?, UnsafeMutablePointer<UInt8>?) -> Int
  ) throws(ProtobufError) {
    try Arena.withCurrent(cap: Limits.encodeCeiling) { arena throws(ProtobufError) in
      let message = unsafe try fill(arena)
      let count = unsafe size(message)
      if count == 0 { return }
      unsafe buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: count) { target in
        // The target has room for the size that protobuf-c itself worked out for this struct.
        unsafe pack(message, target.baseAddress?.assumingMemoryBound(to: UInt8.self))
      }
    }
  }
}
