internal import CNghttp2
internal import NIOCore

/// The HPACK encoder of a connection. Source: RFC 7541.
///
/// Blocks that every answer shares are encoded once and then copied, for as long as the dynamic table stays as it is.
@safe struct HeaderEncoder: ~Copyable {
  /// A block that consists of references into the tables, one byte each: encoding it again changes nothing.
  private struct Remembered {
    var bytes: UInt64 = 0
    var count = 0
    /// The table's revision that the references are for.
    var revision = UInt64.max
  }

  /// The largest table that the peer may make us keep. The protocol's default.
  private static let tableBytes = 4096

  /// Owned: freed in `deinit` and by `forgetTable`, never handed out. Nil until there is something to encode.
  private var raw: OpaquePointer?
  /// How large the peer last said that the table may be.
  private var limit: UInt32?
  /// The peer has a table of ours that was given up here: the next block begins with emptying it (RFC 7541 section 4.2).
  private var wasForgotten = false
  /// Counts what may have changed the dynamic table.
  private var revision: UInt64 = 0
  private var head = Remembered()
  private var trailers = Remembered()
  /// The same for a block of any bytes: every peer that is refused once is refused again and again.
  private var refusal: (bytes: [UInt8], revision: UInt64) = ([], .max)

  deinit {
    if let raw = unsafe raw { unsafe nghttp2_hd_deflate_del(raw) }
  }

  /// The library's encoder, made if there is none. Nil without memory.
  private mutating func encoder() -> OpaquePointer? {
    if let raw = unsafe raw { return unsafe raw }
    var new: OpaquePointer?
    guard unsafe nghttp2_hd_deflate_new(&new, HeaderEncoder.tableBytes) == 0, let new = unsafe new else { return nil }
    // What it is told here it tells the peer with the next block.
    var sizes: [Int] = wasForgotten ? [0] : []
    if let limit { sizes.append(Int(limit)) } else if wasForgotten { sizes.append(HeaderEncoder.tableBytes) }
    for size in sizes {
      guard unsafe nghttp2_hd_deflate_change_table_size(new, size) == 0 else {
        unsafe nghttp2_hd_deflate_del(new)
        return nil
      }
    }
    unsafe raw = new
    return unsafe new
  }

  /// The peer said how large our table may be. False without memory.
  mutating func limitTable(_ bytes: UInt32) -> Bool {
    revision += 1
    limit = bytes
    guard let raw = unsafe encoder() else { return false }
    return unsafe nghttp2_hd_deflate_change_table_size(raw, Int(bytes)) == 0
  }

  /// Gives up the dynamic table and all that was made with it, some 4 KiB, until there is something to encode again.
  mutating func forgetTable() {
    guard let raw = unsafe raw else { return }
    unsafe nghttp2_hd_deflate_del(raw)
    unsafe self.raw = nil
    wasForgotten = true
    revision += 1
    refusal = ([], .max)
  }

  enum CommonBlock {
    case head
    case trailers
    case refusal
  }

  /// The bytes of a block that every answer shares, if they are known: the first in the lowest byte.
  func remembered(_ block: CommonBlock) -> (bytes: UInt64, count: Int)? {
    let remembered: Remembered
    switch block {
    case .head: remembered = head
    case .trailers: remembered = trailers
    case .refusal: return nil
    }
    guard remembered.revision == revision else { return nil }
    return (remembered.bytes, remembered.count)
  }

  /// Appends the block of refusals after `gap` bytes, if it is known. False when nothing was done.
  func appendRefusal(after gap: Int, to buffer: inout ByteBuffer) -> Bool {
    guard refusal.revision == revision else { return false }
    buffer.writeRepeatingByte(0, count: gap)
    buffer.writeBytes(refusal.bytes)
    return true
  }

  /// Appends the block of `fields`. False without memory.
  mutating func encode(_ fields: HTTP2FieldList, as common: CommonBlock? = nil, into buffer: inout ByteBuffer) -> Bool {
    guard let raw = unsafe encoder() else { return false }
    let start = buffer.writerIndex
    let count = unsafe fields.withFields { list, count in
      let bound = unsafe nghttp2_hd_deflate_bound(raw, list, count)
      var written = 0
      unsafe buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: bound) { target in
        // The target has room for the library's own bound.
        written = unsafe nghttp2_hd_deflate_hd(
          raw, target.baseAddress?.assumingMemoryBound(to: UInt8.self), target.count, list, count)
        return max(0, written)
      }
      return Int32(truncatingIfNeeded: written)
    }
    guard count >= 0 else { return false }
    let leavesTableAlone = unsafe buffer.withUnsafeReadableBytes { bytes in
      // The block is the end of what is readable.
      unsafe HeaderDecoder.leavesTableAlone(UnsafeRawBufferPointer(rebasing: bytes.suffix(Int(count))))
    }
    if !leavesTableAlone { revision += 1 }
    if common == .refusal {
      if leavesTableAlone { refusal = (buffer.getBytes(at: start, length: Int(count)) ?? [], revision) }
      return true
    }
    var remembered = Remembered()
    remembered.count = Int(count)
    for place in 0..<Int(count) {
      // RFC 7541 §6.1, with an index that fits the first byte.
      guard place < 8, let byte: UInt8 = buffer.getInteger(at: start + place), byte & 0x80 != 0, byte != 0xff else {
        return true
      }
      remembered.bytes |= UInt64(byte) << (8 * UInt64(place))
    }
    remembered.revision = revision
    switch common {
    case .head: head = remembered
    case .trailers: trailers = remembered
    case .refusal, nil: break
    }
    return true
  }
}
