import HTTP2
import NIOCore
import NIOPosix
import Synchronization
import TransportTestSupport

@testable import TransportClient

/// A server on a free port of loopback whose every answer a test decides.
final class ScriptedPeer: Sendable {
  /// One request whose fields, and body where `atEnd` is set, are complete.
  struct Exchange {
    let connection: Connection
    let stream: HTTP2Stream
    let fields: [String: String]
    let body: [UInt8]
    /// Which request this is, over all connections, from 1.
    let number: Int
    /// Which connection it came on, from 1.
    let connectionNumber: Int

    func respond(_ fields: KeyValuePairs<StaticString, String>, endStream: Bool = false) {
      var list = HTTP2FieldList()
      for (name, value) in fields { list.add(name, value) }
      connection.session?.respond(stream, list, endStream: endStream)
    }

    func write(_ bytes: [UInt8]) {
      connection.session?.write(stream, ByteBuffer(bytes: bytes))
    }

    func finish(_ trailers: KeyValuePairs<StaticString, String>) {
      var list = HTTP2FieldList()
      for (name, value) in trailers { list.add(name, value) }
      connection.session?.finish(stream, trailers: list)
    }

    /// A whole good answer.
    func answer(_ message: [UInt8]) {
      respond([":status": "200", "content-type": "application/grpc"])
      write(Blob(message).frame)
      finish(["grpc-status": "0"])
    }

    /// Trailers-Only.
    func fail(_ status: Int, _ message: String = "", pushback: String? = nil) {
      if let pushback {
        respond(
          [
            ":status": "200", "content-type": "application/grpc", "grpc-status": String(status),
            "grpc-message": message, "grpc-retry-pushback-ms": pushback,
          ],
          endStream: true
        )
      } else {
        respond(
          [
            ":status": "200", "content-type": "application/grpc", "grpc-status": String(status),
            "grpc-message": message,
          ],
          endStream: true
        )
      }
    }

    func reset(_ code: HTTP2ErrorCode) {
      connection.session?.reset(stream, code)
    }
  }

  typealias Script = @Sendable (Exchange) -> Void

  /// One accepted connection, on its event loop.
  final class Connection: ChannelInboundHandler, HTTP2ServerSessionDelegate, @unchecked Sendable {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    let peer: ScriptedPeer
    let number: Int
    private(set) var session: HTTP2ServerSession?
    private var context: ChannelHandlerContext?

    init(_ peer: ScriptedPeer, number: Int) {
      self.peer = peer
      self.number = number
    }

    func handlerAdded(context: ChannelHandlerContext) {
      self.context = context
      peer.channels.withLock { $0.append(context.channel) }
      var limits = HTTP2.Limits()
      limits.concurrentStreams = peer.concurrentStreams
      session = try? HTTP2ServerSession(limits: limits, allocator: context.channel.allocator, now: .now())
      session?.delegate = self
    }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelActive(context: ChannelHandlerContext) {
      if peer.turnsAway.load(ordering: .relaxed) { goAway() }
      flush()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      unsafe unwrapInboundIn(data).withUnsafeReadableBytes { unsafe session?.receive($0, now: .now()) }
      flush()
    }

    func channelInactive(context: ChannelHandlerContext) {
      session?.abandon()
    }

    func flush() {
      guard let session, let context, peer.answers.load(ordering: .relaxed) else { return }
      session.produce()
      let output = session.output
      session.output = ByteBuffer()
      if output.readableBytes > 0 { context.writeAndFlush(wrapOutboundOut(output), promise: nil) }
    }

    func close() { context?.close(promise: nil) }

    /// Tells the client to go elsewhere, having seen what it has seen so far.
    func goAway() { session?.shutDown() }

    func session(_ session: HTTP2ServerSession, received block: HTTP2RequestBlock) {}

    func session(
      _ session: HTTP2ServerSession,
      answersDirectly stream: HTTP2Stream,
      _ block: HTTP2RequestBlock,
      _ body: UnsafeRawBufferPointer
    ) -> Bool { false }

