internal import HTTP2
internal import NIOCore

extension Limits {
  /// How long a peer may take for its TLS handshake. Two round trips across the world and a slow phone's signature
  /// fit several times; a peer that sends a byte now and then does not.
  static let handshakeTimeout = TimeAmount.seconds(5)

  /// Bytes that TLS answers below the application's sight may wait for a peer that does not read: over a thousand key
  /// updates.
  static let unreadOutput = 64 * 1024

  /// Records without data, and reads that bring none, in a burst and a second, and the bytes of data that earn one back:
  /// the longest record comes in a dozen packets, and each adds to it.
  static let idleRecords = Budget.Rate(burst: 200, perSecond: 20)
  static let bytesPerIdleRecord = 512
}
