internal import NIOCore

/// What the session keeps for streams to come.
extension HTTP2ServerSession {
  /// Whether that is more than a client with a few calls at a time has use for.
  package var hasSpares: Bool { spareStreams > Limits.keptWhenQuiet }

  /// Whether the header blocks that it remembers stand for more than the usual calls.
  package var remembersMuch: Bool { blocks.listBytes > Limits.listBytesKeptWhenQuiet }

  /// Frees those. The next of each kind is decoded again.
  package func forgetBlocks() { blocks = RequestBlockCache() }

  /// Frees it, and the memory that a burst has left behind.
  package func freeSpares() {
    freeStreams()
    blocks = RequestBlockCache()
    encoder.forgetTable()
    if table.count == 0 { table.removeAll() }
    if ready.isEmpty { ready = [] }
    if blocked.isEmpty { blocked = [] }
    if output.readableBytes == 0 { output = ByteBuffer() }
  }
}
