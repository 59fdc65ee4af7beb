/// What a service's health check answered.
public struct ServiceHealth: Sendable, Equatable {
  /// `identity`, `qr` or `migrator`.
  public let name: String
  public let address: ServiceAddress
  /// `SERVING`, `NOT_SERVING`, or the name of the gRPC error.
  public let state: String
  public let roundTrip: Duration?

  public var isServing: Bool { state == "SERVING" }
}
