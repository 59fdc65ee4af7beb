internal import GRPC
internal import NIOCore
internal import NIOPosix
internal import Synchronization
internal import TLS
internal import Transport

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
      guard !state.isClosed, let connection = state.nextReady() else { return (nil, []) }
      return (connection, state.wakeIdle())
    }
    perform(actions)
    if let ready { return ready }
    return try await wait(waitForReady: waitForReady, deadline: deadline)
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
      if let deadline, deadline <= .now() { return [.resume(waiter, .failure(state.deadlineError))] }
      guard state.waiters.count < Limits.waitingCalls else {
        return [.resume(waiter, .failure(RPCError(.resourceExhausted, "too many calls wait for a connection")))]
      }
      state.waiters.append(waiter)
      return state.wakeIdle() + state.settle()
    }
    perform(actions)
  }

  private func giveUp(_ id: UInt64, _ code: StatusCode) {
    let actions = state.withLock { state -> [Action] in
      guard let index = state.waiters.firstIndex(where: { $0.id == id }) else { return [] }
      let waiter = state.waiters.remove(at: index)
      let error =
        code == .cancelled ? RPCError(.cancelled, "the call was cancelled") : state.deadlineError
      return [.resume(waiter, .failure(error))]
    }
    perform(actions)
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
      let connections = state.connections
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
        if state.connections.isEmpty { return true }
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
      return state.connections
    }
    for connection in connections {
      connection.onEventLoop { connection.close(RPCError(.unavailable, "the channel was given up")) }
    }
  }

  // MARK: - The connections' events

  func connectionOpened(_ connection: ClientConnection) {
    update { state in
      guard let index = state.index(of: connection) else { return [.shutDown(connection)] }
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
      guard let index = state.index(of: connection) else { return state.finishClose() }
      var actions: [Action] = []
      let pause = state.entries[index].end(hasAnswered: hasAnswered)
      if let pause {
        state.lastError = error
        let delay = backoff.delay(failures: pause.failures, random: random)
        let left = pause.start + TimeAmount(delay) - .now()
        actions.append(.retryLater(state.entries[index].address, after: max(left, .zero)))
      }
      return actions + state.resolveAgain() + state.finishClose()
    }
  }

  func connectionPingedTooOften(_ connection: ClientConnection) {
    // Source: gRPC "Client-side Keepalive", which doubles the interval.
    state.withLock { state in
      if let interval = state.keepalive?.interval { state.keepalive?.interval = interval * 2 }
    }
  }

  /// Changes the state, then lets waiting calls profit.
  private func update(_ body: (inout State) -> [Action]) {
    let actions = state.withLock { state -> [Action] in
      var actions = body(&state)
      if !state.isClosed, !state.waiters.isEmpty {
        if state.ready.isEmpty { actions += state.wakeIdle() }
        actions += state.settle()
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
        return state.adopt(addresses)
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

}
