internal import Cryptography
internal import TLS

/// The TLS engine's view of the configured files.
enum TLSFiles {
  /// What the gRPC port presents; nil for cleartext.
  static func server(_ configuration: ServiceConfiguration) throws(StartupError) -> TLSServerContext? {
    guard let files = configuration.certificateFiles else { return nil }
    do {
      let identity = try TLSIdentity(
        certificateChain: FileContents.read(files.certificate),
        privateKey: FileContents.read(files.key)
      )
      return try TLSServerContext(TLSServerContext.Configuration(identity: identity))
    } catch {
      throw configurationError("tls.certificateFile and tls.keyFile", error)
    }
  }

  /// How other services are called; nil for cleartext.
  static func client(_ configuration: ServiceConfiguration) throws(StartupError) -> TLSClientContext? {
    guard let path = configuration[CommonKeys.caFile] else { return nil }
    do {
      let trust = try TLSTrust(pem: FileContents.read(path))
      return try TLSClientContext(TLSClientContext.Configuration(trust: trust))
    } catch {
      throw configurationError("tls.caFile", error)
    }
  }

  private static func configurationError(_ keys: String, _ error: any Error) -> StartupError {
    StartupError("\(keys): \(error)", exitStatus: StartupError.badConfiguration)
  }
}
