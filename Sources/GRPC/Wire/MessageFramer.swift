internal import NIOCore

/// Cuts a stream's bytes into length-prefixed messages.
///
///     ┌────────────┬──────────────┬─────────┐
///     │ compressed │ length       │ message │ …
///     │ 1 byte     │ 4 bytes, big │         │
///     └────────────┴──────────────┴─────────┘
///
/// A message longer than the limit is refused at its prefix, and memory grows with the bytes that came, never with
/// the length that was claimed. Source: gRPC over HTTP/2, "Length-Prefixed-Message".
package struct MessageFramer: Sendable {
  /// The largest message that is taken, as it travels.
  package var limit: Int
  /// What a message whose compressed flag is set is coded in.
  package var coding = MessageCoding.identity

  /// The message that is being received.
  private var message = ReceivedMessage(bytes: ByteBuffer())
  private var prefix: UInt64 = 0
  private var prefixCount = 0
  private var length = 0

  package init(limit: Int = Limits.messageBytes) {
    self.limit = limit
  }

  /// Whether the bytes so far end with a whole message.
  package var isBetweenMessages: Bool { prefixCount == 0 }

  /// What has come of a message that is not whole, without its prefix.
  package var partialBytes: Int { message.bytes.readableBytes }

  /// The length of the message that is being received, 0 before its prefix is complete.
  package var currentLength: Int { prefixCount == 5 ? length : 0 }

  /// Forgets what it holds, keeps the memory of a usual message.
  package mutating func reset(limit: Int) {
    self.limit = limit
    coding = .identity
    message.bytes.forget()
    prefix = 0
    prefixCount = 0
    length = 0
  }

  /// Takes bytes and hands on each message that they complete. `deliver` may take the buffer, or swap another one in.
  ///
  /// Errors: `RESOURCE_EXHAUSTED` beyond the limit, `INTERNAL` for a compressed message where no coding was agreed.
  package mutating func receive(
    _ bytes: UnsafeRawBufferPointer,
    deliver: (inout ReceivedMessage) throws(RPCError) -> Void
  ) throws(RPCError) {
    var index = 0
    while index < bytes.count {
      if prefixCount < 5 {
        // The index is below the count.
        prefix = prefix << 8 | UInt64(unsafe bytes[index])
        prefixCount += 1
        index += 1
        guard prefixCount == 5 else { continue }
        length = try lengthSaid(by: prefix)
      }
      let count = min(length - message.bytes.readableBytes, bytes.count - index)
      if count > 0 {
        // In bounds: `count` is at most what is left.
        unsafe message.bytes.writeBytes(UnsafeRawBufferPointer(rebasing: bytes[index..<index + count]))
        index += count
      }
      if message.bytes.readableBytes == length {
        message.isCompressed = prefix >> 32 == 1
        prefix = 0
        prefixCount = 0
        try deliver(&message)
        message.bytes.clear()
      }
    }
  }

  /// Takes bytes, and hands on each run of messages that stands whole in them as it is, with how many they are; a message
  /// that comes in parts as `receive` does. The pointer is good within `deliverRun` only.
  ///
  /// For thousands of tiny messages in one frame, of which taking apart each takes longer than a turn.
  ///
  /// Errors: as of `receive`.
  package mutating func receive(
    _ bytes: UnsafeRawBufferPointer,
    deliverRun: (UnsafeRawBufferPointer, _ count: Int) throws(RPCError) -> Void,
    deliver: (inout ReceivedMessage) throws(RPCError) -> Void
  ) throws(RPCError) {
    var start = 0
    if prefixCount > 0 {
      start = min(unsafe missing(in: bytes), bytes.count)
      // In bounds by the line above.
      unsafe try receive(UnsafeRawBufferPointer(rebasing: bytes[..<start]), deliver: deliver)
      guard prefixCount == 0 else { return }
    }
    var end = start
    var count = 0
    while bytes.count - end >= 5 {
      // In bounds by the loop's condition.
      let length = try lengthSaid(by: unsafe bytes[end..<end + 5].reduce(0) { $0 << 8 | UInt64($1) })
      guard bytes.count - end - 5 >= length else { break }
      end += 5 + length
      count += 1
    }
    // Both in bounds: the loop ends a run at the last message that is whole.
    if count > 0 { unsafe try deliverRun(UnsafeRawBufferPointer(rebasing: bytes[start..<end]), count) }
    unsafe try receive(UnsafeRawBufferPointer(rebasing: bytes[end...]), deliver: deliver)
  }

  /// How many bytes the message that has begun is short of, as far as `bytes`, which come next, tell.
  private func missing(in bytes: UnsafeRawBufferPointer) -> Int {
    let ofPrefix = 5 - prefixCount
    guard ofPrefix > 0 else { return length - message.bytes.readableBytes }
    guard bytes.count >= ofPrefix else { return bytes.count }
    // In bounds by the guard.
    let whole = unsafe bytes[..<ofPrefix].reduce(prefix) { $0 << 8 | UInt64($1) }
    return ofPrefix + Int(whole & 0xffff_ffff)
  }

  /// The length of the message that stands behind a prefix.
  private func lengthSaid(by prefix: UInt64) throws(RPCError) -> Int {
    let length = Int(prefix & 0xffff_ffff)
    switch prefix >> 32 {
    case 0: break
    case 1 where coding == .gzip: break
    case 1: throw RPCError(.internal, "a compressed message, but no compression was agreed")
    default: throw RPCError(.internal, "the compressed flag is neither 0 nor 1")
    }
    guard length <= limit else {
      throw RPCError(.resourceExhausted, "a message of \(length) bytes, the limit is \(limit)")
    }
    return length
  }
}
