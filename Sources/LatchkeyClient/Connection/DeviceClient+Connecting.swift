import LatchkeyProtos
import TLS
import Transport

extension DeviceClient {
  /// A device that talks to the services of `configuration`. Nothing is opened before the first call.
  ///
  /// Errors: ``ClientError/unusableAuthorities(_:)`` when the trusted certificates cannot be read.
  public init(connecting configuration: ClientConfiguration, secrets: any SecretStore) throws(ClientError) {
    let tls: TLSClientContext?
    do throws(TLSError) {
      tls = try configuration.tls.map { options throws(TLSError) in
        let trust = try options.authorities.map { pem throws(TLSError) in try TLSTrust(pem: pem) } ?? .system
        return try TLSClientContext(TLSClientContext.Configuration(trust: trust))
      }
    } catch {
      throw .unusableAuthorities("\(error)")
    }
    let channels = [configuration.identity, configuration.qr, configuration.migrator].map { address in
      var channel = ClientChannel.Configuration(
        target: ChannelTarget(host: address.host, port: address.port),
        tls: tls,
        decodeDetails: StatusDetails.decode
      )
      channel.serverName = configuration.tls?.serverName
      return ClientChannel(channel)
    }
    self.init(
      configuration: configuration,
      secrets: secrets,
      identity: channels[0],
      qr: channels[1],
      migrator: channels[2],
      closing: {
        for channel in channels { await channel.close(grace: Limits.closeGrace) }
      }
    )
  }

  /// Ends the connections, after the calls that are under way.
  public func close() async {
    await closing()
  }
}
