internal import CProtobufC

/// The check that protobuf-c leaves out: it reads a `bool` from whatever the wire holds under its number, be it a string.
enum BooleanFields {
  /// Whether every `bool` in a message is a varint, or in a list also a packed one.
  ///
  /// - Parameter bytes: a message of this type that protobuf-c has accepted.
  static func areWellFormed(
    in bytes: UnsafeRawBufferPointer,
    _ descriptor: UnsafePointer<ProtobufCMessageDescriptor>
  ) -> Bool {
    // Descriptors are constants of generated code, and their types do not contain themselves: the generator refuses it.
    guard unsafe mayHoldOne(descriptor) else { return true }
    let message = unsafe Span<UInt8>(_unsafeBytes: bytes)
    var index = 0
    while index < message.count {
      guard let tag = BorrowedFields.varint(message, &index) else { return false }
      var content = index..<index
      switch tag & 7 {
      case 0: guard BorrowedFields.varint(message, &index) != nil else { return false }
      case 1: index += 8
      case 2:
        guard let range = BorrowedFields.range(message, &index) else { return false }
        content = range
      case 5: index += 4
      default: return false
      }
      guard index <= message.count else { return false }
      guard let number = UInt32(exactly: tag >> 3),
        let field = unsafe protobuf_c_message_descriptor_get_field(descriptor, number)
      else { continue }
      switch unsafe field.pointee.type {
      case PROTOBUF_C_TYPE_BOOL:
        let isPacked = unsafe tag & 7 == 2 && field.pointee.label == PROTOBUF_C_LABEL_REPEATED
        guard tag & 7 == 0 || isPacked else { return false }
      case PROTOBUF_C_TYPE_MESSAGE:
        guard let inner = unsafe field.pointee.descriptor else { continue }
        // What a message field's descriptor points to; the range is within the bytes.
        let isSound = unsafe areWellFormed(
          in: UnsafeRawBufferPointer(rebasing: bytes[content]),
          inner.assumingMemoryBound(to: ProtobufCMessageDescriptor.self)
        )
        guard isSound else { return false }
      default: continue
      }
    }
    return true
  }

  private static func mayHoldOne(_ descriptor: UnsafePointer<ProtobufCMessageDescriptor>) -> Bool {
    // The descriptor says how many fields it has.
    for index in 0..<Int(unsafe descriptor.pointee.n_fields) {
      guard let field = unsafe descriptor.pointee.fields?[index] else { continue }
      if unsafe field.type == PROTOBUF_C_TYPE_BOOL { return true }
      if unsafe field.type == PROTOBUF_C_TYPE_MESSAGE, let inner = unsafe field.descriptor,
        unsafe mayHoldOne(inner.assumingMemoryBound(to: ProtobufCMessageDescriptor.self))
      {
        return true
      }
    }
    return false
  }
}
