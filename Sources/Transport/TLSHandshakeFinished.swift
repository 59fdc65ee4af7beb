package import TLS

/// What a handshake settled: the event that `TLSHandler` sends up its pipeline, once.
package struct TLSHandshakeFinished: Sendable, Equatable {
  /// nil when the client named no protocol: treat it as HTTP/1.1.
  package var applicationProtocol: ALPNProtocol?
  /// The names in the peer's verified certificate; empty when it showed none.
  package var peerNames: [String]
  package var version: TLSVersion?
  package var isResumed: Bool
}
