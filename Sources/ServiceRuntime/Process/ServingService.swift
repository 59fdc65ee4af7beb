internal import Glibc
internal import LatchkeyModel
internal import Logging
internal import ServiceLifecycle
internal import TransportServer

/// The ports of a service as the lifecycle runs them: they serve from before `run` until shutdown, then drain.
struct ServingService: Service {
  let server: RPCServer
  let management: RPCServer
  let readiness: ReadinessMonitor
  let drainTimeout: Duration
  let drain: @Sendable () -> Void
  let logger: Logger

  func run() async throws {
    try? await gracefulShutdown()
    logger.info("draining")
    // Load balancers learn it before connections begin to close.
    readiness.drain()
    drain()
    let watchdog = endRegardless()
    defer { watchdog.cancel() }
    let start = ContinuousClock.now
    await server.shutDown()
    // The probes could see until now that the service drains.
    await management.shutDown()
    logger.info("drained", metadata: ["duration_ms": "\((ContinuousClock.now - start).wholeMilliseconds)"])
  }

  /// The last resort: a supervisor that asked for an end must get one.
  private func endRegardless() -> Task<Void, Never> {
    Task.detached { [drainTimeout, logger] in
      do {
        try await Task.sleep(for: drainTimeout + Limits.shutdownGrace)
      } catch {
        return
      }
      logger.critical("connections did not close in time")
      ServiceProcess.end(1)
    }
  }
}
