import NIOCore
import NIOEmbedded
import TLS
import TestSupport
import Testing

@testable import Transport
@testable import TransportServer

@Suite("The TLS handler")
struct TLSHandlerTests {
  let clients: TLSClientContext
  let servers: TLSServerContext

  init() throws {
    let authority = try TestAuthority()
    clients = try TLSClientContext(.init(trust: authority.trust))
    servers = try TLSServerContext(.init(identity: authority.identity("DNS:localhost")))
  }

  /// A channel with a TLS handler and, above it, one that keeps what arrives.
  final class Side {
    let channel: EmbeddedChannel
    let recorder = Recorder()

    init(_ handler: TLSHandler, loop: EmbeddedEventLoop = EmbeddedEventLoop()) throws {
      channel = EmbeddedChannel(loop: loop)
      try channel.pipeline.syncOperations.addHandler(handler)
      try channel.pipeline.syncOperations.addHandler(recorder)
      try channel.connect(to: SocketAddress(unixDomainSocketPath: "/none")).wait()
    }

    /// Takes the handlers out of the pipeline, which hold on to it and it to them.
    deinit {
      _ = try? channel.finish(acceptAlreadyClosed: true)
    }
  }

  final class Recorder: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    var finished: [TLSHandshakeFinished] = []
    var waits: [Int] = []
    var received = ByteBuffer()
    var errors: [TLSError] = []
    var isInactive = false

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      received.writeImmutableBuffer(unwrapInboundIn(data))
    }
    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
      if let event = event as? TLSHandshakeFinished { finished.append(event) }
      if let event = event as? TLSHandshakeWaits { waits.append(event.bytes) }
    }
    func errorCaught(context: ChannelHandlerContext, error: any Error) {
      if let error = error as? TLSError { errors.append(error) }
    }
    func channelInactive(context: ChannelHandlerContext) {
      isInactive = true
    }
  }

  func makeServer() throws -> Side {
    try Side(TLSHandler(server: servers, handshakeTimeout: .seconds(5), turns: nil))
  }

  func makeClient(host: String = "localhost") throws -> Side {
    try Side(TLSHandler(client: clients, host: host, handshakeTimeout: .seconds(5)))
  }

  /// Hands bytes over until both sides are silent.
  func exchange(_ client: Side, _ server: Side) throws {
    var isSilent = false
    while !isSilent {
      isSilent = true
      for (from, to) in [(client, server), (server, client)] {
        while let bytes = try from.channel.readOutbound(as: ByteBuffer.self) {
          isSilent = false
          if to.channel.isActive { try to.channel.writeInbound(bytes) }
        }
      }
    }
  }

  @Test("reports the handshake once and carries plaintext both ways")
  func carries() throws {
    let (client, server) = (try makeClient(), try makeServer())
    try exchange(client, server)
    #expect(client.recorder.finished.map(\.applicationProtocol) == [.http2])
    #expect(server.recorder.finished.map(\.version) == [.tls13])
    try client.channel.writeOutbound(ByteBuffer(string: "question"))
    try server.channel.writeOutbound(ByteBuffer(string: "answer"))
    try exchange(client, server)
    #expect(server.recorder.received == ByteBuffer(string: "question"))
    #expect(client.recorder.received == ByteBuffer(string: "answer"))
  }

  @Test("a handshake that comes when the loop has no time left waits for its turn, and goes on then")
  func takesTurns() throws {
    let loop = EmbeddedEventLoop()
    let turns = LoopTurns(loop)
    loop.advanceTime(by: .seconds(1))
    let client = try makeClient()
    let executor = EventLoopTaskExecutor(turns)
    let server = try Side(TLSHandler(server: servers, handshakeTimeout: .seconds(5), turns: executor), loop: loop)
    turns.worked(from: loop.now - Limits.promptWork, until: loop.now)
    client.channel.writeAndFlush(ByteBuffer(string: "early"), promise: nil)
    try exchange(client, server)
    #expect(client.recorder.finished.isEmpty)
    // What waits is told, once.
    #expect(server.recorder.waits.count == 1 && server.recorder.waits.allSatisfy { $0 > 0 })
    loop.run()
    loop.advanceTime(by: Limits.roundPause)
    #expect(server.recorder.waits.count == 2 && server.recorder.waits.last == 0)
    // The flight that waited is written without another read.
    try exchange(client, server)
    #expect(client.recorder.finished.count == 1 && server.recorder.finished.count == 1)
    #expect(server.recorder.received == ByteBuffer(string: "early"))
    // Nothing had to wait again.
    #expect(server.recorder.waits.count == 2)
  }

  @Test("a connection that ends while its handshake waits has nothing more to say when its turn comes")
  func endsWaiting() throws {
    let loop = EmbeddedEventLoop()
    let turns = LoopTurns(loop)
    loop.advanceTime(by: .seconds(1))
    let client = try makeClient()
    let executor = EventLoopTaskExecutor(turns)
    let server = try Side(TLSHandler(server: servers, handshakeTimeout: .seconds(5), turns: executor), loop: loop)
    turns.worked(from: loop.now - Limits.promptWork, until: loop.now)
    try exchange(client, server)
    #expect(server.recorder.waits.count == 1)
    server.channel.close(promise: nil)
    loop.run()
    loop.advanceTime(by: Limits.roundPause)
    #expect(server.recorder.waits.count == 1)
    #expect(server.recorder.finished.isEmpty && !server.channel.isActive)
  }

  @Test("what is written before the handshake waits for it")
  func waits() throws {
    let (client, server) = (try makeClient(), try makeServer())
    let promise = client.channel.eventLoop.makePromise(of: Void.self)
    client.channel.writeAndFlush(ByteBuffer(string: "early"), promise: promise)
    try exchange(client, server)
    #expect(server.recorder.received == ByteBuffer(string: "early"))
    try promise.futureResult.wait()
  }

  @Test("one flush is one write, and its small pieces share a record")
  func coalesces() throws {
    let (client, server) = (try makeClient(), try makeServer())
    try exchange(client, server)
    for piece in ["a", "b", "c"] { client.channel.write(ByteBuffer(string: piece), promise: nil) }
    client.channel.write(ByteBuffer(repeating: 0, count: 40_000), promise: nil)
    client.channel.flush()
    let written = try #require(try client.channel.readOutbound(as: ByteBuffer.self))
    #expect(try client.channel.readOutbound(as: ByteBuffer.self) == nil)
    // One record for the three small pieces, three for the large one: 22 bytes more for each.
    #expect(written.readableBytes == 40_003 + 4 * 22)
    try server.channel.writeInbound(written)
    #expect(server.recorder.received.readableBytes == 40_003)
  }

  @Test("a handshake that takes too long ends the connection")
  func timeout() throws {
    let server = try makeServer()
    server.channel.embeddedEventLoop.advanceTime(by: .milliseconds(4_999))
    #expect(server.channel.isActive)
    server.channel.embeddedEventLoop.advanceTime(by: .milliseconds(1))
    #expect(!server.channel.isActive)
    #expect(server.recorder.errors == [TLSError(.handshake, .peer, .handshakeTimeout)])
  }

  @Test("a finished handshake stops the clock")
  func noTimeoutAfterwards() throws {
    let (client, server) = (try makeClient(), try makeServer())
    try exchange(client, server)
    server.channel.embeddedEventLoop.advanceTime(by: .seconds(60))
    #expect(server.channel.isActive && server.recorder.errors.isEmpty)
  }

  @Test("cleartext ends the connection with an error of the peer")
  func cleartext() throws {
    let server = try makeServer()
    try server.channel.writeInbound(ByteBuffer(string: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
    #expect(server.recorder.errors == [TLSError(.handshake, .peer, .notTLS)])
    #expect(!server.channel.isActive)
  }

  @Test("a client that refuses the certificate tells the server why")
  func alert() throws {
    let (client, server) = (try makeClient(host: "other.test"), try makeServer())
    try exchange(client, server)
    #expect(client.recorder.errors == [TLSError(.handshake, .peer, .wrongHost)])
    #expect(server.recorder.errors.map(\.fault) == [.peer])
    #expect(!client.channel.isActive && !server.channel.isActive)
  }

  @Test("closing says so to the peer, after what was written")
  func close() throws {
    let (client, server) = (try makeClient(), try makeServer())
    try exchange(client, server)
    client.channel.write(ByteBuffer(string: "last words"), promise: nil)
    client.channel.close(promise: nil)
    try exchange(client, server)
    #expect(server.recorder.received == ByteBuffer(string: "last words"))
    #expect(!server.channel.isActive && server.recorder.errors.isEmpty)
  }

  @Test("a connection that ends within the handshake is an error, one that ends later is not")
  func endOfConnection() throws {
    let early = try makeServer()
    early.channel.pipeline.fireChannelInactive()
    #expect(early.recorder.errors == [TLSError(.handshake, .peer, .closedInHandshake)])
    let (client, server) = (try makeClient(), try makeServer())
    try exchange(client, server)
    server.channel.pipeline.fireChannelInactive()
    #expect(server.recorder.errors.isEmpty && server.recorder.isInactive)
  }

  @Test("a write that the end overtakes fails")
  func failedWrite() throws {
    let client = try makeClient()
    let promise = client.channel.eventLoop.makePromise(of: Void.self)
    client.channel.write(ByteBuffer(string: "lost"), promise: promise)
    client.channel.embeddedEventLoop.advanceTime(by: .seconds(5))
    #expect(throws: TLSError(.handshake, .peer, .handshakeTimeout)) { try promise.futureResult.wait() }
  }
}
