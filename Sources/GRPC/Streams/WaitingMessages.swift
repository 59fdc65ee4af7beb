internal import NIOCore

/// Messages that wait for their reader, one behind the other in one piece of memory: a window full of tiny ones takes
/// little more than the window.
struct WaitingMessages {
  private var bytes = ByteBuffer()
  private(set) var count = 0

  mutating func append(_ message: ReceivedMessage) {
    makeRoom()
    bytes.writeInteger(UInt8(message.isCompressed ? 1 : 0))
    // Bounded by the limit on messages.
    bytes.writeInteger(UInt32(truncatingIfNeeded: message.bytes.readableBytes))
    bytes.writeImmutableBuffer(message.bytes)
    count += 1
  }

  /// Adds `count` messages, each with its prefix as it travels, which is the form they have here.
  mutating func append(_ run: UnsafeRawBufferPointer, count: Int) {
    makeRoom()
    // Copied before the call returns.
    unsafe bytes.writeBytes(run)
    self.count += count
  }

  private mutating func makeRoom() {
    if bytes.readerIndex >= bytes.readableBytes { bytes.discardReadBytes() }
  }

  mutating func popFirst() -> ReceivedMessage? {
    guard let flag = bytes.readInteger(as: UInt8.self), let length = bytes.readInteger(as: UInt32.self),
      let message = bytes.readSlice(length: Int(length))
    else { return nil }
    count -= 1
    if count == 0 { bytes = ByteBuffer() }
    // A copy: the reader may keep it for longer than the others wait.
    return ReceivedMessage(bytes: ByteBuffer(bytes: message.readableBytesView), isCompressed: flag == 1)
  }

  mutating func removeAll() {
    bytes = ByteBuffer()
    count = 0
  }
}
