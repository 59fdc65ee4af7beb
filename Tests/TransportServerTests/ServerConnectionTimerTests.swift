import GRPC
import HTTP2
import Logging
import NIOCore
import NIOEmbedded
import Testing
import TransportTestSupport

@testable import TransportServer

@Suite("The times of a server's connection, by a clock that the test turns")
struct ServerConnectionTimerTests {
  /// A connection over a channel without a socket, whose loop's time stands still.
  private final class Harness {
    struct Frame: Equatable {
      var type: UInt8
      var isAcknowledgement: Bool
      var payload: [UInt8]

      /// The code of a GOAWAY.
      var code: UInt32? {
        guard type == 7, payload.count >= 8 else { return nil }
        return payload[4..<8].reduce(0) { $0 << 8 | UInt32($1) }
      }
    }

    let channel = EmbeddedChannel()
    let environment: ServerEnvironment

    init(_ adjust: (inout RPCServer.Configuration) -> Void = { _ in }) throws {
      var configuration = RPCServer.Configuration(host: "127.0.0.1", port: 0)
      configuration.unaryTimeLimit = nil
      configuration.maximumAge = nil
      adjust(&configuration)
      let route = RPCRoute.unary(RPCMethod(path: "/t.T/Wait", kind: .unary)) {
        (request: Blob, _) async throws(RPCError) -> Blob in request
      }
      environment = ServerEnvironment(
        configuration: configuration,
        router: Router([route]),
        interceptors: [],
        pages: PageTable([]),
        statusDetailsEncoder: { _ in nil },
        logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
      )
      let detector = ProtocolDetector(environment: environment, executor: EventLoopTaskExecutor(channel.eventLoop))
      try channel.pipeline.syncOperations.addHandler(detector)
      try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    }

    /// Takes the connection down, and lets it have the turn that it may wait for.
    deinit {
      _ = try? channel.close().wait()
      channel.embeddedEventLoop.advanceTime(by: .seconds(1))
      _ = try? channel.finish(acceptAlreadyClosed: true)
    }

    func receive(_ bytes: [UInt8]) throws {
      try channel.writeInbound(ByteBuffer(bytes: bytes))
      channel.embeddedEventLoop.run()
    }

    /// The preface, SETTINGS, and the acknowledgement of the server's.
    func greet(acknowledges: Bool = true) throws {
      try receive(Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + frame(4))
      if acknowledges { try receive(frame(4, flags: 1)) }
    }

    /// The header block of a request whose body is to come.
    func beginCall(isWhole: Bool = true, method: String = "POST", contentType: String = "application/grpc") throws {
      let fields = [
        (":method", method), (":scheme", "http"), (":path", "/t.T/Wait"), (":authority", "x"), ("te", "trailers"),
        ("content-type", contentType),
      ]
      // RFC 7541 §6.2.2: literals that leave the table alone.
      var block: [UInt8] = []
      for (name, value) in fields {
        block += [0, UInt8(name.utf8.count)] + Array(name.utf8) + [UInt8(value.utf8.count)] + Array(value.utf8)
      }
      try receive(frame(1, flags: isWhole ? 4 : 0, stream: 1, block))
    }

    func frame(_ type: UInt8, flags: UInt8 = 0, stream: UInt8 = 0, _ payload: [UInt8] = []) -> [UInt8] {
      [0, UInt8(payload.count >> 8), UInt8(payload.count & 0xff), type, flags, 0, 0, 0, stream] + payload
    }

    func advance(_ time: TimeAmount) { channel.embeddedEventLoop.advanceTime(by: time) }

