package import LatchkeyModel
package import Logging
package import NIOCore

/// What the runtime gives a service to make itself of.
package struct ServiceResources: Sendable {
  package let configuration: ServiceConfiguration
  package let logger: Logger
  package let clock: any WallClock
  /// Metrics for `/metrics`.
  package let metrics: PrometheusRegistry
  package let eventLoops: any EventLoopGroup
}
