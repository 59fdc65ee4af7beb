/// Finds the frame headers in the bytes that a server receives, for the frames that libnghttp2 drops without a word:
/// DATA on a stream that it has forgotten, and frames of unknown types.
struct FrameScanner {
  /// RFC 9113 §4.1.
  struct Header {
    var type: UInt8
    var streamID: Int32
    /// Where the next byte after the header is.
    var end: Int
  }

  private static let headerCount = 9

  /// Bytes to pass over before the next header: the client preface at first, then each payload.
  private var skipped = 24
  /// The first bytes of a header that continues in the next read.
  private var partial: [UInt8] = []

  /// The first header in `bytes` that ends after `index`, which moves past it; nil when there is none.
  mutating func next(in bytes: UnsafeRawBufferPointer, from index: inout Int) -> Header? {
    let passed = min(skipped, bytes.count - index)
    skipped -= passed
    index += passed
    guard index < bytes.count else { return nil }
    let wanted = Self.headerCount - partial.count
    let count = min(wanted, bytes.count - index)
    // In bounds by the line above; the bytes are read before this returns.
    if count == Self.headerCount {
      defer { index += count }
      return unsafe begin(UnsafeRawBufferPointer(rebasing: bytes[index..<index + count]), end: index + count)
    }
    unsafe partial.append(contentsOf: bytes[index..<index + count])
    index += count
    guard count == wanted else { return nil }
    defer { partial.removeAll(keepingCapacity: true) }
    return unsafe partial.withUnsafeBytes { unsafe begin($0, end: index) }
  }

  /// - Parameter header: nine bytes.
  private mutating func begin(_ header: UnsafeRawBufferPointer, end: Int) -> Header {
    // In bounds: the caller gives nine bytes.
    skipped = unsafe Int(header[0]) << 16 | Int(header[1]) << 8 | Int(header[2])
    let id = unsafe UInt32(header[5]) << 24 | UInt32(header[6]) << 16 | UInt32(header[7]) << 8 | UInt32(header[8])
    return unsafe Header(type: header[3], streamID: Int32(bitPattern: id & 0x7fff_ffff), end: end)
  }
}
