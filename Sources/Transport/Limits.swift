internal import HTTP2

/// The bounds of this module, each with the reason for its number.
enum Limits {
  /// Bytes of a handshake that may wait for its turn: as many as one read brings.
  static let waitingHandshakeBytes = 64 * 1024

  /// Bytes of one message of a client's handshake that is no certificate: a hello is two thousand with the keys of tomorrow.
  /// OpenSSL keeps as much ready for any.
  static let handshakeMessageBytes = 16 * 1024

  /// Bytes of a record that has not ended from which on the server is told of them: a record whose rest is on its way is
  /// mostly shorter, and no connection keeps less.
  static let unfinishedRecordBytes = 4 * 1024

  /// Bytes that TLS answers below the application's sight may wait for a peer that does not read: over a thousand key
  /// updates.
  static let unreadOutput = 64 * 1024

  /// Records without data, and reads that bring none, in a burst and a second, and the bytes of data that earn one back:
  /// the longest record comes in a dozen packets, and each adds to it.
  static let idleRecords = Budget.Rate(burst: 200, perSecond: 20)
  static let bytesPerIdleRecord = 512
}
