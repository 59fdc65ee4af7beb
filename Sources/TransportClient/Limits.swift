internal import NIOCore

/// The bounds of this module, each with the reason for its number.
enum Limits {
  /// The largest response message that a channel takes unless it is told otherwise: gRPC's default.
  static let responseBytes = 4 * 1024 * 1024

  /// How long a connection may take until the server's SETTINGS: the connection backoff protocol's least timeout.
  static let connectTimeout = TimeAmount.seconds(20)

  /// How long a connection without an answer has to last for its end not to count as a failure: servers that limit a
  /// connection's age or idleness do so by minutes.
  static let usefulConnection = TimeAmount.seconds(10)

  /// Calls on their way on one connection, whatever the server allows. More wait in a queue: each holds a stream's
  /// memory on both sides.
  static let callsPerConnection = 1_000

  /// Calls that may wait for a stream of one connection. Ten times what may run: beyond that a call fails with
  /// `RESOURCE_EXHAUSTED` rather than wait for longer than anybody would.
  static let queuedCallsPerConnection = 10 * callsPerConnection

  /// Calls that may wait for a channel's first connection, for the same reason.
  static let waitingCalls = queuedCallsPerConnection

  /// Addresses of one target that a channel connects to. More serve nobody better and each costs a connection.
  static let addressesPerTarget = 16

  /// The least time between two look-ups of a name; gRPC clients use the same.
  static let resolutionInterval = TimeAmount.seconds(30)

  /// Request bytes of a streaming call that are kept, until the server answers, for a try on another connection.
  static let replayBytes = 256 * 1024

  /// The least time between two keepalive pings, so that a configuration cannot flood a server.
  static let clientKeepaliveInterval = TimeAmount.seconds(10)
}
