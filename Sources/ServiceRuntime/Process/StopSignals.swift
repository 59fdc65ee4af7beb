internal import ServiceLifecycle
internal import UnixSignals

/// Ends the service gracefully at SIGTERM or SIGINT, also at one that came before the lifecycle began.
///
/// From its making on the signals no longer end the process by themselves; they wait until it runs.
struct StopSignals: Service {
  private let signals: UnixSignalsSequence

  init() async {
    signals = await UnixSignalsSequence(trapping: .sigterm, .sigint)
  }

  func run() async {
    // Also when somebody else has ended the service.
    await cancelWhenGracefulShutdown {
      for await _ in signals { return }
    }
  }

  /// As the lifecycle runs it: its end is that of all.
  var service: ServiceGroupConfiguration.ServiceConfiguration {
    ServiceGroupConfiguration.ServiceConfiguration(
      service: self,
      successTerminationBehavior: .gracefullyShutdownGroup,
      failureTerminationBehavior: .gracefullyShutdownGroup,
      serviceName: "stop signals"
    )
  }
}
