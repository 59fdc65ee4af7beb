internal import CNghttp2

/// The HPACK decoder of a connection. Source: RFC 7541.
@safe struct HeaderDecoder: ~Copyable {
  /// What the peer's table may have: the protocol's default, which we leave (RFC 7540 §6.5.2).
  static let tableBytes = 4096

  /// Owned: freed in `deinit`, never handed out.
  private let raw: OpaquePointer

  init() throws(HTTP2Error) {
    var raw: OpaquePointer?
    let code = unsafe nghttp2_hd_inflate_new(&raw)
    guard code == 0, let raw = unsafe raw else { throw .refused(operation: "decoder", code: code) }
    unsafe self.raw = raw
  }

  deinit {
    unsafe nghttp2_hd_inflate_del(raw)
  }

  /// Decodes a piece of a block and calls `field` with each field, whose bytes are valid during the call. False when
  /// the block is none: the connection cannot go on.
  mutating func decode(
    _ bytes: UnsafeRawBufferPointer,
    isLast: Bool,
    _ field: (_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) -> Void
  ) -> Bool {
    // Never read: it stands for an empty piece, whose pointer may be nil.
    var nothing: UInt8 = 0
    return unsafe withUnsafePointer(to: &nothing) { nothing in
      let start = unsafe bytes.baseAddress?.assumingMemoryBound(to: UInt8.self) ?? nothing
      var index = 0
      while true {
        var flags: Int32 = 0
        var pair = unsafe nghttp2_nv()
        // The library reads at most the bytes that are left, and the pair points into its own memory until the next
        // call.
        let read = unsafe nghttp2_hd_inflate_hd2(
          raw, &pair, &flags, start + index, bytes.count - index, isLast ? 1 : 0)
        guard read >= 0 else { return false }
        index += read
        if flags & Int32(NGHTTP2_HD_INFLATE_EMIT.rawValue) != 0 {
          unsafe field(
            UnsafeRawBufferPointer(start: pair.name, count: pair.namelen),
            UnsafeRawBufferPointer(start: pair.value, count: pair.valuelen)
          )
        } else if flags & Int32(NGHTTP2_HD_INFLATE_FINAL.rawValue) != 0 {
          unsafe nghttp2_hd_inflate_end_headers(raw)
          return true
        } else if index == bytes.count {
          return !isLast
        }
      }
    }
  }

  /// Whether a block that `decode` accepted left the dynamic table as it was: the same bytes then mean the same fields
  /// until another block changes it.
  static func leavesTableAlone(_ block: UnsafeRawBufferPointer) -> Bool {
    var index = 0
    while index < block.count {
      // In bounds by the loop's condition.
      let byte = unsafe block[index]
      // RFC 7541 §6.1: an indexed field.
      if byte & 0x80 != 0 {
        guard unsafe integer(block, &index, prefix: 0x7f) != nil else { return false }
        continue
      }
      // §6.2.1: a field that is added to the table; §6.3: the table's size.
      guard byte & 0x60 == 0 else { return false }
      // §6.2.2, §6.2.3: a literal that is not added.
      guard let name = unsafe integer(block, &index, prefix: 0x0f) else { return false }
      for _ in 0..<(name == 0 ? 2 : 1) {
        guard index < block.count, let count = unsafe integer(block, &index, prefix: 0x7f) else { return false }
        index += count
      }
    }
    return index == block.count
  }

  /// RFC 7541 §5.1. Nil for what is too long to be one.
  private static func integer(_ block: UnsafeRawBufferPointer, _ index: inout Int, prefix: UInt8) -> Int? {
    // The caller's index is in bounds.
    var value = unsafe Int(block[index] & prefix)
    index += 1
    guard value == Int(prefix) else { return value }
    var shift = 0
    while index < block.count, shift <= 28 {
      // In bounds by the loop's condition.
      let byte = unsafe block[index]
      index += 1
      value += Int(byte & 0x7f) << shift
      if byte & 0x80 == 0 { return value }
      shift += 7
    }
    return nil
  }
}
