package import NIOCore

/// What the session holds that is not over yet.
extension HTTP2ServerSession {
  /// Bytes that the session holds because somebody does not take them, the peer of its answers or a reader of
  /// requests, or because the peer has not ended a frame.
  package var bufferedBytes: Int {
    queued + outstanding - consumed + output.readableBytes + partialBytes + undecidedBytes
  }

  /// Those of a frame that has begun and not ended, and the fields of a header block that has not.
  package var partialBytes: Int { isBlockOpen ? partial.count + (openBlock?.heldBytes ?? 0) : partial.count }

  /// The stream has no handler until its body comes.
  func beginWait(_ stream: HTTP2Stream, _ block: HTTP2RequestBlock) {
    stream.isUndecided = true
    undecided += 1
    undecidedBytes += block.listBytes
  }

  /// It has one now, or needs none. Its block is still there.
  func endWait(_ stream: HTTP2Stream) {
    stream.isUndecided = false
    undecided -= 1
    undecidedBytes -= stream.block?.listBytes ?? 0
  }

  /// The stream has waited for its body for long enough.
  func decideAtLast(_ stream: HTTP2Stream) {
    endWait(stream)
    decide(stream)
  }

  /// When the frame began to come that has not ended; nil between two frames.
  package var frameBegan: NIODeadline? { partial.isEmpty ? nil : partialBegan }

  /// Whether a frame has begun and not ended, or a header block.
  package var isHalfway: Bool { isBlockOpen || !partial.isEmpty }

  /// Whether a header block has begun and not ended, be it within its frame.
  package var isReceivingBlock: Bool {
    if isBlockOpen { return true }
    guard partial.count >= FrameHeader.byteCount else { return false }
    return partial[3] == FrameType.headers.rawValue
  }
}
