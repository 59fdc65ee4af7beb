import GRPC
import LatchkeyProtos

extension DeviceClient {
  /// Asks each service whether it serves (`grpc.health.v1`). Never throws: not answering is an answer.
  public func health() async -> [ServiceHealth] {
    let services = [
      ("identity", configuration.identity, identity),
      ("qr", configuration.qr, qr),
      ("migrator", configuration.migrator, migrator),
    ]
    var answers: [ServiceHealth] = []
    for (name, address, channel) in services {
      let start = ContinuousClock.now
      let state: String
      var roundTrip: Duration?
      do throws(RPCError) {
        let client = HealthV1.HealthClient(channel: channel)
        let options = CallOptions(timeout: Limits.healthTimeout)
        state = Self.name(of: try await client.check(HealthV1.HealthCheckRequest(), options: options).status)
        roundTrip = start.duration(to: .now)
      } catch {
        state = error.code.name
      }
      answers.append(
        ServiceHealth(
          name: name,
          address: address,
          state: state,
          roundTrip: roundTrip
        )
      )
    }
    return answers
  }

  private static func name(of status: HealthV1.HealthCheckResponse.ServingStatus) -> String {
    switch status {
    case .serving: "SERVING"
    case .notServing: "NOT_SERVING"
    case .serviceUnknown: "SERVICE_UNKNOWN"
    default: "UNKNOWN"
    }
  }
}