    func session(
      _ session: HTTP2ServerSession,
      opened stream: HTTP2Stream,
      _ block: HTTP2RequestBlock
    ) -> any HTTP2StreamHandler {
      let request = Request(self)
      unsafe block.forEach { name, value in
        unsafe request.fields[String(decoding: name, as: UTF8.self)] = String(decoding: value, as: UTF8.self)
        return true
      }
      if !peer.atEnd { request.run(stream) }
      return request
    }

    func session(_ session: HTTP2ServerSession, receivedSettings acknowledged: Bool) {}

    func session(_ session: HTTP2ServerSession, receivedPing payload: UInt64, acknowledged: Bool) {
      if !acknowledged { peer.pings.add(1, ordering: .relaxed) }
    }
  }

  private final class Request: HTTP2StreamHandler {
    let connection: Connection
    var fields: [String: String] = [:]
    var body: [UInt8] = []

    init(_ connection: Connection) { self.connection = connection }

    func stream(_ stream: HTTP2Stream, completedFields block: HTTP2FieldBlock) {}
    func stream(_ stream: HTTP2Stream, receivedData bytes: UnsafeRawBufferPointer) {
      unsafe body.append(contentsOf: bytes)
      connection.session?.consume(stream, bytes.count)
    }
    func streamReceivedEnd(_ stream: HTTP2Stream) {
      if connection.peer.atEnd { run(stream) }
    }
    func stream(_ stream: HTTP2Stream, wrote bytes: Int) {}
    func stream(_ stream: HTTP2Stream, closed code: HTTP2ErrorCode) {
      if code == .cancel { connection.peer.cancelled.add(1, ordering: .relaxed) }
    }

    func run(_ stream: HTTP2Stream) {
      let number = connection.peer.requests.wrappingAdd(1, ordering: .relaxed).newValue
      connection.peer.script(
        Exchange(
          connection: connection,
          stream: stream,
          fields: fields,
          body: body,
          number: number,
          connectionNumber: connection.number
        )
      )
    }
  }

  let script: Script
  let atEnd: Bool
  let concurrentStreams: UInt32
  let requests = Atomic<Int>(0)
  let connections = Atomic<Int>(0)
  let cancelled = Atomic<Int>(0)
  let pings = Atomic<Int>(0)
  /// Off: the peer reads and says nothing.
  let answers = Atomic<Bool>(true)
  /// On: every connection begins with GOAWAY.
  let turnsAway = Atomic<Bool>(false)
  let channels = Mutex<[any Channel]>([])
  private let listener = Mutex<(any Channel)?>(nil)

  private init(atEnd: Bool, concurrentStreams: UInt32, _ script: @escaping Script) {
    self.atEnd = atEnd
    self.concurrentStreams = concurrentStreams
    self.script = script
  }

  /// Runs `body` against a peer that answers by `script`, and takes the peer down.
  static func run(
    atEnd: Bool = true,
    concurrentStreams: UInt32 = 100,
    _ script: @escaping Script,
    _ body: (ScriptedPeer, ChannelTarget) async throws -> Void
  ) async throws {
    let peer = ScriptedPeer(atEnd: atEnd, concurrentStreams: concurrentStreams, script)
    let target = try await peer.listen()
    do {
      try await body(peer, target)
    } catch {
      await peer.stop()
      throw error
    }
    await peer.stop()
  }

  @discardableResult
  func listen(port: Int = 0) async throws -> ChannelTarget {
    let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          let number = self.connections.wrappingAdd(1, ordering: .relaxed).newValue
          try channel.pipeline.syncOperations.addHandler(Connection(self, number: number))
        }
      }
      .bind(host: "127.0.0.1", port: port).get()
    listener.withLock { $0 = channel }
    return ChannelTarget(host: "127.0.0.1", port: channel.localAddress?.port ?? 0)
  }

  /// Stops listening and cuts every connection.
  func stop() async {
    let (listener, channels) = (self.listener.withLock { $0 }, self.channels.withLock { $0 })
    try? await listener?.close()
    for channel in channels { try? await channel.close() }
  }
}
