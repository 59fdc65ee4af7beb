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
    var records: [Int] = []
    var received = ByteBuffer()
    /// Whether each read had no room for more.
    var fullReads: [Bool] = []
    var errors: [TLSError] = []
    var isInactive = false

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      let bytes = unwrapInboundIn(data)
      fullReads.append(bytes.writableBytes == 0)
      received.writeImmutableBuffer(bytes)
    }
    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
      if let event = event as? TLSHandshakeFinished { finished.append(event) }
      if let event = event as? TLSHandshakeWaits { waits.append(event.bytes) }
      if let event = event as? TLSRecordWaits { records.append(event.bytes) }
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

  @Test("bytes beyond a handshake that come before its turn end the connection, and run no handshake")
  func tooEarly() throws {
    let loop = EmbeddedEventLoop()
    let turns = LoopTurns(loop)
    loop.advanceTime(by: .seconds(1))
    let client = try makeClient()
    let executor = EventLoopTaskExecutor(turns)
    let server = try Side(TLSHandler(server: servers, handshakeTimeout: .seconds(5), turns: executor), loop: loop)
    turns.worked(from: loop.now - Limits.promptWork, until: loop.now)
    let hello = try #require(try client.channel.readOutbound(as: ByteBuffer.self))
    try server.channel.writeInbound(hello)
    #expect(server.channel.isActive)
    try server.channel.writeInbound(ByteBuffer(repeating: 23, count: 65 * 1024))
    #expect(try server.channel.readOutbound(as: ByteBuffer.self) == nil)
    #expect(!server.channel.isActive && server.recorder.errors.count == 1)
  }

  /// A record of the handshake, and what comes of it when a server gets it in pieces of `count` bytes.
  private func errors(after records: [UInt8], inPiecesOf count: Int) throws -> [TLSError] {
    let server = try makeServer()
    for start in stride(from: 0, to: records.count, by: count) where server.channel.isActive {
      let piece = Array(records[start..<min(start + count, records.count)])
      try server.channel.writeInbound(ByteBuffer(bytes: piece))
    }
    return server.recorder.errors
  }

  @Test("a hello that says it is longer than any is ends the connection at once", arguments: [1, 3, 9, 100])
  func longHello(_ count: Int) throws {
    let reason = TLSError(.handshake, .peer, .protocolViolation("a handshake message is too long"))
    let claims: [[UInt8]] = [
      [22, 3, 1, 0, 6, 1, 1, 0xFF, 0xB8, 3, 3], [22, 3, 1, 0, 4, 1, 0, 0x40, 1], [22, 3, 1, 0, 4, 11, 0, 0x80, 1],
      // Its first bytes in several records, and behind another record.
      [22, 3, 1, 0, 2, 1, 1, 22, 3, 1, 0, 2, 0xFF, 0xFF], [20, 3, 3, 0, 1, 1, 22, 3, 1, 0, 4, 1, 0xFF, 0xFF, 0xFF],
    ]
    for claim in claims {
      let errors = try errors(after: claim, inPiecesOf: count)
      // OpenSSL may have found another fault before.
      #expect(errors == [reason] || errors.count == 1 && claim[0] == 20, "\(claim)")
    }
    #expect(try errors(after: [22, 3, 1, 0, 4, 1, 0, 0x40, 0], inPiecesOf: count).isEmpty)
    // A hello of SSL 2, whose records are others.
    #expect(try errors(after: [0x80, 0x2E, 1, 3, 3], inPiecesOf: count).count == 1)
  }

  @Test("lengths are followed through messages in one record, in several, and to the end of what can be read")
  func lengths() {
    func allows(_ bytes: [UInt8], isOldVersion: Bool = false) -> Bool {
      var lengths = HandshakeLengths()
      return bytes.allSatisfy { lengths.allow(ByteBuffer(bytes: [$0]), isOldVersion: isOldVersion) }
    }
    let long: [UInt8] = [1, 1, 0, 0]
    func record(_ type: UInt8, _ bytes: [UInt8]) -> [UInt8] { [type, 3, 3, 0, UInt8(bytes.count)] + bytes }
    #expect(allows(record(22, [16, 0, 0, 2, 1, 1, 20, 0, 0, 1, 9])))
    #expect(!allows(record(22, [16, 0, 0, 2, 1, 1] + long)))
    // The rest of a message is no message.
    #expect(allows(record(22, [11, 0, 0, 8] + long) + record(22, long)))
    #expect(!allows(record(22, [11, 0, 0, 4] + long) + record(22, long)))
    // Nor is what other records hold.
    #expect(allows(record(23, long) + record(21, long)))
    #expect(!allows(record(20, [1]) + record(22, long)))
    #expect(allows(record(20, [1]) + record(22, long), isOldVersion: true))
  }

  @Test("what comes with the end of the handshake is nobody's where a bad record is behind it")
  func badRecordWithFinish() throws {
    let (client, server) = (try makeClient(), try makeServer())
    client.channel.writeAndFlush(ByteBuffer(string: "early"), promise: nil)
    try server.channel.writeInbound(try #require(try client.channel.readOutbound(as: ByteBuffer.self)))
    while let flight = try server.channel.readOutbound(as: ByteBuffer.self) { try client.channel.writeInbound(flight) }
    var last = ByteBuffer()
    while var bytes = try client.channel.readOutbound(as: ByteBuffer.self) { last.writeBuffer(&bytes) }
    last.writeBytes([23, 3, 3, 0, 32] + [UInt8](repeating: 0, count: 32))
    try server.channel.writeInbound(last)
    #expect(server.recorder.errors.count == 1 && !server.channel.isActive)
    #expect(server.recorder.received.readableBytes == 0 && server.recorder.finished.isEmpty)
  }

  @Test("what is kept of a record that has not ended is told, unless it is little", arguments: [300, 700, 16_000])
  func unfinishedRecord(_ step: Int) throws {
    let (client, server) = (try makeClient(), try makeServer())
    try exchange(client, server)
    for _ in 0..<2 {
      client.channel.writeAndFlush(ByteBuffer(repeating: 7, count: 16_384), promise: nil)
      var record = try #require(try client.channel.readOutbound(as: ByteBuffer.self))
      let count = record.readableBytes
      while let piece = record.readSlice(length: min(step, record.readableBytes)), piece.readableBytes > 0 {
        try server.channel.writeInbound(piece)
        let (came, told) = (count - record.readableBytes, server.recorder.records.last ?? 0)
        #expect(told == (came >= 4096 && came < count ? came : 0))
      }
    }
    #expect(server.recorder.received.readableBytes == 2 * 16_384)
    #expect(client.recorder.records.isEmpty)
  }

  @Test("a read that had no room for more is passed on as one, with all that it brought")
  func fullRead() throws {
    let (client, server) = (try makeClient(), try makeServer())
    try exchange(client, server)
    server.recorder.fullReads = []
    for isFull in [false, true, false] {
      client.channel.write(ByteBuffer(repeating: 7, count: 5000), promise: nil)
      client.channel.writeAndFlush(ByteBuffer(repeating: 7, count: 20_000), promise: nil)
      var bytes = try #require(try client.channel.readOutbound(as: ByteBuffer.self))
      // A slice has no room beside it.
      if isFull {
        let slice = bytes.readSlice(length: bytes.readableBytes)
        bytes = try #require(slice)
      } else {
        bytes.reserveCapacity(minimumWritableBytes: 1)
      }
      try server.channel.writeInbound(bytes)
    }
    #expect(server.recorder.fullReads == [false, true, false])
    #expect(server.recorder.received.readableBytes == 3 * 25_000)
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
