import GRPC
import Logging
import NIOCore
import TLS

@testable import TransportServer

/// What the connections of a target share: calls of all four kinds, and pages.
enum FuzzedServer {
  static func environment(_ counter: CallCounter, tls: TLSServerContext? = nil) -> ServerEnvironment {
    let configuration = RPCServer.Configuration(host: "127.0.0.1", port: 0, tls: tls)
    return ServerEnvironment(
      configuration: configuration,
      router: Router(routes),
      interceptors: [counter],
      pages: PageTable([.health, formPage, waitingPage], cors: configuration.cors),
      statusDetailsEncoder: { _ in nil },
      logger: Logger(label: "fuzz") { _ in SwiftLogNoOpLogHandler() }
    )
  }

  private static let formPage = Page("POST", "/form") { request in PageResponse(body: request.body) }

  /// Waits for as long as anybody waits for it.
  private static let waitingPage = Page("GET", "/wait") { _ in
    // Ends when the task is cancelled.
    for await _ in AsyncStream<Void>.makeStream().stream {}
    return PageResponse(text: "nobody waits\n")
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
}
