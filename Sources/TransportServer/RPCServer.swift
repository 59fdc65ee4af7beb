package import Callers
package import GRPC
internal import Glibc
package import HTTP2
package import Logging
package import NIOCore
internal import NIOPosix
internal import Synchronization
package import TLS
internal import Transport

/// A port that serves RPCs over HTTP/2 and pages over HTTP/2 and HTTP/1.1.
///
///     let server = RPCServer(configuration: configuration, routes: routes, logger: logger)
///     let address = try await server.start()
///     …
///     await server.shutDown()
package final class RPCServer: Sendable {
  /// Encodes the machine-readable part of an error as `google.rpc.Status`; nil when it has none.
  package typealias StatusDetailsEncoder = @Sendable (RPCError) -> [UInt8]?

  package struct Configuration: Sendable {
    /// An IP address, or a name that resolves to one.
    package var host: String
    /// 0 takes a free port.
    package var port: Int
    /// Nil serves cleartext.
    package var tls: TLSServerContext?
    package var http2 = HTTP2.Limits()
    /// The longest that a call with one response may take. Longer than the longest long poll, which is 25 s.
    package var unaryTimeLimit: Duration? = .seconds(30)
    /// The longest that a stream may last; nil leaves it to the client.
    package var streamTimeLimit: Duration?
    /// The proxies that say for whom they ask.
    package var proxies = TrustedProxies()
    /// The web origins whose scripts may call and read pages.
    package var cors = CORSPolicy.none
    /// Whether responses are compressed for clients that can expand them, unless a call says otherwise.
    package var compressesResponses = false
    /// A connection without a call is closed after this.
    package var idleTimeout: TimeAmount = .minutes(5)
    /// A connection is drained when it is this old, give or take a tenth, so that load spreads to new instances; nil
    /// keeps it.
    package var maximumAge: TimeAmount? = .minutes(30)
    /// When a silent peer with open streams is asked for a sign of life, and how long it may take.
    package var keepalive = (
      interval: TimeAmount(standardKeepalive.interval), timeout: TimeAmount(standardKeepalive.timeout)
    )
    package static let standardKeepalive = (interval: Limits.keepaliveInterval, timeout: Limits.keepaliveTimeout)
    /// A connection of HTTP/2 whose socket takes none of our bytes is closed after this.
    package var stalledWriteTimeout = Limits.stalledWriteTimeout
    /// What all connections may use together.
    package var budget = ServerBudget.Bounds()
    /// How long calls may go on when their connection drains.
    package var drainGrace: TimeAmount = .seconds(30)

    package init(host: String, port: Int, tls: TLSServerContext? = nil) {
      self.host = host
      self.port = port
      self.tls = tls
    }

    func timeLimit(_ kind: RPCKind) -> Duration? {
      switch kind {
      case .unary, .clientStreaming: unaryTimeLimit
      case .serverStreaming, .bidirectional: streamTimeLimit
      }
    }
  }

  private struct State {
    /// When connections that do nothing were last asked to go.
    var lastPressure: NIODeadline?
    var listener: Listener?
    var connections: [ObjectIdentifier: any Channel] = [:]
    var isShuttingDown = false
    var whenEmpty: [CheckedContinuation<Void, Never>] = []
  }

  private let environment: ServerEnvironment
  private let places: LoopPlaces
  private let waitingRoom: WaitingRoom
  /// Of each event loop.
  private let turns: [ObjectIdentifier: LoopTurns]
  private let arrivals: [ObjectIdentifier: Arrivals]
  private let state = Mutex(State())

  /// - Parameters:
  ///   - group: the event loops to run on; one thread per core by default.
  ///   - crowd: those of sources with many connections. None: they share the others.
  ///   - pages: besides `/healthz`, which every port has.
  package init(
    configuration: Configuration,
    group: (any EventLoopGroup)? = nil,
    crowd: (any EventLoopGroup)? = nil,
    routes: [RPCRoute],
    interceptors: [any ServerInterceptor] = [],
    pages: [Page] = [],
    statusDetailsEncoder: @escaping StatusDetailsEncoder = { _ in nil },
    logger: Logger
  ) {
    let loops = Array((group ?? MultiThreadedEventLoopGroup.singleton).makeIterator())
    let crowd = crowd.map { Array($0.makeIterator()) } ?? []
    places = LoopPlaces(loops, crowdLoops: crowd)
    let turns = Dictionary((loops + crowd).map { (ObjectIdentifier($0), LoopTurns($0)) }) { first, _ in first }
    self.turns = turns
    environment = ServerEnvironment(
      configuration: configuration,
      router: Router(routes),
      interceptors: interceptors,
      pages: PageTable(pages + [.health], cors: configuration.cors),
      statusDetailsEncoder: statusDetailsEncoder,
      logger: logger
    )
    let room = WaitingRoom(capacity: max(environment.budget.bounds.arrivals, 2))
    let table = environment.budget.table
    waitingRoom = room
    arrivals = turns.mapValues { Arrivals($0, table, room) }
  }

  /// Binds and begins to serve. Answers the address, with the port that was taken.
  package func start() async throws -> SocketAddress {
    let listener = try await Listener.open(host: environment.configuration.host, port: environment.configuration.port)
    let isWelcome = state.withLock { state in
      guard !state.isShuttingDown else { return false }
      state.listener = listener
      let logger = environment.logger
      let tell = { @Sendable (shortage: String) in
        logger.warning("no connection is accepted while the system has too little", metadata: ["of": "\(shortage)"])
      }
      listener.start(isShort: tell) { [self] in receive($0) }
      return true
    }
    guard isWelcome else {
      await listener.close()
      throw ChannelError.alreadyClosed
    }
    return listener.address
  }

  /// Hands a connection that was accepted to an event loop. Where others have all places, it and those behind it wait until there
  /// is one; where its source has its part of them, it is closed.
  func receive(_ socket: AcceptedSocket) {
    let address = socket.address?.networkAddress
    let isShared = address.map { environment.configuration.proxies.trusts($0) } ?? false
    while true {
      let verdict = waitingRoom.enter(address?.source, isShared: isShared)
      if verdict == .granted { break }
      guard verdict == .full, !state.withLock({ $0.isShuttingDown }) else {
        environment.budget.connectionRefused()
        return socket.close()
      }
      usleep(useconds_t(Limits.waitForPlace.nanoseconds / 1000))
    }
    let (loop, place) = places.take(for: address?.source, isShared: isShared)
    loop.execute { [self] in
      arrivals[ObjectIdentifier(loop)]?.arrived(socket, isShared: isShared) { descriptor in
        let bootstrap = ClientBootstrap(group: loop).channelInitializer { channel in
          // Until then the place is taken.
          channel.closeFuture.whenComplete { _ in withExtendedLifetime(place) {} }
          return channel.eventLoop.makeCompletedFuture { try self.setUp(channel) }
        }
        // Closes it if the initializer throws.
        _ = bootstrap.withConnectedSocket(descriptor)
      }
    }
  }

  /// Gives a new connection its options and handlers. On its event loop, before anything is read.
  ///
  /// - Throws: it has to be closed, and whoever has made it does so.
  private func setUp(_ channel: any Channel) throws {
    // Whose peer has gone says no more who it was; what came from it may still be there.
    guard channel.remoteAddress != nil else { throw ChannelError.alreadyClosed }
    let place = register(channel)
    guard place != .none else { throw ChannelError.alreadyClosed }
    let turns = turns[ObjectIdentifier(channel.eventLoop)] ?? LoopTurns(channel.eventLoop)
    if let options = channel.syncOptions {
      try options.setOption(.allowRemoteHalfClosure, value: true)
      // One read each time the socket has bytes: a second one would mostly find nothing.
      try options.setOption(.maxMessagesPerRead, value: 1)
      let isCleartext = environment.configuration.tls == nil
      try options.setOption(.recvAllocator, value: ReadAllocator(isCleartext ? turns.readBuffers : nil))
    }
    let configuration = environment.configuration
    let pipeline = channel.pipeline.syncOperations
    let address = channel.remoteAddress?.networkAddress
    let executor = EventLoopTaskExecutor(turns, of: .address(address?.source))
    if let address, configuration.proxies.trusts(address) {
      let isRequired = configuration.proxies.requiresHeader
      try pipeline.addHandler(ProxyHeaderHandler(isRequired: isRequired, logger: environment.logger))
    }
    if let tls = configuration.tls {
      try pipeline.addHandler(TLSHandler(server: tls, handshakeTimeout: Limits.handshakeTimeout, turns: executor))
    }
    try pipeline.addHandler(
      ProtocolDetector(environment: environment, executor: executor, isTurnedAway: place == .doorstep))
  }

  /// Stops accepting, lets the calls that are under way finish within the grace of the configuration, and closes.
  package func shutDown() async {
    let (listener, connections) = state.withLock { state in
      state.isShuttingDown = true
      defer { state.listener = nil }
      return (state.listener, Array(state.connections.values))
    }
    await listener?.close()
    for arrivals in arrivals.values { try? await arrivals.end() }
    for connection in connections {
      connection.pipeline.fireUserInboundEventTriggered(ServerDrain())
    }
    await withCheckedContinuation { continuation in
      let isEmpty = state.withLock { state in
        if state.connections.isEmpty { return true }
        state.whenEmpty.append(continuation)
        return false
      }
      if isEmpty { continuation.resume() }
    }
    environment.budget.sources.forgetCancellers()
  }

  /// Asks connections that have done nothing for a while to make room, once in a while.
  private func askIdleToGo() {
    let now = NIODeadline.now()
    let connections = state.withLock { state -> [any Channel] in
      if let last = state.lastPressure, now - last < Limits.pressureInterval { return [] }
      state.lastPressure = now
      return Array(state.connections.values)
    }
    for (loop, connections) in Dictionary(grouping: connections, by: { ObjectIdentifier($0.eventLoop) }) {
      guard let turns = turns[loop] else { continue }
      turns.eventLoop.execute {
        turns.tellAll(connections) { $0.pipeline.fireUserInboundEventTriggered(ServerPressure()) }
      }
    }
  }

  /// The files that connections leave to everything else in this process, whatever their number.
  package static let spareFiles = Limits.spareFiles

  /// What the connections use together.
  package var usage: ServerBudget.Usage { environment.budget.usage }

  /// Connections that are open.
  package var connectionCount: Int { state.withLock { $0.connections.count } }

  private enum Place {
    case own
    /// For a moment, to be told that there is none.
    case doorstep
    case none
  }

  private func register(_ channel: any Channel) -> Place {
    let budget = environment.budget
    let table = budget.table
    var displaced: (any Channel)?
    switch table.admit(channel, from: channel.remoteAddress?.networkAddress) {
    case .admitted: break
    case .inPlaceOf(let other): displaced = other
    case .refused: return environment.turnAway(channel) && keep(channel, whenClosed: {}) ? .doorstep : .none
    }
    let isKept = keep(channel) {
      budget.connectionClosed()
      table.remove(channel)
    }
    guard isKept else {
      table.remove(channel)
      return .none
    }
    if budget.connectionOpened() { askIdleToGo() }
    if let displaced { environment.makeGo(displaced) }
    return .own
  }

  /// Remembers a connection until it is closed. False: the server is shutting down.
  private func keep(_ channel: any Channel, whenClosed: @escaping @Sendable () -> Void) -> Bool {
    let isWelcome = state.withLock { state in
      guard !state.isShuttingDown else { return false }
      state.connections[ObjectIdentifier(channel)] = channel
      return true
    }
    guard isWelcome else { return false }
    channel.closeFuture.whenComplete { [self] _ in
      whenClosed()
      let waiters = state.withLock { state in
        state.connections[ObjectIdentifier(channel)] = nil
        guard state.connections.isEmpty else { return [CheckedContinuation<Void, Never>]() }
        defer { state.whenEmpty = [] }
        return state.whenEmpty
      }
      for waiter in waiters { waiter.resume() }
    }
    return true
  }
}
