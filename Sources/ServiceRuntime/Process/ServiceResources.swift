package import GRPC
package import LatchkeyModel
package import Logging
package import NIOCore

/// What the runtime gives a service to make itself of.
package struct ServiceResources: Sendable {
  package let configuration: ServiceConfiguration
  /// What the service makes is of its own cell; subjects and sessions are of identity's.
  package let cells: Cells
  package let logger: Logger
  package let clock: any WallClock
  /// Metrics for `/metrics`.
  package let metrics: PrometheusRegistry
  /// What the operator decided about apps, actions and networks.
  package let policies: PolicyFile
  package let eventLoops: any EventLoopGroup
  /// Those of sources with many connections.
  let crowdLoops: any EventLoopGroup
  /// Knows which sessions have ended, for whoever verifies tokens besides the interceptor. Identity has its own.
  package let revocations: RevocationFeed
  /// Decides about proofs of possession, in the interceptor and wherever else.
  package let proofs: DPoPVerifier
  let channels: OutgoingChannels

  /// A channel to another service that proves this service with each call. It connects with its first call, and lives
  /// until the service has closed.
  package func channel(to service: PeerService) -> any RPCChannel {
    channels[service]
  }

  /// The same to single instances of a service, in the order of their addresses. These are all that there are now: channels
  /// to others that were asked for before end.
  package func channels(to service: PeerService, at addresses: [Endpoint]) async -> [any RPCChannel] {
    await channels.channels(to: service, at: addresses)
  }
}
