package import GRPC
package import NIOCore
package import Protobuf

/// `RPCMessage.init(decoding:)` of a generated message, whose functions these are.
package func decoded<Struct, Message>(
  _ bytes: UnsafeRawBufferPointer,
  _ unpack: Codec.Unpack<Struct>,
  _ read: (UnsafePointer<Struct>) throws(ProtobufError) -> Message
) throws(RPCError) -> Message {
  do throws(ProtobufError) {
    // The caller's buffer is valid during the call, and `read` copies what it keeps.
    return unsafe try Codec.decode(bytes, unpack, read)
  } catch {
    throw RPCError(error)
  }
}

/// `RPCMessage.encode(into:)` of a generated message, whose functions these are.
package func encoded<Struct>(
  _ buffer: inout ByteBuffer,
  _ fill: (Arena) throws(ProtobufError) -> UnsafeMutablePointer<Struct>,
  _ size: (UnsafePointer<Struct>?) -> Int,
  _ pack: (UnsafePointer<Struct>?, UnsafeMutablePointer<UInt8>?) -> Int
) throws(RPCError) {
  do throws(ProtobufError) {
    // `size` and `pack` are protoc-c's for the struct that `fill` builds.
    unsafe try Codec.encode(into: &buffer, fill, size, pack)
  } catch {
    throw RPCError(error)
  }
}
