import GRPC
import Logging
import NIOCore
import NIOEmbedded
import Synchronization

@testable import Transport

/// A whole connection of a server, from its first byte: HTTP/2, HTTP/1.1, calls of all four kinds and pages.
struct ConnectionTarget: FuzzTarget {
  let name = "connection"

  func run(_ input: UnsafeRawBufferPointer) {
    let counter = Counter()
    let configuration = RPCServer.Configuration(host: "127.0.0.1", port: 0)
    let environment = ServerEnvironment(
      configuration: configuration,
      router: Router(Self.routes),
      interceptors: [counter],
      pages: PageTable(
        [.health, Page("POST", "/form") { request in PageResponse(body: request.body) }],
        cors: configuration.cors
      ),
      statusDetailsEncoder: { _ in nil },
      logger: Logger(label: "fuzz") { _ in SwiftLogNoOpLogHandler() }
    )
    let channel = EmbeddedChannel()
    let executor = EventLoopTaskExecutor(channel.embeddedEventLoop)
    do {
      try channel.pipeline.syncOperations.addHandler(ProtocolDetector(environment: environment, executor: executor))
      try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    } catch {
      preconditionFailure("no channel: \(error)")
    }
    unsafe input.forEachPiece { piece in
      guard channel.isActive else { return }
      // Copied into the buffer. What the pipeline throws is the peer's fault and ends the connection.
      _ = unsafe try? channel.writeInbound(ByteBuffer(bytes: piece))
      channel.embeddedEventLoop.advanceTime(by: .milliseconds(1))
      drain(channel)
    }
    _ = try? channel.finish(acceptAlreadyClosed: true)
    channel.embeddedEventLoop.run()
    precondition(counter.started == counter.finished, "a call that never finished")
  }

  private func drain(_ channel: EmbeddedChannel) {
    var total = 0
    while let buffer = (try? channel.readOutbound(as: ByteBuffer.self)) ?? nil { total += buffer.readableBytes }
    precondition(total <= 4 * 1024 * 1024, "one small piece was answered with megabytes")
  }

  private static let routes: [RPCRoute] = [
    .unary(RPCMethod(path: "/t.T/Echo", kind: .unary)) { (request: Blob, _) async throws(RPCError) -> Blob in request },
    .serverStreaming(RPCMethod(path: "/t.T/Many", kind: .serverStreaming)) {
      (request: Blob, writer: ResponseWriter<Blob>, context) async throws(RPCError) in
      context.compressesResponses = true
      for _ in 0..<(request.bytes.first ?? 0) { try await writer.write(request) }
    },
    .clientStreaming(RPCMethod(path: "/t.T/Sum", kind: .clientStreaming)) {
      (requests: RequestStream<Blob>, _) async throws(RPCError) -> Blob in
      var last = Blob(bytes: [])
      for try await request in requests { last = request }
      return last
    },
    .bidirectional(RPCMethod(path: "/t.T/PingPong", kind: .bidirectional)) {
      (requests: RequestStream<Blob>, writer: ResponseWriter<Blob>, _) async throws(RPCError) in
      for try await request in requests { try await writer.write(request) }
    },
  ]

  /// A message that is its own bytes.
  private struct Blob: RPCMessage {
    var bytes: [UInt8]

    init(bytes: [UInt8]) {
      self.bytes = bytes
    }

    init(decoding bytes: UnsafeRawBufferPointer) throws(RPCError) {
      // Copied.
      self.bytes = unsafe Array(bytes)
    }

    func encode(into buffer: inout ByteBuffer) throws(RPCError) {
      buffer.writeBytes(bytes)
    }
  }

  private final class Counter: ServerInterceptor {
    private let state = Mutex((started: 0, finished: 0))

    var started: Int { state.withLock { $0.started } }
    var finished: Int { state.withLock { $0.finished } }

    func willHandle(_ context: ServerContext) throws(RPCError) { state.withLock { $0.started += 1 } }

    func didFinish(_ context: ServerContext, status: StatusCode, duration: Duration) {
      state.withLock { $0.finished += 1 }
    }
  }
}
