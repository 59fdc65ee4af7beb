/// How the services prove who they are.
public struct ClientTLS: Sendable, Equatable {
  /// The certificate authorities to trust, in PEM; nil trusts the system's.
  public var authorities: [UInt8]?
  /// The name that a certificate must hold; nil takes the address's host.
  public var serverName: String?

  public init(authorities: [UInt8]? = nil, serverName: String? = nil) {
    self.authorities = authorities
    self.serverName = serverName
  }
}
