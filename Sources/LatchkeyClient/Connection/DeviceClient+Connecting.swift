import TransportClient

extension DeviceClient {
  /// A device that talks to the services of `configuration`. Nothing is opened before the first call.
  ///
  /// Errors: ``ClientError/unusableAuthorities(_:)`` when the trusted certificates cannot be read.
  public init(connecting configuration: ClientConfiguration, secrets: any SecretStore) throws(ClientError) {
    let tls = configuration.tls
    let channels = [
      try ClientChannel(to: configuration.identity, tls),
      try ClientChannel(to: configuration.qr, tls),
      try ClientChannel(to: configuration.migrator, tls),
    ]
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
