internal import ServiceLifecycle

extension BackgroundTask {
  /// The task as the lifecycle runs it.
  var service: ServiceGroupConfiguration.ServiceConfiguration {
    ServiceGroupConfiguration.ServiceConfiguration(
      service: Adapter(task: self),
      successTerminationBehavior: .ignore,
      failureTerminationBehavior: .gracefullyShutdownGroup,
      serviceName: name
    )
  }

  private struct Adapter: Service {
    let task: BackgroundTask

    func run() async throws {
      do {
        try await cancelWhenGracefulShutdown { try await task.run() }
        // The lifecycle takes it for a failure when one is done while it ends another.
        try await gracefulShutdown()
      } catch is CancellationError {
        // How a task ends when the service does.
      }
    }
  }
}
