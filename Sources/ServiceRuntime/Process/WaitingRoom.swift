internal import LatchkeyProtos
internal import Logging
internal import Synchronization
internal import TransportServer

/// What a service shows while it waits for something that somebody else has to bring about before it can be made: its
/// management port alone, which says that it is not ready, and for what it waits.
final class WaitingRoom: Sendable {
  enum Attempt<Value: Sendable>: Sendable {
    case there(Value)
    /// For what it waits, and what to do about it.
    case missing(String)
  }

  private let resources: ServiceResources
  private let state = Mutex<(reason: String, server: RPCServer?)>(("", nil))

  private init(_ resources: ServiceResources) {
    self.resources = resources
  }

  /// Asks once a second until it is there, with whether something was missing before. The management port is free again when
  /// this returns or throws.
  static func wait<Value: Sendable>(
    _ resources: ServiceResources, _ attempt: @Sendable (_ isWaiting: Bool) async throws -> Attempt<Value>
  ) async throws -> Value {
    let room = WaitingRoom(resources)
    let result: Result<Value, any Error>
    do {
      result = .success(try await room.wait(attempt))
    } catch {
      result = .failure(error)
    }
    await room.server?.shutDown()
    return try result.get()
  }

  private var server: RPCServer? { state.withLock { $0.server } }

  private func wait<Value: Sendable>(
    _ attempt: @Sendable (_ isWaiting: Bool) async throws -> Attempt<Value>
  ) async throws -> Value {
    while true {
      switch try await attempt(server != nil) {
      case .there(let value): return value
      case .missing(let reason): try await show(reason)
      }
      // Nobody listens to signals yet in a container, where they do not end the process by themselves.
      if HeldSignals.areAnyHeld { ServiceProcess.end(0) }
      try await Task.sleep(for: Limits.waitingInterval)
    }
  }

  private func show(_ reason: String) async throws(StartupError) {
    let before = state.withLock { state in
      defer { state.reason = reason }
      return state.reason
    }
    if reason != before { resources.logger.warning("this service waits", metadata: ["for": "\(reason)"]) }
    guard server == nil else { return }
    let health = HealthService(services: [])
    let readiness = ReadinessMonitor(health: health, obstacles: [{ self.state.withLock { $0.reason } }])
    readiness.start()
    let made = ServiceProcess.managementServer(resources, health: health, readiness: readiness)
    _ = try await ServiceProcess.start(made, resources.configuration.management)
    state.withLock { $0.server = made }
  }
}
