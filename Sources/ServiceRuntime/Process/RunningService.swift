/// A service that listens: where, and how to end it.
package struct RunningService: Sendable {
  package let grpc: Endpoint
  package let management: Endpoint
  /// Begins the same shutdown as SIGTERM, and returns at once.
  package let stop: @Sendable () async -> Void
}
