internal import GRPC
internal import NIOCore
internal import NIOPosix
internal import Synchronization
internal import TLS

/// The connections of a channel: one per address of the target, opened when a call asks for one.
///
/// ```
///             pick                 SETTINGS               GOAWAY, end
///   idle ───────────▶ connecting ───────────▶ ready ─────────────────────▶ idle
///    ▲                    │ failure             │ GOAWAY, end: soon, no call answered, the second time in a row
///    └─── backingOff ◀────┴─────────────────────┘
/// ```
///
/// A call goes to the ready connections in turn. While there is none it waits, until one comes up or, unless it said
/// `waitForReady`, every address has failed. Sources: gRPC "Connection Backoff Protocol", "Load Balancing".
final class ConnectionPool: ClientConnection.Owner {
  struct Configuration: Sendable {
    var target: ChannelTarget
    var group: any EventLoopGroup
    var resolver: any AddressResolver
    var tls: TLSClientContext?
    /// The name that the server's certificate must be for.
    var serverName: String
    var settings: ClientConnection.Settings
    var backoff: Backoff
    /// Uniform in 0..<1.
    var random: @Sendable () -> Double
  }

  private enum Phase {
    case idle
    case connecting(ClientConnection, since: NIODeadline)
    case ready(ClientConnection, since: NIODeadline)
    case backingOff
  }

  private struct Entry {
    var address: SocketAddress
    var phase = Phase.idle
    /// In a row: connections that never came up, or were of no use.
    var failures = 0

    /// The connection ended. Answers what the pause before the next is reckoned by; nil for none.
    ///
    /// A server that takes connections and ends them at once is as good as one that takes none; but it may do so once,
    /// as one does that is going while another takes its place.
    mutating func end(hasAnswered: Bool) -> (failures: Int, start: NIODeadline)? {
      switch phase {
      case .connecting(_, let start):
        failures += 1
        phase = .backingOff
        return (failures, start)
      case .ready(_, let start) where !hasAnswered && .now() - start < Limits.usefulConnection:
        failures += 1
        phase = failures > 1 ? .backingOff : .idle
        return failures > 1 ? (failures - 1, start) : nil
      case .ready, .idle, .backingOff:
        failures = 0
        phase = .idle
        return nil
      }
    }
  }

  private enum Resolution {
    case none
    case running
    case done(NIODeadline)
    case failed
  }

  private struct Waiter {
    var id: UInt64
    var waitForReady: Bool
    var continuation: CheckedContinuation<Result<ClientConnection, RPCError>, Never>
  }

  private struct State {
    var entries: [Entry] = []
    var resolution = Resolution.none
    var resolutionFailures = 0
    var ready: [ClientConnection] = []
    /// Connections that finish their last calls.
    var draining: [ClientConnection] = []
    var next = 0
    var waiters: [Waiter] = []
    var lastWaiter: UInt64 = 0
    var lastError: RPCError?
    var keepalive: KeepalivePolicy?
    var isClosed = false
    var closeWaiters: [CheckedContinuation<Void, Never>] = []
  }

  /// What a change asks for, done without the lock.
  private enum Action {
    case connect(SocketAddress)
    case resolve
    case resume(Waiter, Result<ClientConnection, RPCError>)
    case shutDown(ClientConnection)
    case retryLater(SocketAddress, after: TimeAmount)
    case resolveLater(TimeAmount)
    case finishClose(CheckedContinuation<Void, Never>)
  }

  private let configuration: Configuration
  /// Taken once per call and per change of a connection; an actor would suspend every call.
  private let state: Mutex<State>

  init(_ configuration: Configuration) {
    self.configuration = configuration
    var state = State()
    state.keepalive = configuration.settings.keepalive
    self.state = Mutex(state)
  }

  // MARK: - Picking

  /// A connection for a call, the ready ones in turn; waits for one as said above.
  func connection(waitForReady: Bool, deadline: NIODeadline?) async throws(RPCError) -> ClientConnection {
    let (ready, actions) = state.withLock { state -> (ClientConnection?, [Action]) in
      guard !state.isClosed, let connection = Self.nextReady(&state) else { return (nil, []) }
      return (connection, Self.wakeIdle(&state))
    }
    perform(actions)
    if let ready { return ready }
    return try await wait(waitForReady: waitForReady, deadline: deadline)
  }

