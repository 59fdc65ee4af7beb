/// Reading a message's fields in place: what generated code calls. Source: protobuf's "Encoding".
package enum BorrowedFields {
  /// The varint at `index`, which moves past it. Nil when there is none, or one longer than ten bytes.
  @inlinable
  package static func varint(_ message: Span<UInt8>, _ index: inout Int) -> UInt64? {
    var value: UInt64 = 0
    var shift: UInt64 = 0
    while index < message.count, shift < 70 {
      let byte = message[index]
      index += 1
      value |= UInt64(byte & 0x7f) << shift
      if byte & 0x80 == 0 { return value }
      shift += 7
    }
    return nil
  }

  /// Where the length-delimited field at `index` is, which moves past it. Nil for one that is longer than the message.
  @inlinable
  package static func range(_ message: Span<UInt8>, _ index: inout Int) -> Range<Int>? {
    guard let count = varint(message, &index), count <= UInt64(message.count - index) else { return nil }
    let start = index
    index += Int(count)
    return start..<index
  }
}
