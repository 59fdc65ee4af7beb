internal import GRPC
internal import LatchkeyProtos
internal import Logging
internal import NIOCore
internal import Synchronization
internal import TLS
internal import TransportClient

/// The channels to the other services. None connects before its first call.
final class OutgoingChannels: Sendable {
  private let connections: [PeerService: ClientChannel]
  private let configuration: ServiceConfiguration
  private let token: ServiceToken?
  private let logger: Logger
  private let tls: TLSClientContext?
  private let eventLoops: any EventLoopGroup
  /// To single instances, by their service and address.
  private let instances = Mutex<[String: ClientChannel]>([:])

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
    self.tls = tls
    self.eventLoops = eventLoops
    var connections: [PeerService: ClientChannel] = [:]
    for service in PeerService.allCases {
      connections[service] = Self.connection(to: service.address(configuration), tls: tls, eventLoops)
    }
    self.connections = connections
  }

  private static func connection(
    to address: Endpoint, tls: TLSClientContext?, _ eventLoops: any EventLoopGroup
  ) -> ClientChannel {
    var settings = ClientChannel.Configuration(
      target: ChannelTarget(host: address.host, port: address.port),
      tls: tls,
      decodeDetails: { StatusDetails.decode($0) }
    )
    settings.group = eventLoops
    settings.backoff = Limits.peerBackoff
    return ClientChannel(settings)
  }

  /// To each instance of a service that there is now, in the order of `addresses`. Those to others end at once: instances
  /// come and go, and mostly with other addresses.
  func channels(to service: PeerService, at addresses: [Endpoint]) async -> [any RPCChannel] {
    let names = addresses.map { address in "\(service.rawValue) \(address)" }
    let (kept, gone) = instances.withLock { instances in
      var kept: [String: ClientChannel] = [:]
      for (name, address) in zip(names, addresses) where kept[name] == nil {
        kept[name] = instances[name] ?? Self.connection(to: address, tls: tls, eventLoops)
      }
      let gone = instances.filter { $0.key.hasPrefix("\(service.rawValue) ") && kept[$0.key] == nil }
      for name in gone.keys { instances[name] = nil }
      instances.merge(kept) { _, new in new }
      return (kept, Array(gone.values))
    }
    for connection in gone { await connection.close(grace: .zero) }
    return zip(names, addresses).map { name, address in
      guard let connection = kept[name] else { preconditionFailure("each of them has its channel") }
      return ServiceChannel(connection, to: service.rawValue, at: address.description, token: token, logger: logger)
    }
  }

  subscript(service: PeerService) -> any RPCChannel {
    guard let connection = connections[service] else { preconditionFailure("every service has its channel") }
    let address = service.address(configuration).description
    return ServiceChannel(connection, to: service.rawValue, at: address, token: token, logger: logger)
  }

  /// Ends them all. Calls under way have until `Limits.channelGrace`.
  func close() async {
    await withTaskGroup { group in
      for connection in Array(connections.values) + instances.withLock({ Array($0.values) }) {
        group.addTask { await connection.close(grace: Limits.channelGrace) }
      }
    }
  }
}
