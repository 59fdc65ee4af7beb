/// What the peer may send, and when it may send more.
extension HTTP2ServerSession {
  /// Counts DATA against the connection's window. False when the peer had no right to it.
  func takeFromConnection(_ bytes: Int) -> Bool {
    outstanding += bytes
    return outstanding <= connectionWindow
  }

  /// Grants the peer bytes on the connection again, in steps worth a frame.
  func grantConnection(_ bytes: Int) {
    consumed += bytes
    guard consumed >= min(connectionWindow / 2, Limits.connectionGrant) else { return }
    outstanding -= consumed
    writeWindowUpdate(0, consumed)
    consumed = 0
  }

  /// Grants the peer `bytes` again: the reader of the stream has taken them.
  package func consume(_ stream: HTTP2Stream, _ bytes: Int) {
    guard stream.id != 0, bytes > 0, failure == nil else { return }
    let taken = min(bytes, stream.unconsumed)
    stream.unconsumed -= taken
    grantConnection(taken)
    grantStream(stream, taken)
  }

  /// Grants the peer bytes on the stream again, in steps worth a frame.
  func grantStream(_ stream: HTTP2Stream, _ bytes: Int) {
    stream.consumed += bytes
    // A peer that has ended its side needs no more.
    guard stream.consumed >= Int(limits.streamWindow) / 2, !stream.isRemoteEnded else { return }
    stream.outstanding -= stream.consumed
    writeWindowUpdate(stream.id, stream.consumed)
    stream.consumed = 0
  }
}
