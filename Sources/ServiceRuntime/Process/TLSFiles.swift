internal import Cryptography
internal import TLS

/// The PEM files of a service, as the TLS engine wants them.
struct TLSFiles: Sendable {
  struct Identity: Sendable {
    let certificate: String
    let key: String
  }

  /// What the gRPC port presents; nil for cleartext.
  let server: Identity?
  /// Who vouches for the other services when they call; nil when their certificates are not asked for.
  let callers: String?
  /// What this service shows when it calls.
  let client: Identity?
  /// Who vouches for the other services when they are called; nil when they are called in cleartext.
  let peers: String?

  init(_ configuration: ServiceConfiguration) {
    func identity(_ files: (certificate: String, key: String)?) -> Identity? {
      files.map { Identity(certificate: $0.certificate, key: $0.key) }
    }
    let provesByCertificate = configuration[CommonKeys.serviceAuthentication] == .certificate
    server = identity(configuration.certificateFiles)
    callers = provesByCertificate ? configuration[CommonKeys.callerCAFile] : nil
    client = provesByCertificate ? identity(configuration.clientCertificateFiles) : nil
    peers = configuration[CommonKeys.caFile]
  }

  /// The same files, however often they are replaced.
  var paths: [String] {
    [server?.certificate, server?.key, callers, client?.certificate, client?.key, peers].compactMap(\.self)
  }

  func serverConfiguration() throws(StartupError) -> TLSServerContext.Configuration? {
    guard let server else { return nil }
    let identity = try Self.identity(server, "tls.certificateFile and tls.keyFile")
    guard let callers else { return TLSServerContext.Configuration(identity: identity) }
    // People's devices have no certificate, so none is required; a service without one is refused by each method.
    return TLSServerContext.Configuration(
      identity: identity,
      clientCertificate: .requested(try Self.trust(callers, "tls.callerCaFile"))
    )
  }

  func clientConfiguration() throws(StartupError) -> TLSClientContext.Configuration? {
    guard let peers else { return nil }
    return TLSClientContext.Configuration(
      trust: try Self.trust(peers, "tls.caFile"),
      identity: try client.map { (client) throws(StartupError) in
        try Self.identity(client, "tls.clientCertificateFile and tls.clientKeyFile")
      },
      minimumVersion: .tls13
    )
  }

  private static func identity(_ files: Identity, _ keys: String) throws(StartupError) -> TLSIdentity {
    do {
      return try TLSIdentity(
        certificateChain: FileContents.read(files.certificate),
        privateKey: FileContents.read(files.key)
      )
    } catch {
      throw configurationError(keys, error)
    }
  }

  private static func trust(_ path: String, _ key: String) throws(StartupError) -> TLSTrust {
    do {
      return try TLSTrust(pem: FileContents.read(path))
    } catch {
      throw configurationError(key, error)
    }
  }

  private static func configurationError(_ keys: String, _ error: any Error) -> StartupError {
    StartupError("\(keys): \(error)", exitStatus: StartupError.badConfiguration)
  }
}
