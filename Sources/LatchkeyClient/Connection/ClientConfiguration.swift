/// Where the services are and how this app names itself to them.
public struct ClientConfiguration: Sendable, Equatable {
  public var identity: ServiceAddress
  public var qr: ServiceAddress
  public var migrator: ServiceAddress
  /// Checks the services' certificates; nil speaks cleartext, for a loopback or a proxy that adds TLS.
  public var tls: ClientTLS?
  /// The application's registered name.
  public var clientID: String
  /// Sent with every call, for policies that ask for a newer app.
  public var appVersion: String
  /// Whether new sessions are bound to the device's key, so that a token that leaks is of no use to whoever finds it.
  /// Each call then signs a proof, some 50 µs. A session that began otherwise stays as it is.
  public var bindsTokens: Bool
  /// Where this installation's QR codes point: scheme, host and port, such as `https://login.example.com`. A scanned
  /// code that points anywhere else is refused.
  public var qrBase: String

  public init(
    identity: ServiceAddress = ServiceAddress(host: "127.0.0.1", port: 7401),
    qr: ServiceAddress = ServiceAddress(host: "127.0.0.1", port: 7402),
    migrator: ServiceAddress = ServiceAddress(host: "127.0.0.1", port: 7403),
    tls: ClientTLS? = nil,
    clientID: String,
    appVersion: String = "",
    bindsTokens: Bool = true,
    qrBase: String
  ) {
    self.identity = identity
    self.qr = qr
    self.migrator = migrator
    self.tls = tls
    self.clientID = clientID
    self.appVersion = appVersion
    self.bindsTokens = bindsTokens
    self.qrBase = qrBase
  }
}
