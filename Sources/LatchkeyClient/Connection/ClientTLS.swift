/// How the services prove who they are.
public struct ClientTLS: Sendable, Equatable {
  /// A PEM file with the certificate authorities to trust; nil trusts the system's.
  public var authorityFile: String?
  /// The name that a certificate must hold; nil takes the address's host.
  public var serverName: String?

  public init(authorityFile: String? = nil, serverName: String? = nil) {
    self.authorityFile = authorityFile
    self.serverName = serverName
  }
}