  private static func nextReady(_ state: inout State) -> ClientConnection? {
    guard !state.ready.isEmpty else { return nil }
    state.next = (state.next + 1) % state.ready.count
    return state.ready[state.next]
  }

  /// Starts what a call needs: the addresses if there are none, and a connection to each that rests.
  private static func wakeIdle(_ state: inout State) -> [Action] {
    var actions: [Action] = []
    if case .none = state.resolution {
      state.resolution = .running
      actions.append(.resolve)
    }
    // Most often nothing is idle.
    for entry in state.entries {
      if case .idle = entry.phase { actions.append(.connect(entry.address)) }
    }
    return actions
  }

  private func wait(waitForReady: Bool, deadline: NIODeadline?) async throws(RPCError) -> ClientConnection {
    let id = state.withLock { state in
      state.lastWaiter += 1
      return state.lastWaiter
    }
    let timer = deadline.map { deadline in
      configuration.group.any().scheduleTask(deadline: deadline) { self.giveUp(id, .deadlineExceeded) }
    }
    defer { timer?.cancel() }
    let result = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        enqueue(Waiter(id: id, waitForReady: waitForReady, continuation: continuation), deadline)
      }
    } onCancel: {
      giveUp(id, .cancelled)
    }
    return try result.get()
  }

  private func enqueue(_ waiter: Waiter, _ deadline: NIODeadline?) {
    let isCancelled = Task.isCancelled
    let actions = state.withLock { state -> [Action] in
      if state.isClosed {
        return [.resume(waiter, .failure(RPCError(.unavailable, "the channel is closed")))]
      }
      if isCancelled { return [.resume(waiter, .failure(RPCError(.cancelled, "the call was cancelled")))] }
      if let deadline, deadline <= .now() { return [.resume(waiter, .failure(Self.deadlineError(state)))] }
      guard state.waiters.count < Limits.waitingCalls else {
        return [.resume(waiter, .failure(RPCError(.resourceExhausted, "too many calls wait for a connection")))]
      }
      state.waiters.append(waiter)
      return Self.wakeIdle(&state) + Self.settle(&state)
    }
    perform(actions)
  }

  private func giveUp(_ id: UInt64, _ code: StatusCode) {
    let actions = state.withLock { state -> [Action] in
      guard let index = state.waiters.firstIndex(where: { $0.id == id }) else { return [] }
      let waiter = state.waiters.remove(at: index)
      let error =
        code == .cancelled ? RPCError(.cancelled, "the call was cancelled") : Self.deadlineError(state)
      return [.resume(waiter, .failure(error))]
    }
    perform(actions)
  }

  private static func deadlineError(_ state: State) -> RPCError {
    let cause = state.lastError.map { " (\($0.message))" } ?? ""
    return RPCError(.deadlineExceeded, "the deadline passed while the call waited for a connection\(cause)")
  }

  /// Serves or fails the calls that wait, as far as the connections' states allow.
  private static func settle(_ state: inout State) -> [Action] {
    guard !state.waiters.isEmpty else { return [] }
    if !state.ready.isEmpty {
      let waiters = state.waiters
      state.waiters = []
      return waiters.compactMap { waiter in nextReady(&state).map { .resume(waiter, .success($0)) } }
    }
    guard let error = state.lastError, hasFailed(state) else { return [] }
    let failing = state.waiters.filter { !$0.waitForReady }
    state.waiters.removeAll { !$0.waitForReady }
    return failing.map { .resume($0, .failure(error)) }
  }

  /// Whether there is nothing to hope for at the moment.
  private static func hasFailed(_ state: State) -> Bool {
    switch state.resolution {
    case .none, .running: return false
    case .failed: return state.entries.isEmpty
    case .done: break
    }
    return state.entries.allSatisfy { if case .backingOff = $0.phase { true } else { false } }
  }

  // MARK: - Closing

  /// Takes no more calls, lets those on their way finish and then closes the connections.
  ///
  /// Returns when the last connection is gone, or has been closed because `grace` was over.
  func close(grace: TimeAmount) async {
    let (actions, connections) = state.withLock { state -> ([Action], [ClientConnection]) in
      let isFirst = !state.isClosed
      state.isClosed = true
      guard isFirst else { return ([], []) }
      let failed = state.waiters
      state.waiters = []
      let connections = Self.connections(state)
      let error = RPCError(.unavailable, "the channel was closed")
      return (failed.map { .resume($0, .failure(error)) } + connections.map { .shutDown($0) }, connections)
    }
    perform(actions)
    let timer = configuration.group.any().scheduleTask(in: grace) {
      for connection in connections {
        connection.onEventLoop { connection.close(RPCError(.unavailable, "the channel was closed")) }
      }
    }
    await withCheckedContinuation { continuation in
      let isDone = state.withLock { state in
        if Self.connections(state).isEmpty { return true }
        state.closeWaiters.append(continuation)
        return false
      }
      if isDone { continuation.resume() }
    }
    timer.cancel()
  }

  /// Closes everything at once: nobody uses the channel any more.
  func abandon() {
    let connections = state.withLock { state in
      state.isClosed = true
      return Self.connections(state)
    }
    for connection in connections {
      connection.onEventLoop { connection.close(RPCError(.unavailable, "the channel was given up")) }
    }
  }

  private static func connections(_ state: State) -> [ClientConnection] {
    state.draining
      + state.entries.compactMap { entry in
        switch entry.phase {
        case .connecting(let connection, _), .ready(let connection, _): connection
        case .idle, .backingOff: nil
        }
      }
  }

  // MARK: - The connections' events

  func connectionOpened(_ connection: ClientConnection) {
    update { state in
      guard let index = Self.index(of: connection, state) else { return [.shutDown(connection)] }
      state.entries[index].phase = .ready(connection, since: .now())
      state.ready.append(connection)
      return []
    }
  }

  func connectionDraining(_ connection: ClientConnection, _ error: RPCError) {
    lost(connection, error) { $0.draining.append(connection) }
  }

  func connectionClosed(_ connection: ClientConnection, _ error: RPCError) {
    lost(connection, error) { state in state.draining.removeAll { $0 === connection } }
  }

  /// No further call may start on a connection, which was counted till now.
  private func lost(_ connection: ClientConnection, _ error: RPCError, _ note: @Sendable (inout State) -> Void) {
    let random = configuration.random()
    let backoff = configuration.backoff
    let hasAnswered = connection.hasAnswered
    update { state in
      note(&state)
      state.ready.removeAll { $0 === connection }
      guard let index = Self.index(of: connection, state) else { return Self.finishClose(&state) }
      var actions: [Action] = []
      let pause = state.entries[index].end(hasAnswered: hasAnswered)
      if let pause {
        state.lastError = error
        let delay = backoff.delay(failures: pause.failures, random: random)
        let left = pause.start + TimeAmount(delay) - .now()
        actions.append(.retryLater(state.entries[index].address, after: max(left, .zero)))
      }
      return actions + Self.resolveAgain(&state) + Self.finishClose(&state)
    }
  }

  func connectionPingedTooOften(_ connection: ClientConnection) {
    // Source: gRPC "Client-side Keepalive", which doubles the interval.
    state.withLock { state in
      if let interval = state.keepalive?.interval { state.keepalive?.interval = interval * 2 }
    }
  }

  private static func index(of connection: ClientConnection, _ state: State) -> Int? {
    state.entries.firstIndex { entry in
      switch entry.phase {
      case .connecting(let candidate, _), .ready(let candidate, _): candidate === connection
      case .idle, .backingOff: false
      }
    }
  }

  private static func finishClose(_ state: inout State) -> [Action] {
    guard state.isClosed, connections(state).isEmpty else { return [] }
    let waiters = state.closeWaiters
    state.closeWaiters = []
    return waiters.map { .finishClose($0) }
  }

  /// After a connection was lost the name may mean other addresses.
  private static func resolveAgain(_ state: inout State) -> [Action] {
    guard !state.isClosed, case .done(let last) = state.resolution, .now() - last >= Limits.resolutionInterval else {
      return []
    }
    state.resolution = .running
    return [.resolve]
  }

  /// Changes the state, then lets waiting calls profit.
  private func update(_ body: (inout State) -> [Action]) {
    let actions = state.withLock { state -> [Action] in
      var actions = body(&state)
      if !state.isClosed, !state.waiters.isEmpty {
        if state.ready.isEmpty { actions += Self.wakeIdle(&state) }
        actions += Self.settle(&state)
      }
      return actions
    }
    perform(actions)
  }

  // MARK: - Doing

  private func perform(_ actions: [Action]) {
    for action in actions {
      switch action {
      case .connect(let address): connect(address)
      case .resolve: resolve()
      case .resume(let waiter, let result): waiter.continuation.resume(returning: result)
      case .shutDown(let connection): connection.onEventLoop { connection.shutDown() }
      case .finishClose(let continuation): continuation.resume()
      case .retryLater(let address, let wait):
        configuration.group.any().scheduleTask(in: wait) { [weak self] in self?.rested(address) }
      case .resolveLater(let wait):
        configuration.group.any().scheduleTask(in: wait) { [weak self] in
          self?.update { state in
            if case .failed = state.resolution { state.resolution = .none }
            return []
          }
        }
      }
    }
  }

  private func rested(_ address: SocketAddress) {
    update { state in
      guard let index = state.entries.firstIndex(where: { $0.address == address }) else { return [] }
      if case .backingOff = state.entries[index].phase { state.entries[index].phase = .idle }
      return []
    }
  }

  private func connect(_ address: SocketAddress) {
    let loop = configuration.group.next()
    let connection = state.withLock { state -> ClientConnection? in
      guard
        !state.isClosed, let index = state.entries.firstIndex(where: { $0.address == address }),
        case .idle = state.entries[index].phase
      else { return nil }
      var settings = configuration.settings
      settings.keepalive = state.keepalive
      let connection = ClientConnection(eventLoop: loop, settings: settings, owner: self)
      state.entries[index].phase = .connecting(connection, since: .now())
      return connection
    }
    guard let connection else { return }
    let tls = configuration.tls
    let serverName = configuration.serverName
    ClientBootstrap(group: loop)
      .connectTimeout(configuration.settings.connectTimeout)
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          if let tls {
            let handler = try TLSHandler(client: tls, host: serverName, handshakeTimeout: Limits.connectTimeout)
            try channel.pipeline.syncOperations.addHandler(handler)
          }
          try channel.pipeline.syncOperations.addHandler(connection)
        }
      }
      .connect(to: address)
      .whenFailure { connection.failed($0) }
  }

  private func resolve() {
    let resolver = configuration.resolver
    let target = configuration.target
    // The look-up serves every call that waits, so it belongs to none of them.
    Task { [weak self] in
      let result: Result<[SocketAddress], AddressResolutionError>
      do throws(AddressResolutionError) {
        result = .success(try await resolver.resolve(target))
      } catch {
        result = .failure(error)
      }
      self?.resolved(result)
    }
  }

  private func resolved(_ result: Result<[SocketAddress], AddressResolutionError>) {
    let random = configuration.random()
    let backoff = configuration.backoff
    update { state in
      switch result {
      case .success(let addresses):
        state.resolution = .done(.now())
        state.resolutionFailures = 0
        return Self.adopt(addresses, &state)
      case .failure(let error):
        state.lastError = RPCError(.unavailable, "cannot resolve: \(error.reason)")
        // With addresses from before, those serve on.
        guard state.entries.isEmpty else {
          state.resolution = .done(.now())
          return []
        }
        state.resolution = .failed
        state.resolutionFailures += 1
        return [.resolveLater(TimeAmount(backoff.delay(failures: state.resolutionFailures, random: random)))]
      }
    }
  }

  /// Takes `addresses` for the target's: keeps what stays, lets go of what is gone.
  private static func adopt(_ addresses: [SocketAddress], _ state: inout State) -> [Action] {
    let addresses = addresses.prefix(Limits.addressesPerTarget)
    var actions: [Action] = []
    let old = state.entries
    state.entries = addresses.map { address in
      old.first { $0.address == address } ?? Entry(address: address)
    }
    for entry in old where !addresses.contains(entry.address) {
      switch entry.phase {
      case .connecting(let connection, _):
        actions.append(.shutDown(connection))
      case .ready(let connection, _):
        state.ready.removeAll { $0 === connection }
        state.draining.append(connection)
        actions.append(.shutDown(connection))
      case .idle, .backingOff:
        break
      }
    }
    return actions
  }
}
