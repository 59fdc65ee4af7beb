import LatchkeyProtos
import TLS
import TransportClient

extension ClientChannel {
  /// A channel to a service, which connects with its first call.
  ///
  /// Errors: ``ClientError/unusableAuthorities(_:)`` when the trusted certificates cannot be read.
  convenience init(to address: ServiceAddress, _ tls: ClientTLS?) throws(ClientError) {
    let context: TLSClientContext?
    do throws(TLSError) {
      context = try tls.map { options throws(TLSError) in
        let trust = try options.authorities.map { pem throws(TLSError) in try TLSTrust(pem: pem) } ?? .system
        return try TLSClientContext(TLSClientContext.Configuration(trust: trust))
      }
    } catch {
      throw .unusableAuthorities("\(error)")
    }
    var configuration = ClientChannel.Configuration(
      target: ChannelTarget(host: address.host, port: address.port),
      tls: context,
      decodeDetails: StatusDetails.decode
    )
    configuration.serverName = tls?.serverName
    self.init(configuration)
  }
}
