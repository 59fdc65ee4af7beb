internal import CoreMetrics
internal import GRPC
internal import Glibc
internal import LatchkeyModel
internal import LatchkeyProtos
internal import Logging
internal import NIOCore
internal import NIOPosix
internal import ServiceLifecycle
internal import TLS
internal import TransportServer
internal import UnixSignals

/// Runs a service from its command line to its exit status. The whole of a `main.swift`:
///
///     await ServiceProcess.main(description) { resources in try await makeService(resources) }
///
/// SIGTERM and SIGINT drain: health says NOT_SERVING, calls under way finish within `drainTimeout`, background tasks
/// are cancelled, databases close, and the process ends with 0.
package enum ServiceProcess {
  package typealias Make = @Sendable (ServiceResources) async throws -> ServiceParts

  /// Never returns. Exit status: 0 after a shutdown that was asked for, 78 for a bad configuration, 1 for any other
  /// reason not to start or to go on, and for a service that does not serve when `--check-health` asks.
  package static func main(_ service: ServiceDescription, make: @escaping Make) async -> Never {
    StandardStream.open()
    HeldSignals.hold()
    // A peer that hangs up is an error of one write, not the end of the process.
    signal(SIGPIPE, SIG_IGN)
    // Until somebody listens for it; by default it would end the process.
    signal(SIGHUP, SIG_IGN)
    do throws(StartupError) {
      switch try invocation(service) {
      case .show(let text): StandardStream.show(text)
      case .probe(let configuration): try await HealthProbe.run(configuration)
      case .run(let configuration):
        let metrics = PrometheusRegistry()
        MetricsSystem.bootstrap(metrics)
        try await run(service, configuration, metrics: metrics, handlesSignals: true, make: make)
      }
      end(0)
    } catch {
      StandardStream.complain("\(service.name): \(error)")
      end(error.exitStatus)
    }
  }

  /// Ends the process without its exit handlers: threads of event loops and of libraries are still there, and OpenSSL's
  /// handler would take from under them what they use.
  static func end(_ status: Int32) -> Never {
    StandardStream.finish()
    fflush(nil)
    _exit(status)
  }

  private static func invocation(_ service: ServiceDescription) throws(StartupError) -> ServiceInvocation {
    do throws(ConfigurationError) {
      return try ServiceInvocation(
        service,
        arguments: Array(CommandLine.arguments.dropFirst()),
        environment: ProcessEnvironment.variables
      )
    } catch {
      throw StartupError(error)
    }
  }

  /// Runs until shutdown.
  ///
  /// - Parameters:
  ///   - handlesSignals: whether SIGTERM and SIGINT end the service.
  ///   - onReady: called when the ports listen, in addition to standard output and the ports file.
  static func run(
    _ service: ServiceDescription,
    _ configuration: ServiceConfiguration,
    metrics: PrometheusRegistry,
    handlesSignals: Bool,
    logger: Logger? = nil,
    onReady: @Sendable (RunningService) -> Void = { _ in },
    make: Make
  ) async throws(StartupError) {
    let logger = logger ?? Self.logger(service, configuration)
    if configuration[CommonKeys.development] {
      logger.notice("this is a service for development: its limits leave out what one person's tests run into")
    }
    let (eventLoops, crowdLoops) = loops(configuration)
    defer { for group in [eventLoops, crowdLoops] { group.shutdownGracefully { _ in } } }
    try DataDirectory.prepare(configuration.dataDirectory)
    let token = try serviceToken(configuration)
    let policies = try policyFile(configuration, logger)
    let tls = try TLSContexts(TLSFiles(configuration), logger: logger)
    let channels = OutgoingChannels(
      configuration, token: token, tls: tls.client, eventLoops: eventLoops, logger: logger)
    let horizon = ProofHorizon(
      path: "\(configuration.dataDirectory)/\(service.name).proofs", clock: SystemClock(), logger: logger)
    let resources = ServiceResources(
      configuration: configuration,
      cells: service.cells(configuration),
      logger: logger,
      clock: SystemClock(),
      metrics: metrics,
      policies: policies,
      eventLoops: eventLoops,
      crowdLoops: crowdLoops,
      revocations: RevocationFeed(
        identity: channels[.identity], cell: service.cells(configuration).identity, logger: logger),
      // What one instance took another does not know; but a nonce is of one process.
      proofs: DPoPVerifier(
        needsNonces: configuration[CommonKeys.proofNonces] || configuration.sharesStorage, horizon: horizon),
      channels: channels
    )
    let parts: ServiceParts
    do {
      parts = try await make(resources)
    } catch {
      await channels.close()
      throw StartupError("cannot start", error)
    }
    do throws(StartupError) {
      try await serve(
        service, parts, resources, horizon: horizon, tls: tls, token: token, handlesSignals: handlesSignals,
        onReady: onReady)
    } catch {
      await parts.close()
      await channels.close()
      throw error
    }
    await parts.close()
    await channels.close()
    logger.info("stopped")
  }

  /// Those that everybody uses, and those of crowds: as many, so that a crowd which is alone has all cores, unless there are very
  /// many.
  private static func loops(
    _ configuration: ServiceConfiguration
  ) -> (everybody: MultiThreadedEventLoopGroup, crowds: MultiThreadedEventLoopGroup) {
    let count = loopCount(configuration)
    return (
      MultiThreadedEventLoopGroup(numberOfThreads: count.everybody),
      MultiThreadedEventLoopGroup(numberOfThreads: count.crowds)
    )
  }

  private static func loopCount(_ configuration: ServiceConfiguration) -> (everybody: Int, crowds: Int) {
    let wanted = configuration[CommonKeys.threads]
    let threads = wanted > 0 ? wanted : Cores.usable
    return (threads, min(threads, Limits.crowdLoops))
  }

  private static func serve(
    _ service: ServiceDescription,
    _ parts: ServiceParts,
    _ resources: ServiceResources,
    horizon: ProofHorizon,
    tls: TLSContexts,
    token: ServiceToken?,
    handlesSignals: Bool,
    onReady: @Sendable (RunningService) -> Void
  ) async throws(StartupError) {
    let (configuration, logger) = (resources.configuration, resources.logger)
    var tasks = parts.tasks + [BackgroundTask("policy document") { await resources.policies.run() }]
    tasks.append(BackgroundTask("freed memory") { await FreedMemory().run() })
    tasks.append(BackgroundTask("proof horizon") { await horizon.run() })
    let trust = Trust(parts, resources)
    tasks += trust.tasks
    let health = HealthService(services: healthNames(parts.routes))
    let readiness = ReadinessMonitor(health: health, obstacles: [parts.obstacle] + trust.obstacles)
    tasks.append(BackgroundTask("readiness monitor") { await readiness.run() })
    parts.membership?.serves { readiness.obstacle == nil }
    tasks.append(BackgroundTask("TLS files") { await tls.run() })
    if handlesSignals { tasks.append(reloading(tls, parts)) }

    let server = try grpcServer(
      service, parts, resources, tls: tls.server, health: health, trust: trust, token: token)
    let management = managementServer(resources, health: health, readiness: readiness)
    resources.metrics.observeProcess(service.name)
    resources.metrics.observe { server.usage }
    // Before anything listens: whoever sees the ports may ask for the end at once. Held to the end, so that a second
    // signal does not cut the drain short.
    let stopSignals = handlesSignals ? await StopSignals() : nil
    HeldSignals.release()
    defer { withExtendedLifetime(stopSignals) {} }
    let (grpcAddress, managementAddress) = try await listen(server, management, configuration)
    // The lifecycle ends them in the reverse order: the ports first, so that calls still find the tasks at work.
    let serving = ServingService(
      server: server,
      management: management,
      readiness: readiness,
      drainTimeout: configuration[CommonKeys.drainTimeout],
      drain: parts.drain,
      logger: logger
    )
    let group = ServiceGroup(
      configuration: lifecycle(
        (stopSignals.map { [$0.service] } ?? []) + tasks.map(\.service) + [.init(service: serving)],
        logger: logger
      )
    )
    readiness.start()
    StandardStream.show("\(service.name) listens on \(grpcAddress), management on \(managementAddress)")
    onReady(
      RunningService(grpc: grpcAddress, management: managementAddress) { await group.triggerGracefulShutdown() }
    )
    do {
      try await group.run()
    } catch {
      throw StartupError("stopped", error)
    }
  }

  /// What tokens are verified by, and what it takes to know it.
  private struct Trust {
    let keys: any VerificationKeys
    let sessions: any SessionAuthority
    var tasks: [BackgroundTask] = []
    var obstacles: [@Sendable () -> String?] = []

    init(_ parts: ServiceParts, _ resources: ServiceResources) {
      switch parts.tokenKeys {
      case .fetched:
        let cache = JWKSCache(identity: resources.channel(to: .identity), logger: resources.logger)
        keys = cache
        tasks.append(BackgroundTask("key fetcher") { await cache.run() })
        obstacles.append { cache.current == nil ? "the keys of the identity service are not known yet" : nil }
      case .own(let own): keys = own
      }
      if let own = parts.sessions {
        sessions = own
      } else {
        let feed = resources.revocations
        sessions = feed
        tasks.append(BackgroundTask("revocation feed") { await feed.run() })
        if resources.configuration.sharesStorage {
          let follower = PolicyFollower(
            identity: resources.channel(to: .identity), policies: resources.policies, logger: resources.logger)
          tasks.append(BackgroundTask("policies of identity") { await follower.run() })
          obstacles.append { follower.isKnown ? nil : "the policies are not known yet" }
        }
        obstacles.append {
          if feed.isCurrent { return nil }
          return feed.hasBegun ? "which sessions ended is not known" : "the ended sessions are not known yet"
        }
      }
    }
  }

  private static func reloading(_ tls: TLSContexts, _ parts: ServiceParts) -> BackgroundTask {
    BackgroundTask("SIGHUP") { [reload = parts.reload] in
      for await _ in await UnixSignalsSequence(trapping: .sighup) {
        tls.reload()
        reload()
      }
    }
  }

  private static func listen(
    _ server: RPCServer, _ management: RPCServer, _ configuration: ServiceConfiguration
  ) async throws(StartupError) -> (grpc: Endpoint, management: Endpoint) {
    let grpc = try await start(server, configuration.listen)
    do throws(StartupError) {
      let management = try await start(management, configuration.management)
      if let path = configuration[CommonKeys.portsFile] {
        try PortsFile.write(path, grpc: grpc, management: management)
      }
      return (grpc, management)
    } catch {
      await server.shutDown()
      throw error
    }
  }

  private static func lifecycle(
    _ services: [ServiceGroupConfiguration.ServiceConfiguration],
    logger: Logger
  ) -> ServiceGroupConfiguration {
    var quiet = logger
    quiet.logLevel = max(logger.logLevel, .warning)
    return ServiceGroupConfiguration(services: services, logger: quiet)
  }

  private static func grpcServer(
    _ service: ServiceDescription,
    _ parts: ServiceParts,
    _ resources: ServiceResources,
    tls: TLSServerContext?,
    health: HealthService,
    trust: Trust,
    token: ServiceToken?
  ) throws(StartupError) -> RPCServer {
    let configuration = resources.configuration
    // A probe that asks is answered whatever the load, and soon; one that watches waits, as any other call.
    let probes = HealthV1.healthRoutes(health).map {
      $0.method.kind == .unary ? $0.essential().limited(time: Limits.probeTime) : $0
    }
    let served = parts.routes + probes
    let routes = served + ReflectionRoutes.describing(served)
    let policies = parts.policies + openPolicies
    for route in routes where policies[route.method] == nil {
      preconditionFailure("\(route.method.path) has no access policy")
    }
    let authenticator = TokenAuthenticator(
      keys: trust.keys,
      issuer: configuration[CommonKeys.issuer],
      audience: service.name,
      cell: resources.cells.identity,
      clock: resources.clock,
      sessions: trust.sessions
    )
    return RPCServer(
      configuration: transport(configuration, tls, resources.logger),
      group: resources.eventLoops,
      crowd: resources.crowdLoops,
      routes: routes,
      interceptors: parts.observers + [
        MetricsInterceptor(methods: routes.map(\.method), factory: resources.metrics),
        CallLogInterceptor(logger: resources.logger, clock: resources.clock),
        AppVersionInterceptor(policies: resources.policies),
        AuthenticationInterceptor(
          policies: policies,
          tokens: authenticator,
          serviceToken: token,
          certificateNames: token == nil ? configuration[CommonKeys.certificateNames] : nil,
          stepUp: StepUpPolicy(maximumAge: configuration[CommonKeys.stepUpAge]),
          proofs: resources.proofs
        ),
      ] + parts.interceptors,
      pages: parts.pages,
      statusDetailsEncoder: { StatusDetails.encode($0) },
      logger: resources.logger
    )
  }

  /// Who may call what every service serves.
  private static var openPolicies: AccessPolicies {
    AccessPolicies(HealthV1.HealthMethod.self) { method in
      switch method {
      case .check, .watch: .open
      }
    }
      + AccessPolicies(ReflectionV1.ServerReflectionMethod.self) {
        switch $0 {
        case .serverReflectionInfo: .open
        }
      }
      + AccessPolicies(ReflectionV1Alpha.ServerReflectionMethod.self) {
        switch $0 {
        case .serverReflectionInfo: .open
        }
      }
  }

  private static func transport(
    _ configuration: ServiceConfiguration, _ tls: TLSServerContext?, _ logger: Logger
  ) -> RPCServer.Configuration {
    var transport = RPCServer.Configuration(
      host: configuration.listen.host,
      port: configuration.listen.port,
      tls: tls
    )
    transport.drainGrace = TimeAmount(configuration[CommonKeys.drainTimeout])
    transport.keepalive = (
      interval: TimeAmount(configuration[CommonKeys.keepaliveInterval]),
      timeout: TimeAmount(configuration[CommonKeys.keepaliveTimeout])
    )
    let wanted = configuration[CommonKeys.connectionLimit]
    let files = OpenFiles.raiseLimit()
    let loops = loopCount(configuration)
    (transport.budget.connections, transport.budget.arrivals) = OpenFiles.connections(
      wanted: wanted, limit: files, loops: loops.everybody + loops.crowds)
    let others = Limits.reservedFiles + transport.budget.arrivals
    OpenFiles.makeRoom(for: min(transport.budget.connections + others, files))
    if transport.budget.connections < wanted {
      // Nobody asked for the default: a machine that allows a little less is no reason to worry.
      let isAskedFor = wanted != ServerBudget.Bounds().connections
      logger.log(
        level: isAskedFor ? .warning : .info,
        "fewer connections than limits.connections says: the limit on open files is lower",
        metadata: ["open_files": "\(files)", "connections": "\(transport.budget.connections)"]
      )
    }
    transport.budget.calls = configuration[CommonKeys.callLimit]
    transport.proxies = configuration.proxies
    transport.cors = configuration[CommonKeys.corsOrigins]
    transport.compressesResponses = configuration[CommonKeys.compressResponses]
    return transport
  }

  static func managementServer(
    _ resources: ServiceResources,
    health: HealthService,
    readiness: ReadinessMonitor
  ) -> RPCServer {
    let endpoint = resources.configuration.management
    var transport = RPCServer.Configuration(host: endpoint.host, port: endpoint.port)
    transport.drainGrace = TimeAmount(Limits.managementDrain)
    transport.budget.connections = Limits.managementConnections
    transport.budget.arrivals = Limits.managementConnections
    return RPCServer(
      configuration: transport,
      group: resources.eventLoops,
      // With places of its own: strangers at the other port take none of those who watch from within.
      routes: HealthV1.healthRoutes(health.atAnotherPort()),
      pages: ManagementPages.make(metrics: resources.metrics, readiness: readiness),
      statusDetailsEncoder: { StatusDetails.encode($0) },
      logger: resources.logger
    )
  }

  static func start(_ server: RPCServer, _ wanted: Endpoint) async throws(StartupError) -> Endpoint {
    do {
      let address = try await server.start()
      return Endpoint(host: address.ipAddress ?? wanted.host, port: address.port ?? wanted.port)
    } catch {
      throw StartupError("cannot listen on \(wanted)", error)
    }
  }

  /// The services whose methods are routed, for the health protocol.
  private static func healthNames(_ routes: [RPCRoute]) -> [String] {
    Set(routes.compactMap { $0.method.path.split(separator: "/").first.map(String.init) }).sorted()
  }

  /// The services' shared secret; nil where they prove themselves by certificate.
  private static func serviceToken(_ configuration: ServiceConfiguration) throws(StartupError) -> ServiceToken? {
    guard configuration[CommonKeys.serviceAuthentication] == .token else { return nil }
    do throws(ConfigurationError) {
      try configuration.requireMounted(configuration.serviceTokenFile)
      return try ServiceToken.load(configuration.serviceTokenFile)
    } catch {
      throw StartupError(error)
    }
  }

  private static func policyFile(
    _ configuration: ServiceConfiguration, _ logger: Logger
  ) throws(StartupError) -> PolicyFile {
    do throws(ConfigurationError) {
      return try PolicyFile(path: configuration.policyFile, logger: logger)
    } catch {
      throw StartupError(error)
    }
  }
}
