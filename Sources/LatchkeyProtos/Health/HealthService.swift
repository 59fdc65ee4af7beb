package import GRPC
internal import Synchronization

/// Tells load balancers and orchestrators whether each service of this server answers, by the gRPC health checking
/// protocol. The name `""` stands for the server as a whole.
package final class HealthService: HealthV1.Health {
  package typealias Status = HealthV1.HealthCheckResponse.ServingStatus

  fileprivate struct State {
    var statuses: [String: Status]
    var watchers: [Int: Watcher] = [:]
    var nextWatcher = 0
    var isDraining = false
  }

  fileprivate struct Watcher {
    var service: String
    var continuation: AsyncStream<Status>.Continuation
  }

  /// A few lines of plain data, and answers must not wait for an actor's turn.
  private let state: Mutex<State>

  /// Each of `services`, and the server as a whole, begins as `initial`.
  package init(services: [String], initial: Status = .notServing) {
    var statuses = ["": initial]
    for service in services { statuses[service] = initial }
    state = Mutex(State(statuses: statuses))
  }

  /// Sets the status of one service, or of the server as a whole. Has no effect once the server drains.
  package func set(_ status: Status, for service: String = "") {
    state.withLock { state in
      if !state.isDraining { state.change(service, to: status) }
    }
  }

  /// Sets the status of the server and of all its services. Has no effect once the server drains.
  package func setAll(_ status: Status) {
    state.withLock { state in
      if state.isDraining { return }
      for service in state.statuses.keys { state.change(service, to: status) }
    }
  }

  /// Everything is `NOT_SERVING` from here on: the server finishes its calls and closes.
  package func drain() {
    state.withLock { state in
      state.isDraining = true
      for service in state.statuses.keys { state.change(service, to: .notServing) }
    }
  }

  package func check(
    _ request: HealthV1.HealthCheckRequest,
    context: ServerContext
  ) async throws(RPCError) -> HealthV1.HealthCheckResponse {
    guard let status = state.withLock({ $0.statuses[request.service] }) else {
      throw RPCError(.notFound, "unknown service")
    }
    return HealthV1.HealthCheckResponse(status: status)
  }

  /// Answers with the status now, then with each change, until the client leaves. A service that is not known yet is
  /// `SERVICE_UNKNOWN`, as the protocol has it, not an error.
  package func watch(
    _ request: HealthV1.HealthCheckRequest,
    responses: ResponseWriter<HealthV1.HealthCheckResponse>,
    context: ServerContext
  ) async throws(RPCError) {
    // Only the newest status matters to a watcher that is behind.
    let (changes, continuation) = AsyncStream.makeStream(of: Status.self, bufferingPolicy: .bufferingNewest(1))
    let id = state.withLock { $0.add(Watcher(service: request.service, continuation: continuation)) }
    guard let id else { throw RPCError(.resourceExhausted, "too many health watchers") }
    defer { _ = state.withLock { $0.watchers.removeValue(forKey: id) } }
    var sent: Status?
    for await status in changes where status != sent {
      try await responses.write(HealthV1.HealthCheckResponse(status: status))
      sent = status
    }
    throw RPCError(.cancelled, "the watch was cancelled")
  }
}

extension HealthService.State {
  fileprivate mutating func change(_ service: String, to status: HealthService.Status) {
    statuses[service] = status
    for watcher in watchers.values where watcher.service == service { watcher.continuation.yield(status) }
  }

  /// The watcher's key, nil when there are too many. Its stream begins with the status now.
  fileprivate mutating func add(_ watcher: HealthService.Watcher) -> Int? {
    guard watchers.count < Limits.healthWatchers else { return nil }
    nextWatcher += 1
    watchers[nextWatcher] = watcher
    watcher.continuation.yield(statuses[watcher.service] ?? .serviceUnknown)
    return nextWatcher
  }
}
