internal import GRPC
internal import LatchkeyProtos
internal import Logging
internal import NIOCore
internal import TLS
internal import Transport

/// The channels to the other services. None connects before its first call.
final class OutgoingChannels: Sendable {
  private let connections: [PeerService: ClientChannel]
  private let configuration: ServiceConfiguration
  private let token: ServiceToken?
  private let logger: Logger

  /// - Parameters:
  ///   - token: what each call carries; nil where the connection's certificate is the proof.
  ///   - tls: how the services are called; nil speaks cleartext.
  init(
    _ configuration: ServiceConfiguration,
    token: ServiceToken?,
    tls: TLSClientContext?,
    eventLoops: any EventLoopGroup,
    logger: Logger
  ) {
    self.configuration = configuration
    self.token = token
    self.logger = logger
    var connections: [PeerService: ClientChannel] = [:]
    for service in PeerService.allCases {
      let address = service.address(configuration)
      var settings = ClientChannel.Configuration(
        target: ChannelTarget(host: address.host, port: address.port),
        tls: tls,
        decodeDetails: { StatusDetails.decode($0) }
      )
      settings.group = eventLoops
      settings.backoff = Limits.peerBackoff
      connections[service] = ClientChannel(settings)
    }
    self.connections = connections
  }

  subscript(service: PeerService) -> any RPCChannel {
    guard let connection = connections[service] else { preconditionFailure("every service has its channel") }
    let address = service.address(configuration).description
    return ServiceChannel(connection, to: service.rawValue, at: address, token: token, logger: logger)
  }

  /// Ends them all. Calls under way have until `Limits.channelGrace`.
  func close() async {
    await withTaskGroup { group in
      for connection in connections.values {
        group.addTask { await connection.close(grace: Limits.channelGrace) }
      }
    }
  }
}
