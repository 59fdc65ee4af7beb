import GRPC
import LatchkeyProtos
import ServiceRuntime
import Transport

/// How this service reaches the migrator, and what shows that it is a service that calls.
package struct MigratorConnection: Sendable {
  package let channel: any RPCChannel
  /// Metadata of calls between services.
  package let serviceCredential: Metadata

  package init(channel: any RPCChannel, serviceCredential: Metadata) {
    self.channel = channel
    self.serviceCredential = serviceCredential
  }

  /// To the configured address, by TLS when a CA is configured. Opens no connection yet: the services start in any
  /// order.
  package init(_ resources: ServiceResources) throws {
    let configuration = resources.configuration
    let endpoint = configuration[CommonKeys.migratorAddress]
    var channel = ClientChannel.Configuration(
      target: ChannelTarget(host: endpoint.host, port: endpoint.port),
      tls: try TLSFiles.client(configuration),
      decodeDetails: { StatusDetails.decode($0) }
    )
    channel.group = resources.eventLoops
    self.init(
      channel: ClientChannel(channel),
      serviceCredential: try ServiceToken.load(configuration.serviceTokenFile).metadata
    )
  }
}
