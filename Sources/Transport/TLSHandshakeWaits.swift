/// A handshake waits for those of others: the event that `TLSHandler` sends up its pipeline whenever what waits with it
/// has changed. The last one before the handshake goes on has none; none comes where the connection ends.
package struct TLSHandshakeWaits: Sendable, Equatable {
  /// Bytes of the peer's that are kept for the handshake.
  package var bytes: Int

  package init(bytes: Int) {
    self.bytes = bytes
  }
}
