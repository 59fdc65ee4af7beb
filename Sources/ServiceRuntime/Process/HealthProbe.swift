internal import GRPC
internal import LatchkeyProtos
internal import TransportClient

/// What `--check-health` does: asks the service that runs by the same configuration whether it serves, at its management
/// port. For container images, which have no shell and no other program to ask with.
enum HealthProbe {
  /// Errors: ``StartupError``, in a line, unless the service answers that it is serving.
  static func run(_ configuration: ServiceConfiguration) async throws(StartupError) {
    let address = reachable(configuration.management)
    let channel = ClientChannel(
      .init(
        target: ChannelTarget(host: address.host, port: address.port),
        decodeDetails: { StatusDetails.decode($0) }
      )
    )
    let answer: Result<HealthV1.HealthCheckResponse, RPCError>
    do throws(RPCError) {
      let client = HealthV1.HealthClient(channel: channel)
      let options = CallOptions(timeout: Limits.healthTimeout)
      answer = .success(try await client.check(HealthV1.HealthCheckRequest(), options: options))
    } catch {
      answer = .failure(error)
    }
    await channel.close(grace: Limits.channelGrace)
    switch answer {
    case .success(let response) where response.status == .serving: return
    case .success: throw StartupError("\(address): not serving")
    case .failure(let error): throw StartupError("\(address): \(error.message)")
    }
  }

  /// A port that listens on every address is asked on this machine's own.
  private static func reachable(_ endpoint: Endpoint) -> Endpoint {
    switch endpoint.host {
    case "0.0.0.0": Endpoint(host: "127.0.0.1", port: endpoint.port)
    case "::": Endpoint(host: "::1", port: endpoint.port)
    default: endpoint
    }
  }
}
