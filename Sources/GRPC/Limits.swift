/// The bounds of this module, each with the reason for its number.
package enum Limits {
  /// The largest message that a route takes unless it says otherwise. Latchkey's own requests are below 4 KiB; the
  /// rest is room for credentials of other issuers.
  package static let messageBytes = 64 * 1024

  /// The memory that a buffer keeps for the next call: the requests that Latchkey's own clients send, and most answers.
  static let keptBufferBytes = 4 * 1024

  /// The smallest message that is worth compressing: below a packet's size nothing is won on the way, and gzip's own
  /// header and tables take their share.
  static let compressedMessage = 1024

  /// A streaming writer waits while more than this is queued. One default HTTP/2 window: more than that cannot leave
  /// before the peer answers anyway.
  static let outboxHighWater = 64 * 1024

  /// A waiting writer goes on when this little is queued, so that it is not woken for every frame.
  static let outboxLowWater = outboxHighWater / 4
}
