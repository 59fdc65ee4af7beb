package import NIOCore

/// When a client asks a silent server for a sign of life.
///
/// Servers end connections that ask too often ("too_many_pings"): without a reason to fear silent networks, leave it
/// off. Source: gRPC "Keepalive User Guide".
package struct KeepalivePolicy: Sendable, Equatable {
  /// Silence after which a PING goes out. At least ten seconds.
  package var interval: TimeAmount
  /// How long the answer may take before the connection counts as lost.
  package var timeout: TimeAmount
  /// Also while no call is on its way.
  package var withoutCalls: Bool

  package init(interval: TimeAmount, timeout: TimeAmount = .seconds(20), withoutCalls: Bool = false) {
    self.interval = max(interval, Limits.clientKeepaliveInterval)
    self.timeout = timeout
    self.withoutCalls = withoutCalls
  }
}
