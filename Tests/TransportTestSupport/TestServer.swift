package import GRPC
internal import Logging
package import NIOCore
package import Synchronization
package import TransportServer

/// A server on a free port of loopback, with routes that tests need.
package struct TestServer {
  package let server: RPCServer
  package let address: SocketAddress
  package let counters: Counters

  package final class Counters: Sendable {
    package let started = Atomic<Int>(0)
    package let cancelled = Atomic<Int>(0)
    /// Lets the calls of `/t.T/Stubborn` return.
    package let isReleased = Atomic<Bool>(false)
    package let finished = Mutex<[StatusCode]>([])
    package let bell = Bell()

    package init() {}
  }

  package struct Recorder: ServerInterceptor {
    let counters: Counters

    package init(counters: Counters) { self.counters = counters }

    package func willHandle(_ context: ServerContext) throws(RPCError) {
      if context.firstValue("x-refuse") != nil {
        throw RPCError(.unauthenticated, "refused", reason: "REFUSED")
      }
    }

    package func didFinish(_ context: ServerContext, status: StatusCode, duration: Duration) {
      counters.finished.withLock { $0.append(status) }
    }
  }

  package static func start(_ adjust: (inout RPCServer.Configuration) -> Void = { _ in }) async throws -> TestServer {
    var configuration = RPCServer.Configuration(host: "127.0.0.1", port: 0)
    adjust(&configuration)
    let counters = Counters()
    let server = RPCServer(
      configuration: configuration,
      routes: routes(counters),
      interceptors: [Recorder(counters: counters)],
      pages: [
        Page("GET", "/page") { request in PageResponse(text: "query \(request.query ?? "none")") },
        Page("GET", "/who") { request in PageResponse(text: "\(request.peerAddress)!") },
        Page("GET", "/cookie") { request in PageResponse(text: request.header("cookie") ?? "none") },
        Page("POST", "/form") { request in PageResponse(body: request.body) },
      ],
      statusDetailsEncoder: { error in error.details.reason.map { Array($0.utf8) } },
      logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    )
    return TestServer(server: server, address: try await server.start(), counters: counters)
  }

  /// Runs `body` against a fresh server and shuts it down.
  package static func run(
    _ adjust: (inout RPCServer.Configuration) -> Void = { _ in },
    _ body: (TestServer) async throws -> Void
  ) async throws {
    let server = try await start(adjust)
    do {
      try await body(server)
    } catch {
      await server.server.shutDown()
      throw error
    }
    await server.server.shutDown()
  }

  package static func routes(_ counters: Counters) -> [RPCRoute] {
    [
      .unary(RPCMethod(path: "/t.T/Echo", kind: .unary)) { (request: Blob, context) async throws(RPCError) -> Blob in
        if let value = context.metadata["x-echo"] { context.addInitialMetadata(["x-echo": value]) }
        if let value = context.metadata.firstBinary("x-echo-bin") {
          var metadata = Metadata()
          metadata.add("x-echo-bin", binary: value)
          context.addTrailingMetadata(metadata)
        }
        return request
      },
      .unary(RPCMethod(path: "/t.T/Who", kind: .unary)) { (_: Blob, context) async throws(RPCError) -> Blob in
        Blob(Array(context.peer.address.utf8))
      },
      .unary(RPCMethod(path: "/t.T/Yield", kind: .unary)) { (request: Blob, _) async throws(RPCError) -> Blob in
        await Task.yield()
        return request
      },
      .unary(RPCMethod(path: "/t.T/Fail", kind: .unary)) { (_: Blob, context) async throws(RPCError) -> Blob in
        context.addTrailingMetadata(["x-why": "because\r\nbad: 1", "x-good": "yes"])
        throw RPCError(.notFound, "nöt\nhere", reason: "GONE")
      },
      .unary(RPCMethod(path: "/t.T/Wait", kind: .unary)) { (_: Blob, _) async throws(RPCError) -> Blob in
        counters.started.add(1, ordering: .relaxed)
        do {
          try await Task.sleep(for: .seconds(60))
        } catch {
          counters.cancelled.add(1, ordering: .relaxed)
        }
        throw RPCError(.cancelled, "")
      },
      .unary(RPCMethod(path: "/t.T/Stubborn", kind: .unary)) { (request: Blob, _) async throws(RPCError) -> Blob in
        counters.started.add(1, ordering: .relaxed)
        // A task of its own hears nothing of the call's cancellation.
        while !counters.isReleased.load(ordering: .relaxed) {
          await Task { try? await Task.sleep(for: .milliseconds(5)) }.value
        }
        return request
      },
      .unary(RPCMethod(path: "/t.T/Pause", kind: .unary)) { (request: Blob, _) async throws(RPCError) -> Blob in
        counters.started.add(1, ordering: .relaxed)
        try? await Task.sleep(for: .milliseconds(200))
        return request
      },
      .serverStreaming(RPCMethod(path: "/t.T/Many", kind: .serverStreaming)) {
        (request: Blob, writer: ResponseWriter<Blob>, _) async throws(RPCError) in
        for index in 0..<100 {
          try await writer.write(Blob([UInt8](repeating: UInt8(index), count: 5000)))
          counters.started.add(1, ordering: .relaxed)
        }
        if request.bytes.first == 1 { throw RPCError(.dataLoss, "after all") }
      },
      .serverStreaming(RPCMethod(path: "/t.T/Large", kind: .serverStreaming)) {
        (_: Blob, writer: ResponseWriter<Blob>, _) async throws(RPCError) in
        // Each more than an outbox takes beside another one.
        for index in 0..<5 { try await writer.write(Blob([UInt8](repeating: UInt8(index), count: 70_000))) }
        try await writer.taken()
      },
      .serverStreaming(RPCMethod(path: "/t.T/Listen", kind: .serverStreaming)) {
        (_: Blob, writer: ResponseWriter<Blob>, _) async throws(RPCError) in
        try await writer.serve(Bell.Listener(counters.bell, writer))
        counters.started.add(1, ordering: .relaxed)
      },
      RPCRoute.unary(RPCMethod(path: "/t.T/Probe", kind: .unary)) { (_: Blob, _) async throws(RPCError) -> Blob in
        Blob([1])
      }.essential(),
      .unary(RPCMethod(path: "/t.T/Squeeze", kind: .unary)) { (request: Blob, context) async throws(RPCError) -> Blob in
        // The first byte: whether the request came compressed, then whether the answer is to go compressed.
        context.compressesResponses = request.bytes.first == 1
        return Blob([context.wasRequestCompressed ? 1 : 0] + request.bytes.dropFirst())
      },
      .bidirectional(RPCMethod(path: "/t.T/Alternate", kind: .bidirectional)) {
        (requests: RequestStream<Blob>, writer: ResponseWriter<Blob>, context) async throws(RPCError) in
        context.compressesResponses = true
        var isCompressed = true
        var iterator = requests.makeAsyncIterator()
        while let request = try await iterator.next() {
          try await writer.write(
            Blob([iterator.wasCompressed ? 1 : 0] + request.bytes.dropFirst()),
            compressed: isCompressed
          )
          isCompressed.toggle()
        }
      },
      .clientStreaming(RPCMethod(path: "/t.T/Sum", kind: .clientStreaming)) {
        (requests: RequestStream<Blob>, _) async throws(RPCError) -> Blob in
        var total = 0
        for try await request in requests { total += request.bytes.count }
        return Blob(Array(String(total).utf8))
      },
      .clientStreaming(RPCMethod(path: "/t.T/Refuse", kind: .clientStreaming)) {
        (_: RequestStream<Blob>, _) async throws(RPCError) -> Blob in
        counters.started.add(1, ordering: .relaxed)
        throw RPCError(.permissionDenied, "nobody reads it")
      },
      .bidirectional(RPCMethod(path: "/t.T/PingPong", kind: .bidirectional)) {
        (requests: RequestStream<Blob>, writer: ResponseWriter<Blob>, _) async throws(RPCError) in
        for try await request in requests { try await writer.write(request) }
      },
    ]
  }
}
