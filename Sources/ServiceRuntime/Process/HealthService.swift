internal import Callers
package import GRPC
package import LatchkeyProtos
internal import Synchronization

/// Tells load balancers and orchestrators whether each service of this server answers, by the gRPC health checking
/// protocol. The name `""` stands for the server as a whole.
///
/// Whoever watches needs no token, so a port's places are shared by the network addresses that calls come from: when all
/// are taken, the one that has most gives one up for one that has fewer.
package final class HealthService: HealthV1.Health {
  package typealias Status = HealthV1.HealthCheckResponse.ServingStatus

  fileprivate struct State {
    let placesOfPort: Int
    var statuses: [String: Status]
    var ports: [Port] = []
    var watchers: [Int: Watcher] = [:]
    var nextWatcher = 0
    var isDraining = false
  }

  /// The places of one port, and who has them.
  fileprivate struct Port {
    var share: FairShare<NetworkAddress?>
    var watchers: [NetworkAddress?: Set<Int>] = [:]
  }

  fileprivate struct Watcher {
    let service: String
    let port: Int
    /// Nil for a caller without an address.
    let source: NetworkAddress?
    let continuation: AsyncStream<Status>.Continuation
  }

  /// What all ports say. A few lines of plain data, and answers must not wait for an actor's turn.
  private final class Board: Sendable {
    let state: Mutex<State>

    init(_ state: State) { self.state = Mutex(state) }
  }

  private let board: Board
  private let port: Int

  /// Each of `services`, and the server as a whole, begins as `initial`.
  package convenience init(services: [String], initial: Status = .notServing) {
    self.init(services: services, initial: initial, places: Limits.healthWatches)
  }

  /// - Parameter places: watches of a port that may be open at once.
  package convenience init(services: [String], initial: Status = .notServing, places: Int) {
    var statuses = ["": initial]
    for service in services { statuses[service] = initial }
    self.init(Board(State(placesOfPort: places, statuses: statuses)))
  }

  private init(_ board: Board) {
    self.board = board
    port = board.state.withLock { $0.addPort() }
  }

  /// The same for another port of the server, with as many places for watches, all of them its own.
  package func atAnotherPort() -> HealthService { HealthService(board) }

  /// Sets the status of one service, or of the server as a whole. Has no effect once the server drains.
  package func set(_ status: Status, for service: String = "") {
    board.state.withLock { state in
      if !state.isDraining { state.change(service, to: status) }
    }
  }

  /// Sets the status of the server and of all its services. Has no effect once the server drains.
  package func setAll(_ status: Status) {
    board.state.withLock { state in
      if state.isDraining { return }
      for service in state.statuses.keys { state.change(service, to: status) }
    }
  }

  /// Everything is `NOT_SERVING` from here on: the server finishes its calls and closes.
  package func drain() {
    board.state.withLock { state in
      state.isDraining = true
      for service in state.statuses.keys { state.change(service, to: .notServing) }
    }
  }

  package func check(
    _ request: HealthV1.HealthCheckRequest,
    context: ServerContext
  ) async throws(RPCError) -> HealthV1.HealthCheckResponse {
    guard let status = board.state.withLock({ $0.statuses[request.service] }) else {
      throw RPCError(.notFound, "unknown service")
    }
    return HealthV1.HealthCheckResponse(status: status)
  }

  /// Answers with the status now, then with each change, until the client leaves. A service that is not known yet is
  /// `SERVICE_UNKNOWN`, as the protocol has it, not an error.
  ///
  /// Errors: `RESOURCE_EXHAUSTED` with `OVERLOADED` where all places are taken and nobody has so many more that one of
  /// theirs would go, and for the watch whose place another one took; `CANCELLED` when the client left.
  package func watch(
    _ request: HealthV1.HealthCheckRequest,
    responses: ResponseWriter<HealthV1.HealthCheckResponse>,
    context: ServerContext
  ) async throws(RPCError) {
    // Only the newest status matters to a watcher that is behind.
    let (changes, continuation) = AsyncStream.makeStream(of: Status.self, bufferingPolicy: .bufferingNewest(1))
    let watcher = Watcher(
      service: request.service, port: port, source: NetworkAddress(context.peer.address)?.source,
      continuation: continuation)
    guard let id = board.state.withLock({ $0.add(watcher) }) else { throw Self.noPlace }
    defer { board.state.withLock { _ = $0.remove(id) } }
    var sent: Status?
    for await status in changes where status != sent {
      try await responses.write(HealthV1.HealthCheckResponse(status: status))
      sent = status
    }
    // The changes end with the call, or with the place.
    guard board.state.withLock({ $0.watchers[id] != nil }) else { throw Self.noPlace }
    throw RPCError(.cancelled, "the watch was cancelled")
  }

  /// How many watches of this port are open.
  package var watchCount: Int { board.state.withLock { $0.ports[port].share.total } }

  private static let noPlace = RPCError(
    .resourceExhausted,
    "too many health watches are open",
    reason: "OVERLOADED",
    retryAfter: Limits.healthWatchReturn
  )
}

extension HealthService.State {
  fileprivate mutating func addPort() -> Int {
    ports.append(HealthService.Port(share: FairShare(capacity: placesOfPort)))
    return ports.count - 1
  }

  fileprivate mutating func change(_ service: String, to status: HealthService.Status) {
    statuses[service] = status
    for watcher in watchers.values where watcher.service == service { watcher.continuation.yield(status) }
  }

  /// The watcher's key, nil when there is no place for it. Its stream begins with the status now; that of a watcher whose
  /// place it takes ends.
  fileprivate mutating func add(_ watcher: HealthService.Watcher) -> Int? {
    switch ports[watcher.port].share.take(for: watcher.source) {
    case .granted: break
    case .inPlaceOf(let largest):
      // Which one of its own a source loses is all the same.
      guard let key = ports[watcher.port].watchers[largest]?.first else { break }
      remove(key)?.continuation.finish()
    case .refused: return nil
    }
    nextWatcher += 1
    watchers[nextWatcher] = watcher
    ports[watcher.port].watchers[watcher.source, default: []].insert(nextWatcher)
    watcher.continuation.yield(statuses[watcher.service] ?? .serviceUnknown)
    return nextWatcher
  }

  /// Nil when it left, or lost its place, before.
  fileprivate mutating func remove(_ key: Int) -> HealthService.Watcher? {
    guard let watcher = watchers.removeValue(forKey: key) else { return nil }
    let (port, source) = (watcher.port, watcher.source)
    ports[port].watchers[source]?.remove(key)
    if ports[port].watchers[source]?.isEmpty == true { ports[port].watchers[source] = nil }
    ports[port].share.giveBack(of: source)
    return watcher
  }
}