    /// What the server has sent since the last time.
    func sent() throws -> [Frame] {
      var bytes = ByteBuffer()
      while var some = try channel.readOutbound(as: ByteBuffer.self) { bytes.writeBuffer(&some) }
      var frames: [Frame] = []
      while let head = bytes.readBytes(length: 9) {
        let length = Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])
        let payload = bytes.readBytes(length: length) ?? []
        frames.append(Frame(type: head[3], isAcknowledgement: head[4] & 1 == 1, payload: payload))
      }
      return frames
    }

    func goAways() throws -> [UInt32] { try sent().compactMap(\.code) }

    var isOpen: Bool { channel.isActive }
  }

  private static let noError: UInt32 = 0, settingsTimeout: UInt32 = 4, enhanceYourCalm: UInt32 = 11

  @Test("A connection that does not say within its time what it speaks is closed")
  func preface() throws {
    let harness = try Harness()
    try harness.receive(Array("PRI * HT".utf8))
    harness.advance(Limits.prefaceTimeout - .nanoseconds(1))
    #expect(harness.isOpen)
    harness.advance(.nanoseconds(1))
    #expect(!harness.isOpen)
  }

  @Test("A peer that does not acknowledge our SETTINGS in time gets GOAWAY, and one that does stays")
  func settings() throws {
    let silent = try Harness()
    try silent.greet(acknowledges: false)
    silent.advance(Limits.settingsTimeout - .nanoseconds(1))
    #expect(try silent.goAways() == [] && silent.isOpen)
    silent.advance(.nanoseconds(1))
    #expect(try silent.goAways() == [Self.settingsTimeout])
    #expect(!silent.isOpen)
    let polite = try Harness()
    try polite.greet()
    polite.advance(Limits.settingsTimeout)
    #expect(try polite.goAways() == [] && polite.isOpen)
  }

  @Test("A header block that does not end in time ends the connection")
  func headerBlock() throws {
    let harness = try Harness()
    try harness.greet()
    try harness.beginCall(isWhole: false)
    harness.advance(Limits.headerBlockTimeout - .nanoseconds(1))
    #expect(try harness.goAways() == [] && harness.isOpen)
    harness.advance(.nanoseconds(1))
    #expect(try harness.goAways() == [Self.enhanceYourCalm])
    #expect(!harness.isOpen)
  }

  @Test(
    "A frame that does not end in time ends the connection, whatever frame it is", arguments: [0, 6, 0xaa] as [UInt8])
  func frame(type: UInt8) throws {
    let harness = try Harness()
    try harness.greet()
    try harness.beginCall()
    let frame = harness.frame(type, stream: type == 0 ? 1 : 0, [0, 0, 0, 0, 3, 1, 2, 3])
    try harness.receive(Array(frame.dropLast(2)))
    harness.advance(.seconds(4))
    // A byte now and then lengthens nothing.
    try harness.receive([2])
    harness.advance(Limits.messageTimeout - .seconds(4) - .nanoseconds(1))
    #expect(try harness.goAways() == [] && harness.isOpen)
    harness.advance(.nanoseconds(1))
    #expect(try harness.goAways() == [Self.enhanceYourCalm])
    #expect(!harness.isOpen)
  }

  @Test("Frames that follow one another without a pause, each cut by the end of a read, have each its own time")
  func frames() throws {
    let harness = try Harness()
    try harness.greet()
    let frame = harness.frame(0xaa, [UInt8](repeating: 7, count: 100))
    try harness.receive(Array(frame.prefix(50)))
    for _ in 0..<10 {
      harness.advance(.seconds(4))
      try harness.receive(Array(frame.dropFirst(50) + frame.prefix(50)))
    }
    #expect(try harness.goAways() == [] && harness.isOpen)
    harness.advance(Limits.messageTimeout - .nanoseconds(1))
    #expect(try harness.goAways() == [] && harness.isOpen)
    harness.advance(.nanoseconds(1))
    #expect(try harness.goAways() == [Self.enhanceYourCalm])
    #expect(!harness.isOpen)
  }

  /// A call whose answer the peer's window has no room for.
  private func blockedCall(stalledFor timeout: TimeAmount, bytes: Int) throws -> Harness {
    let harness = try Harness { $0.stalledWriteTimeout = timeout }
    // RFC 9113 §6.5.2: SETTINGS_INITIAL_WINDOW_SIZE.
    try harness.receive(Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + harness.frame(4, [0, 4, 0, 0, 0, 0]))
    try harness.receive(harness.frame(4, flags: 1))
    try harness.beginCall()
    var message: [UInt8] = [0, 0, 0, UInt8(bytes >> 8), UInt8(bytes & 0xff)] + [UInt8](repeating: 7, count: bytes)
    while message.count > 16_384 {
      try harness.receive(harness.frame(0, stream: 1, Array(message.prefix(16_384))))
      message.removeFirst(16_384)
    }
    try harness.receive(harness.frame(0, flags: 1, stream: 1, message))
    return harness
  }

  private func isReset(_ harness: Harness) throws -> Bool {
    try harness.sent().contains { $0.type == 3 && $0.payload == [0, 0, 0, 11] }
  }

  @Test("A stream whose answer the peer's window blocks has its time, and a byte a second does not lengthen it")
  func blockedStream() throws {
    for dribble in [0, 1] {
      let harness = try blockedCall(stalledFor: .seconds(30), bytes: 50_000)
      for _ in 0..<29 {
        harness.advance(.seconds(1))
        if dribble > 0 { try harness.receive(harness.frame(8, stream: 1, [0, 0, 0, 1])) }
      }
      #expect(try !isReset(harness) && harness.environment.budget.usage.bufferedBytes > 0)
      harness.advance(.seconds(31))
      #expect(try isReset(harness))
      #expect(harness.environment.budget.usage.bufferedBytes == 0 && harness.isOpen)
    }
  }

  @Test("A stream whose peer reads slowly, but reads, is not reset")
  func slowStream() throws {
    let harness = try blockedCall(stalledFor: .seconds(30), bytes: 64_000)
    for _ in 0..<4 {
      harness.advance(.seconds(25))
      #expect(try !isReset(harness))
      try harness.receive(harness.frame(8, stream: 1, [0, 0, 0x40, 0]))
    }
    #expect(harness.environment.budget.usage.bufferedBytes == 0)
  }

  @Test("A connection without a call goes when its time is over, and one with a call stays")
  func idle() throws {
    let idle = try Harness { $0.idleTimeout = .minutes(5) }
    try idle.greet()
    idle.advance(.minutes(5) - .nanoseconds(1))
    #expect(try idle.goAways() == [] && idle.isOpen)
    idle.advance(.nanoseconds(1))
    #expect(try idle.goAways() == [Self.noError])
    #expect(!idle.isOpen)
    let busy = try Harness {
      $0.idleTimeout = .minutes(5)
      $0.keepalive.interval = .hours(1)
    }
    try busy.greet()
    try busy.beginCall()
    busy.advance(.minutes(10))
    #expect(try busy.goAways() == [] && busy.isOpen)
  }

  @Test("A silent peer with a call is asked for a sign of life; without one it is gone, with one it stays")
  func keepalive() throws {
    let dead = try Harness { $0.keepalive = (interval: .seconds(60), timeout: .seconds(20)) }
    try dead.greet()
    try dead.beginCall()
    _ = try dead.sent()
    dead.advance(.seconds(60) - .nanoseconds(1))
    #expect(try dead.sent().isEmpty)
    dead.advance(.nanoseconds(1))
    let pings = try dead.sent()
    #expect(pings.map(\.type) == [6] && !pings[0].isAcknowledgement)
    dead.advance(.seconds(20) - .nanoseconds(1))
    #expect(dead.isOpen)
    dead.advance(.nanoseconds(1))
    #expect(!dead.isOpen)
    let alive = try Harness { $0.keepalive = (interval: .seconds(60), timeout: .seconds(20)) }
    try alive.greet()
    try alive.beginCall()
    _ = try alive.sent()
    alive.advance(.seconds(60))
    let ping = try #require(try alive.sent().first)
    alive.advance(.seconds(1))
    try alive.receive(alive.frame(6, flags: 1, ping.payload))
    alive.advance(.seconds(19))
    #expect(alive.isOpen)
    // Asked again a whole interval after the sign of life.
    alive.advance(.seconds(41) - .nanoseconds(1))
    #expect(try alive.sent().isEmpty)
    alive.advance(.nanoseconds(1))
    #expect(try alive.sent().map(\.type) == [6])
  }

  @Test("A connection is drained when it is as old as it may become, give or take a tenth")
  func age() throws {
    let harness = try Harness {
      $0.maximumAge = .minutes(30)
      $0.idleTimeout = .hours(2)
    }
    try harness.greet()
    harness.advance(.minutes(27) - .nanoseconds(1))
    #expect(try harness.goAways() == [])
    // A peer that does not answer the PING of the drain has one round trip's time.
    harness.advance(.minutes(6) + .nanoseconds(1) + Limits.drainRoundTrip)
    #expect(try harness.goAways() == [Self.noError, Self.noError])
    #expect(!harness.isOpen)
  }

  @Test("Calls that a drain still finds have its grace, and no longer")
  func drainGrace() throws {
    let harness = try Harness {
      $0.drainGrace = .seconds(30)
      $0.keepalive.interval = .hours(1)
    }
    try harness.greet()
    try harness.beginCall()
    harness.channel.pipeline.fireUserInboundEventTriggered(ServerDrain())
    harness.advance(.seconds(30) - .nanoseconds(1))
    #expect(try harness.goAways() == [Self.noError, Self.noError] && harness.isOpen)
    harness.advance(.nanoseconds(1))
    #expect(!harness.isOpen)
  }

  @Test("A peer whose socket takes none of our bytes in time is given up, and one that takes them stays")
  func stalledWrite() throws {
    for takes in [false, true] {
      let harness = try Harness { $0.stalledWriteTimeout = .seconds(30) }
      try harness.greet()
      harness.channel.isWritable = false
      harness.channel.pipeline.fireChannelWritabilityChanged()
      harness.advance(.seconds(30) - .nanoseconds(1))
      #expect(harness.isOpen)
      if takes {
        harness.channel.isWritable = true
        harness.channel.pipeline.fireChannelWritabilityChanged()
      }
      harness.advance(.nanoseconds(1))
      #expect(harness.isOpen == takes)
    }
  }

  @Test("A request to a page, or of gRPC-Web, whose body does not end in time is answered so, and its stream ends")
  func pageBody() throws {
    for (method, contentType) in [("GET", "text/plain"), ("POST", "application/grpc-web")] {
      let harness = try Harness()
      try harness.greet()
      try harness.beginCall(method: method, contentType: contentType)
      try harness.receive(harness.frame(0, stream: 1, [0, 0, 0, 0]))
      _ = try harness.sent()
      harness.advance(Limits.pageRequestTimeout - .nanoseconds(1))
      #expect(try harness.sent().isEmpty)
      harness.advance(.nanoseconds(1))
      let sent = try harness.sent()
      // HEADERS, DATA, and RST_STREAM, since the rest of the request is of no use.
      #expect(sent.map(\.type).first == 1 && sent.map(\.type).last == 3)
      #expect(sent.last?.payload == [0, 0, 0, 0] && harness.isOpen)
    }
  }

  /// A socket that has room and never says that bytes have left.
  private final class Stuck: ChannelOutboundHandler {
    typealias OutboundIn = ByteBuffer

    private var promises: [EventLoopPromise<Void>] = []

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
      if let promise { promises.append(promise) }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
      for promise in promises { promise.fail(ChannelError.eof) }
      promises = []
    }
  }

  /// A socket that turns out to be broken when it is written to.
  private final class Broken: ChannelOutboundHandler {
    typealias OutboundIn = ByteBuffer

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
      promise?.fail(ChannelError.ioOnClosedChannel)
      context.close(promise: nil)
    }
  }

  @Test("A connection that ends within a write gives back what it held")
  func brokenWrite() throws {
    let harness = try Harness()
    try harness.greet()
    // A window of nothing, so that the answer waits.
    try harness.receive(harness.frame(4, [0, 4, 0, 0, 0, 0]))
    try harness.beginCall()
    let message = [0, 0, 0, UInt8(30_000 >> 8), UInt8(30_000 & 0xff)] + [UInt8](repeating: 1, count: 30_000)
    try harness.receive(harness.frame(0, stream: 1, Array(message.prefix(16_000))))
    try harness.receive(harness.frame(0, flags: 1, stream: 1, Array(message.dropFirst(16_000))))
    #expect(harness.environment.budget.usage.bufferedBytes >= 30_000)
    try harness.channel.pipeline.syncOperations.addHandler(Broken(), position: .first)
    try harness.receive(harness.frame(6, [1, 2, 3, 4, 5, 6, 7, 8]))
    #expect(!harness.isOpen)
    #expect(harness.environment.budget.usage.bufferedBytes == 0)
  }

  @Test("A peer that has broken the rules and does not take its GOAWAY in time is given up")
  func closing() throws {
    for takes in [false, true] {
      let harness = try Harness()
      try harness.greet()
      if !takes { try harness.channel.pipeline.syncOperations.addHandler(Stuck(), position: .first) }
      // DATA without a stream.
      try harness.receive(harness.frame(0, [1]))
      #expect(harness.isOpen == !takes)
      harness.advance(Limits.closingTimeout - .nanoseconds(1))
      #expect(harness.isOpen == !takes)
      harness.advance(.nanoseconds(1))
      #expect(!harness.isOpen)
    }
  }
}
