package import NIOCore

/// What a call carries. Generated message types conform; this module knows no codec.
package protocol RPCMessage: Sendable {
  /// Parses one whole message.
  ///
  /// Errors: `INVALID_ARGUMENT` with the field's path for what is not a message or not UTF-8 where it must be,
  /// `RESOURCE_EXHAUSTED` for one that needs more memory than a message may.
  init(decoding bytes: UnsafeRawBufferPointer) throws(RPCError)

  /// Appends the wire form.
  func encode(into buffer: inout ByteBuffer) throws(RPCError)
}
