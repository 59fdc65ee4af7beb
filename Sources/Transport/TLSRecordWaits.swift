/// A record has come in part: the event that `TLSHandler` sends up its pipeline whenever what is kept of it has changed, once
/// the handshake is finished. Small parts are none.
package struct TLSRecordWaits: Sendable, Equatable {
  /// Bytes of the peer's that are kept for the rest of the record.
  package var bytes: Int

  package init(bytes: Int) {
    self.bytes = bytes
  }
}
