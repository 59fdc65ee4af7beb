internal import NIOCore

extension Limits {
  /// How long a peer may take for its TLS handshake. Two round trips across the world and a slow phone's signature
  /// fit several times; a peer that sends a byte now and then does not.
  static let handshakeTimeout = TimeAmount.seconds(5)

  /// Bytes that TLS answers below the application's sight may wait for a peer that does not read: over a thousand key
  /// updates.
  static let unreadOutput = 64 * 1024
}
