import ArgumentParser
import Cryptography
import GRPC
import Glibc
import LatchkeyProtos
import TLS
import TransportClient

/// Where the identity service is, and what proves that an administrator asks.
struct AdminOptions: ParsableArguments {
  @OptionGroup var device: DeviceOptions

  @Option(
    help: ArgumentHelp(
      "The services' shared secret (LATCHKEY_SERVICE_TOKEN_FILE); else service-token in LATCHKEY_DATA_DIR or .latchkey.",
      valueName: "file"
    )
  )
  var serviceTokenFile: String?

  @Option(
    help: ArgumentHelp(
      "Prove yourself by this certificate chain instead, as services with services.authentication=certificate do.",
      valueName: "pem"
    )
  )
  var certificate: String?

  @Option(help: ArgumentHelp("The certificate's private key.", valueName: "pem"))
  var certificateKey: String?

  func validate() throws {
    if certificateKey != nil, certificate == nil { throw ValidationError("--certificate-key needs --certificate") }
    if certificate != nil, serviceTokenFile != nil {
      throw ValidationError("--service-token-file does not go with --certificate: one of them proves who asks")
    }
  }

  /// The connection to identity and what each call carries.
  func connect() throws(CommandFailure) -> AdminConnection {
    let settings = try device.settings()
    var identity: TLSIdentity?
    var metadata: Metadata = [:]
    if let certificate {
      guard let certificateKey else { throw .usage("--certificate needs --certificate-key") }
      let (chain, key) = (try Self.contents(certificate), try Self.contents(certificateKey))
      do throws(TLSError) {
        identity = try TLSIdentity(certificateChain: chain, privateKey: key)
      } catch {
        throw CommandFailure(.file, "--certificate: \(error)")
      }
    } else {
      metadata = ["authorization": "Bearer \(try token())"]
    }
    let tls: TLSClientContext?
    do throws(TLSError) {
      tls = try settings.client.tls.map { options throws(TLSError) in
        let trust = try options.authorities.map { pem throws(TLSError) in try TLSTrust(pem: pem) } ?? .system
        return try TLSClientContext(TLSClientContext.Configuration(trust: trust, identity: identity))
      }
    } catch {
      throw CommandFailure(.file, "--tls-ca: \(error)")
    }
    let address = settings.client.identity
    let channel = ClientChannel(
      ClientChannel.Configuration(
        target: ChannelTarget(host: address.host, port: address.port), tls: tls, decodeDetails: StatusDetails.decode))
    return AdminConnection(channel: channel, options: CallOptions(metadata: metadata, timeout: .seconds(30)))
  }

  private static func contents(_ path: String) throws(CommandFailure) -> [UInt8] {
    var file = try InputFile(path)
    return try file.contents()
  }

  private func token() throws(CommandFailure) -> String {
    let directory = DeviceOptions.environment("LATCHKEY_DATA_DIR") ?? ".latchkey"
    let path =
      serviceTokenFile ?? DeviceOptions.environment("LATCHKEY_SERVICE_TOKEN_FILE") ?? "\(directory)/service-token"
    let bytes: [UInt8]
    do throws(SecretFileError) {
      bytes = try SecretFile.read(path)
    } catch {
      throw CommandFailure(.file, error.description, hint: "--service-token-file says where it is")
    }
    let line = bytes.last == UInt8(ascii: "\n") ? bytes.dropLast() : bytes[...]
    // What cannot be a header's value is no token.
    guard !line.isEmpty, line.allSatisfy({ (0x21...0x7E).contains($0) }) else {
      throw CommandFailure(.file, "\(path) holds no service token")
    }
    return String(decoding: line, as: UTF8.self)
  }
}

/// A connection to identity in the name of an administrator.
struct AdminConnection: Sendable {
  let channel: ClientChannel
  let options: CallOptions

  var admin: IdentityV1.AdminServiceClient { IdentityV1.AdminServiceClient(channel: channel) }
  var audit: IdentityV1.AuditServiceClient { IdentityV1.AuditServiceClient(channel: channel) }
}
