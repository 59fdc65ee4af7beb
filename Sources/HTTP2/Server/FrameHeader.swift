/// The nine bytes ahead of every frame. Source: RFC 9113 §4.1.
struct FrameHeader {
  static let byteCount = 9

  var length: Int
  var type: UInt8
  var flags: UInt8
  var streamID: Int32

  init(length: Int, type: FrameType, flags: UInt8 = 0, streamID: Int32) {
    self.length = length
    self.type = type.rawValue
    self.flags = flags
    self.streamID = streamID
  }

  /// - Parameter bytes: at least nine.
  init(_ bytes: UnsafeRawBufferPointer) {
    precondition(bytes.count >= FrameHeader.byteCount, "the caller has a whole header")
    // In bounds by the line above.
    unsafe length = Int(bytes[0]) << 16 | Int(bytes[1]) << 8 | Int(bytes[2])
    unsafe type = bytes[3]
    unsafe flags = bytes[4]
    let id = unsafe UInt32(bytes[5]) << 24 | UInt32(bytes[6]) << 16 | UInt32(bytes[7]) << 8 | UInt32(bytes[8])
    // The first bit is reserved.
    streamID = Int32(bitPattern: id & 0x7fff_ffff)
  }

  func has(_ flag: UInt8) -> Bool { flags & flag != 0 }

  /// Whether the frame is the last of a request and nothing but its payload.
  var isWholeBody: Bool { type == FrameType.data.rawValue && has(FrameFlag.endStream) && !has(FrameFlag.padded) }

  /// - Parameter target: has room for nine bytes.
  func write(to target: UnsafeMutableRawPointer) {
    // The caller made room.
    let lengthAndType = UInt32(truncatingIfNeeded: length) << 8 | UInt32(type)
    unsafe target.storeBytes(of: lengthAndType.bigEndian, as: UInt32.self)
    unsafe target.storeBytes(of: flags, toByteOffset: 4, as: UInt8.self)
    unsafe target.storeBytes(of: streamID.bigEndian, toByteOffset: 5, as: Int32.self)
  }
}

/// Source: RFC 9113 §6.
enum FrameType: UInt8 {
  case data = 0
  case headers = 1
  case priority = 2
  case reset = 3
  case settings = 4
  case pushPromise = 5
  case ping = 6
  case goAway = 7
  case windowUpdate = 8
  case continuation = 9
}

enum FrameFlag {
  static let endStream: UInt8 = 0x1
  static let acknowledgement: UInt8 = 0x1
  static let endHeaders: UInt8 = 0x4
  static let padded: UInt8 = 0x8
  static let priority: UInt8 = 0x20
}
