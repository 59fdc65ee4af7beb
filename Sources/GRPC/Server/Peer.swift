/// Who is at the other end of the connection that carries a call.
package struct Peer: Sendable, Equatable {
  /// The address in text form, such as `192.0.2.7` or `2001:db8::1`; empty when the transport has none.
  package var address: String
  package var port: Int
  /// The subject alternative names of the peer's verified certificate; empty without mutual TLS.
  package var tlsNames: [String]

  package init(address: String, port: Int, tlsNames: [String] = []) {
    self.address = address
    self.port = port
    self.tlsNames = tlsNames
  }
}
