import Callers
import GRPC
import HTTP2
import Logging
import NIOCore
import NIOEmbedded
import Testing
import TransportTestSupport

@testable import TransportServer

@Suite("Calls that come when there is too much to do, by a clock that the test turns")
struct LateCallsTests {
  /// Counts how often the socket is asked for more.
  private final class ReadCounter: ChannelOutboundHandler {
    typealias OutboundIn = ByteBuffer
    var count = 0

    func read(context: ChannelHandlerContext) { count += 1 }
  }

  /// A connection without a socket, and what the loop does for others.
  private final class Harness {
    let channel = EmbeddedChannel()
    let turns: LoopTurns
    let executor: EventLoopTaskExecutor
    let environment: ServerEnvironment
    let connection: ServerConnection
    private var nextStream: UInt32 = 1
    private let readCounter = ReadCounter()

    final class Log: @unchecked Sendable {
      // Unchecked: handlers run on the one loop.
      var handled: [UInt8] = []
      var holders: [NetworkAddress?] = []
      var refused: [String: Int] = [:]
      var finished = 0
      var pagesMade = 0
      /// Called by a handler that has waited, before it is done.
      var yielded: () -> Void = {}
    }

    private struct Witness: ServerInterceptor {
      let log: Log

      func didRefuse(_ calls: Int, of method: RPCMethod, status: StatusCode) {
        if status == .resourceExhausted { log.refused[method.path, default: 0] += calls }
      }

      func didFinish(_ context: ServerContext, status: StatusCode, duration: Duration) { log.finished += 1 }
    }

    private let log = Log()
    /// Of what "/t.T/Shut" needs.
    let backlog = Backlog()

    init(proxy: NetworkAddress? = nil) throws {
      let log = log
      func route(_ name: String) -> RPCRoute {
        .unary(RPCMethod(path: "/t.T/\(name)", kind: .unary)) { (request: Blob, _) async throws(RPCError) -> Blob in
          log.handled += request.bytes
          log.holders.append(CallPlace.current?.holder)
          return request
        }
      }
      let yielding = RPCRoute.unary(RPCMethod(path: "/t.T/Yield", kind: .unary)) {
        (request: Blob, _) async throws(RPCError) -> Blob in
        await Task.yield()
        log.yielded()
        log.handled += request.bytes
        return request
      }
      let backlog = backlog
      let shutting = RPCRoute.unary(RPCMethod(path: "/t.T/Shut", kind: .unary)) {
        (request: Blob, _) async throws(RPCError) -> Blob in
        log.handled += request.bytes
        backlog.isLong = true
        CallPlace.current?.gate?.shut(while: backlog)
        return request
      }
      let made: Page.Handler = { _ in
        log.pagesMade += 1
        return PageResponse(text: "here")
      }
      environment = ServerEnvironment(
        configuration: RPCServer.Configuration(host: "127.0.0.1", port: 0),
        router: Router([route("Call"), route("Other"), yielding, shutting, route("Health").essential()]),
        interceptors: [Witness(log: log)],
        pages: PageTable([.health, Page("GET", "/page", made), Page("POST", "/page", made)]),
        statusDetailsEncoder: { error in error.details.reason.map { Array($0.utf8) } },
        logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
      )
      turns = LoopTurns(channel.eventLoop)
      executor = EventLoopTaskExecutor(turns)
      channel.embeddedEventLoop.advanceTime(by: .seconds(1))
      connection = ServerConnection(
        environment: environment,
        executor: executor,
        peer: ConnectionPeer(
          Peer(address: "127.0.0.1", port: 1), proxy: proxy,
          account: environment.budget.sources.account(of: NetworkAddress("127.0.0.1")))
      )
      try channel.pipeline.syncOperations.addHandlers([readCounter, connection])
      try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
      try receive(Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + frame(4) + frame(4, flags: 1))
    }

    deinit {
      _ = try? channel.close().wait()
      channel.embeddedEventLoop.advanceTime(by: .seconds(1))
      _ = try? channel.finish(acceptAlreadyClosed: true)
    }

    private func frame(_ type: UInt8, flags: UInt8 = 0, stream: UInt32 = 0, _ payload: [UInt8] = []) -> [UInt8] {
      [0, UInt8(payload.count >> 8), UInt8(payload.count & 0xff), type, flags]
        + [0, 0, UInt8(stream >> 8), UInt8(stream & 0xff)] + payload
    }

    func receive(_ bytes: [UInt8]) throws {
      try channel.writeInbound(ByteBuffer(bytes: bytes))
      channel.embeddedEventLoop.run()
    }

    /// RFC 7541 §6.2.2: literals that leave the table alone.
    private static func block(_ fields: [(String, String)]) -> [UInt8] {
      var block: [UInt8] = []
      for (name, value) in fields {
        block += [0, UInt8(name.utf8.count)] + Array(name.utf8) + [UInt8(value.utf8.count)] + Array(value.utf8)
      }
      return block
    }

    /// That of the request that was made last.
    var lastStream: UInt32 { nextStream - 2 }

    func settings(_ entries: [UInt8]) -> [UInt8] { frame(4, entries) }
    func reset(_ stream: UInt32) -> [UInt8] { frame(3, stream: stream, [0, 0, 0, 8]) }

    func data(_ count: Int, of stream: UInt32) -> [UInt8] {
      frame(0, stream: stream, [UInt8](repeating: 0, count: count))
    }

    /// All that was answered since this was last asked for.
    func answers() throws -> ByteBuffer {
      var answers = ByteBuffer()
      while var bytes = try channel.readOutbound(as: ByteBuffer.self) { answers.writeBuffer(&bytes) }
      return answers
    }

    /// A request without a body.
    func page(_ method: String, _ path: String) -> [UInt8] {
      defer { nextStream += 2 }
      let fields = [(":method", method), (":scheme", "http"), (":path", path), (":authority", "x")]
      return frame(1, flags: 5, stream: nextStream, Self.block(fields))
    }

    /// Types of the frames of streams, in order, and which of them end one.
    func frames(_ bytes: ByteBuffer) -> [(type: UInt8, isEnd: Bool)] {
      var bytes = bytes
      var frames: [(type: UInt8, isEnd: Bool)] = []
      while let head = bytes.readBytes(length: 9) {
        _ = bytes.readBytes(length: Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2]))
        if head[8] != 0 { frames.append((head[3], head[4] & 1 == 1)) }
      }
      return frames
    }

    /// The frames of a call whose message is `number`.
    func call(
      _ number: UInt8, _ path: String = "/t.T/Call", timeout: String? = nil, inPieces: Bool = false,
      client: String? = nil, contentType: String = "application/grpc"
    ) -> [UInt8] {
      var fields = [
        (":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "x"), ("te", "trailers"),
        ("content-type", contentType),
      ]
      if let timeout { fields.append(("grpc-timeout", timeout)) }
      if let client { fields.append(("x-forwarded-for", client)) }
      let block = Self.block(fields)
      defer { nextStream += 2 }
      let head = frame(1, flags: 4, stream: nextStream, block)
      let body = Blob([number]).frame
      guard inPieces else { return head + frame(0, flags: 1, stream: nextStream, body) }
      return head + frame(0, stream: nextStream, Array(body.prefix(3)))
        + frame(0, flags: 1, stream: nextStream, Array(body.dropFirst(3)))
    }

    /// Makes a read too long to be worked on at once where others had all the time that there was.
    func filler() -> [UInt8] { frame(0xaa, [UInt8](repeating: 0, count: Limits.promptBytes)) }

    /// A read that has no room for more.
    func full(_ call: [UInt8]) -> ByteBuffer {
      var read = ByteBufferAllocator().buffer(capacity: 1024)
      read.writeBytes(call)
      read.writeBytes(frame(0xaa, [UInt8](repeating: 0, count: read.writableBytes - 9)))
      return read
    }

    /// The loop works for another connection.
    func workForOthers(_ time: TimeAmount) {
      let start = channel.eventLoop.now
      channel.embeddedEventLoop.advanceTime(by: .nanoseconds(1))
      turns.worked(from: start, until: start + time)
    }

    /// How often the socket was asked for more so far.
    var reads: Int { readCounter.count }

    /// Whether the socket is read on, as after each read.
    var readsOn: Bool {
      let before = reads
      channel.pipeline.read()
      return reads > before
    }

    /// Lets everybody have the turns that they wait for.
    func letTurnsPass() { channel.embeddedEventLoop.advanceTime(by: .milliseconds(100)) }

    func gate(_ path: String) -> CallGate? {
      environment.gate(of: RPCMethod(path: path, kind: .unary))
    }

    var handledNumbers: [UInt8] { log.handled }
    /// Whose those were.
    var holders: [NetworkAddress?] { log.holders }
    /// What interceptors heard of calls that were refused, by path, and of calls that they saw.
    var refused: [String: Int] { log.refused }
    var finished: Int { log.finished }
    var pagesMade: Int { log.pagesMade }

    func whenYielded(_ work: @escaping () -> Void) { log.yielded = work }
  }

  @Test(
    "What waits while the loop works for others is refused after a part of its time, and served before",
    arguments: [
      (nil, .milliseconds(750)), ("60S", .milliseconds(750)), ("15S", .milliseconds(500)),
      ("3S", .milliseconds(100)), ("1500m", .milliseconds(50)), ("500m", .milliseconds(25)),
      ("200m", .milliseconds(25)),
    ] as [(String?, TimeAmount)])
  func late(timeout: String?, patience: TimeAmount) throws {
    for isLate in [false, true] {
      let harness = try Harness()
      harness.workForOthers(Limits.promptWork)
      try harness.receive(harness.filler() + harness.call(1, timeout: timeout) + harness.call(2, timeout: timeout))
      #expect(harness.handledNumbers == [])
      harness.workForOthers(isLate ? patience + .nanoseconds(1) : patience)
      harness.letTurnsPass()
      #expect(harness.handledNumbers == (isLate ? [] : [1, 2]))
      #expect(harness.environment.budget.usage.refusedCalls == (isLate ? 2 : 0))
      // What comes next waits for nobody.
      try harness.receive(harness.call(3))
      #expect(harness.handledNumbers.last == 3)
    }
  }

  @Test("A gRPC-Web call that has waited for too long is refused as well, and told so", arguments: [false, true])
  func lateWeb(inPieces: Bool) throws {
    for isLate in [false, true] {
      let harness = try Harness()
      let web = "application/grpc-web+proto"
      harness.workForOthers(Limits.promptWork)
      try harness.receive(
        harness.filler() + harness.call(1, timeout: "3S", inPieces: inPieces, contentType: web)
          + harness.call(2, "/t.T/Health", timeout: "3S", contentType: web))
      harness.workForOthers(isLate ? .milliseconds(101) : .milliseconds(100))
      harness.letTurnsPass()
      #expect(harness.handledNumbers == (isLate ? [2] : [1, 2]))
      #expect(harness.environment.budget.usage.refusedCalls == (isLate ? 1 : 0))
      var answer = ""
      while let bytes = try harness.channel.readOutbound(as: ByteBuffer.self) {
        answer += String(decoding: bytes.readableBytesView, as: UTF8.self)
      }
      #expect(answer.contains("grpc-status: 8\r\ngrpc-message: the server has more to do") == isLate)
      #expect(answer.contains("grpc-status: 0"))
      try harness.receive(harness.call(3, timeout: "3S", contentType: web))
      #expect(harness.handledNumbers.last == 3)
    }
  }

  @Test(
    "What is asked of a page is refused as well that waited for longer than people wait, and pages that are only read are not",
    arguments: [false, true])
  func latePage(inPieces: Bool) throws {
    for isLate in [false, true] {
      let harness = try Harness()
      _ = try harness.answers()
      harness.workForOthers(Limits.promptWork)
      let form = harness.call(1, "/page", inPieces: inPieces, contentType: "application/json")
      try harness.receive(harness.filler() + form + harness.page("GET", "/page"))
      harness.workForOthers(isLate ? Limits.pagePatience + .nanoseconds(1) : Limits.pagePatience)
      harness.letTurnsPass()
      let answer = try harness.answers()
      // What is no shorter by Huffman's code stands as it is.
      let text = String(decoding: answer.readableBytesView, as: UTF8.self)
      #expect(text.contains("503") == isLate && text.contains("more to do") == isLate && text.contains("here"))
      #expect(harness.frames(answer).filter(\.isEnd).map(\.type) == [0, 0])
      #expect(harness.pagesMade == (isLate ? 1 : 2) && harness.refused.isEmpty)
      #expect(harness.environment.budget.usage.refusedCalls == (isLate ? 1 : 0))
    }
  }

  @Test("What is sent behind a refusal that waits for a window is no memory, nor a shared connection's fault")
  func behindRefusal() throws {
    for proxy in [nil, NetworkAddress("192.0.2.1")] {
      let harness = try Harness(proxy: proxy)
      // SETTINGS_INITIAL_WINDOW_SIZE 0.
      try harness.receive(harness.settings([0, 4, 0, 0, 0, 0]))
      func beLate() {
        let others = [Other(), Other()]
        harness.turns.wait(others[0])
        harness.workForOthers(Limits.longestWait + .milliseconds(1))
        harness.turns.wait(others[1])
      }
      /// A request of which the last bytes are missing.
      func part(_ number: Int) -> [UInt8] {
        let isWeb = number % 2 == 0
        return harness.call(
          1, isWeb ? "/t.T/Call" : "/page", timeout: "500m", inPieces: true,
          contentType: isWeb ? "application/grpc-web+proto" : "application/json"
        ).dropLast(9 + 3)
      }
      for number in 0..<4 {
        beLate()
        try harness.receive(part(number))
        let stream = harness.lastStream
        harness.letTurnsPass()
        for _ in 0..<3 { try harness.receive(harness.data(16_000, of: stream)) }
        harness.letTurnsPass()
        #expect(harness.environment.budget.usage.bufferedBytes < 2_000)
        #expect(harness.connection.session?.openStreams == number + 1)
      }
      for _ in 0..<50 {
        beLate()
        try harness.receive((0..<10).flatMap { part($0) + harness.reset(harness.lastStream) })
        harness.channel.embeddedEventLoop.advanceTime(by: .milliseconds(1))
      }
      #expect(harness.handledNumbers == [] && harness.pagesMade == 0)
      #expect(harness.environment.budget.usage.refusedCalls == 504 && harness.channel.isActive)
      // That is too long for a window to stay closed.
      harness.channel.embeddedEventLoop.advanceTime(by: .seconds(40))
      #expect(harness.connection.session?.openStreams == 0 && harness.environment.budget.usage.bufferedBytes == 0)
    }
  }

  @Test("A gRPC-Web call that just came is refused while others have waited for their turns for longer than it may")
  func webBehindOthers() throws {
    for isLate in [false, true] {
      let harness = try Harness()
      let others = [Other(), Other()]
      harness.turns.wait(others[0])
      harness.workForOthers(isLate ? .milliseconds(25) + .nanoseconds(1) : .milliseconds(25))
      harness.turns.wait(others[1])
      try harness.receive(harness.call(1, timeout: "500m", contentType: "application/grpc-web+proto"))
      harness.letTurnsPass()
      #expect(harness.handledNumbers == (isLate ? [] : [1]))
    }
  }

  @Test("What a connection has read and not begun waits behind who goes on with something")
  func newBehindBegun() throws {
    let harness = try Harness()
    harness.workForOthers(Limits.promptWork)
    try harness.receive(harness.filler() + harness.call(1))
    let other = Other()
    var handledBefore: [UInt8]?
    other.onTurn = { handledBefore = harness.handledNumbers }
    harness.turns.wait(other)
    harness.letTurnsPass()
    #expect(handledBefore == [] && harness.handledNumbers == [1])
  }

  private final class Other: TurnTaker {
    let source = TurnSource.address(nil)
    let isBegun = true
    var onTurn: () -> Void = {}
    var hasMore = false

    func takeTurn(until end: NIODeadline) -> Bool {
      onTurn()
      return hasMore
    }
  }

  @Test("A call that just came is refused while others have waited for their turns for longer than it may")
  func behindOthers() throws {
    for isLate in [false, true] {
      let harness = try Harness()
      let others = [Other(), Other()]
      harness.turns.wait(others[0])
      harness.workForOthers(isLate ? .milliseconds(25) + .nanoseconds(1) : .milliseconds(25))
      harness.turns.wait(others[1])
      try harness.receive(harness.call(1, timeout: "500m") + harness.call(2, timeout: "2S"))
      harness.letTurnsPass()
      #expect(harness.handledNumbers == (isLate ? [2] : [1, 2]))
      try harness.receive(harness.call(3, timeout: "500m"))
      #expect(harness.handledNumbers.last == 3)
    }
  }

  @Test("Whose source has far fewer calls waiting than another's is not refused for how long others wait")
  func littleOfMuch() throws {
    for calls in [3, 4] {
      let harness = try Harness()
      let large = harness.environment.budget.sources.account(of: NetworkAddress("192.0.2.9"))
      for _ in 0..<calls { harness.environment.budget.callWaits(large) }
      let others = [Other(), Other()]
      harness.turns.wait(others[0])
      harness.workForOthers(.seconds(2))
      harness.turns.wait(others[1])
      try harness.receive(harness.call(1))
      #expect(harness.handledNumbers == (calls == 4 ? [1] : []))
    }
  }

  @Test(
    "R50: Whose source has far fewer calls waiting than another's may wait four times as long for its turn",
    arguments: [
      (3, "500m", .milliseconds(26), false), (4, "500m", .milliseconds(100), true),
      (4, "500m", .milliseconds(100) + .nanoseconds(4), false), (4, nil, Limits.longestWait, true),
      (4, nil, Limits.longestWait + .nanoseconds(1), false),
    ] as [(Int, String?, TimeAmount, Bool)])
  func littleThatWaited(othersCalls: Int, timeout: String?, wait: TimeAmount, isServed: Bool) throws {
    let harness = try Harness()
    let large = harness.environment.budget.sources.account(of: NetworkAddress("192.0.2.9"))
    for _ in 0..<othersCalls { harness.environment.budget.callWaits(large) }
    harness.workForOthers(Limits.promptWork)
    try harness.receive(harness.filler() + harness.call(1, timeout: timeout))
    #expect(harness.handledNumbers == [])
    harness.workForOthers(wait)
    harness.letTurnsPass()
    #expect(harness.handledNumbers == (isServed ? [1] : []))
  }

  @Test("An answer goes out at the end of the turn in which it was made, before another's turn")
  func answerInItsTurn() throws {
    let harness = try Harness()
    while try harness.channel.readOutbound(as: ByteBuffer.self) != nil {}
    harness.workForOthers(Limits.promptWork)
    try harness.receive(harness.call(1, "/t.T/Yield"))
    #expect(harness.handledNumbers == [])
    let other = Other()
    var isOut: Bool?
    other.onTurn = { isOut = try? harness.channel.readOutbound(as: ByteBuffer.self) != nil }
    harness.turns.wait(other)
    harness.letTurnsPass()
    #expect(harness.handledNumbers == [1] && isOut == true)
  }

  @Test("A late call is refused as well when its body comes in pieces, and the rest of it harms nobody")
  func inPieces() throws {
    let harness = try Harness()
    harness.workForOthers(Limits.promptWork)
    try harness.receive(harness.filler() + harness.call(1, inPieces: true) + harness.call(2, inPieces: true))
    harness.workForOthers(Limits.longestWait + .milliseconds(1))
    harness.letTurnsPass()
    #expect(harness.handledNumbers == [] && harness.environment.budget.usage.refusedCalls == 2)
    try harness.receive(harness.call(3, inPieces: true))
    #expect(harness.handledNumbers == [3])
  }

  @Test("Interceptors hear how many calls of which method were refused, and nothing else of them")
  func refusalsAreCounted() throws {
    let harness = try Harness()
    harness.workForOthers(Limits.promptWork)
    try harness.receive(
      harness.filler() + harness.call(1) + harness.call(2) + harness.call(3, "/t.T/Other") + harness.call(4))
    harness.workForOthers(Limits.longestWait + .milliseconds(1))
    harness.letTurnsPass()
    #expect(harness.refused == ["/t.T/Call": 3, "/t.T/Other": 1])
    #expect(harness.finished == 0)
  }

  @Test(
    "A call whose door is shut is refused before its handler, one of another method is not, and the door opens again",
    arguments: [false, true])
  func shut(inPieces: Bool) throws {
    let harness = try Harness()
    let backlog = Backlog()
    harness.gate("/t.T/Call")?.shut(while: backlog)
    try harness.receive(harness.call(1, inPieces: inPieces))
    #expect(harness.handledNumbers == [1])
    backlog.isLong = true
    try harness.receive(
      harness.call(2, inPieces: inPieces) + harness.call(3, "/t.T/Other") + harness.call(4, inPieces: inPieces))
    #expect(harness.handledNumbers == [1, 3])
    #expect(harness.refused == ["/t.T/Call": 2])
    #expect(harness.environment.budget.usage.refusedCalls == 2)
    backlog.isLong = false
    try harness.receive(harness.call(5, inPieces: inPieces))
    #expect(harness.handledNumbers == [1, 3, 5])
  }

  @Test("R50: a shut door is open to a source that has far less waiting than another, and a call says whose it is")
  func shutToMany() throws {
    let harness = try Harness()
    let backlog = Backlog()
    harness.gate("/t.T/Call")?.shut(while: backlog)
    backlog.isLong = true
    for _ in 0..<8 { backlog.entered(NetworkAddress("192.0.2.1")) }
    let own = NetworkAddress("127.0.0.1")
    try harness.receive(harness.call(1))
    #expect(harness.handledNumbers == [1] && harness.holders == [own])
    backlog.entered(own)
    try harness.receive(harness.call(2))
    backlog.entered(own)
    try harness.receive(harness.call(3))
    #expect(harness.handledNumbers == [1, 2] && harness.refused == ["/t.T/Call": 1])
  }

  @Test("A connection whose calls were refused is left unread until there is room, and no other is")
  func unreadUntilRoom() throws {
    let harness = try Harness()
    let backlog = Backlog()
    harness.gate("/t.T/Call")?.shut(while: backlog)
    try harness.receive(harness.call(1))
    #expect(harness.readsOn)
    backlog.isLong = true
    try harness.receive(harness.call(2))
    #expect(!harness.readsOn)
    let reads = harness.reads
    harness.channel.embeddedEventLoop.advanceTime(by: .milliseconds(100))
    #expect(harness.reads == reads)
    backlog.isLong = false
    harness.channel.embeddedEventLoop.advanceTime(by: 2 * Limits.looksAtLine)
    #expect(harness.reads == reads + 1)
    // What came meanwhile is not late.
    try harness.receive(harness.call(3, timeout: "500m"))
    #expect(harness.handledNumbers == [1, 3] && harness.readsOn)
  }

  @Test("Where turns are waited for too long a connection is left unread until that is over")
  func unreadWhileOthersWait() throws {
    let harness = try Harness()
    let loop = harness.channel.embeddedEventLoop
    // While one has its turn the other waits for more than half of what the call below may.
    let others = [Other(), Other()]
    for other in others {
      other.hasMore = true
      other.onTurn = { loop.advanceTime(by: .milliseconds(13)) }
      harness.turns.wait(other)
    }
    harness.workForOthers(.milliseconds(26))
    try harness.channel.writeInbound(ByteBuffer(bytes: harness.call(1, timeout: "500m")))
    #expect(harness.handledNumbers == [] && !harness.readsOn)
    let reads = harness.reads
    loop.advanceTime(by: .milliseconds(100))
    #expect(harness.reads == reads)
    for other in others { (other.hasMore, other.onTurn) = (false, {}) }
    harness.letTurnsPass()
    #expect(harness.reads == reads + 1)
  }

  @Test("A connection is read after a while although there is no room, and what it asks of other methods is served")
  func readAfterAWhile() throws {
    let harness = try Harness()
    let backlog = Backlog()
    backlog.isLong = true
    harness.gate("/t.T/Call")?.shut(while: backlog)
    try harness.receive(harness.call(1))
    #expect(!harness.readsOn)
    let reads = harness.reads
    harness.channel.embeddedEventLoop.advanceTime(by: Limits.refusedPause + 2 * Limits.looksAtLine)
    #expect(harness.reads == reads + 1)
    try harness.receive(harness.call(2, "/t.T/Other", timeout: "500m") + harness.call(3))
    #expect(harness.handledNumbers == [2])
  }

  @Test("What was left unread for long is late by that, also when it has to wait for a turn; what came after it is not")
  func lateByLine() throws {
    for (isThere, isLarge) in [(true, false), (true, true), (false, false)] {
      let harness = try Harness()
      let backlog = Backlog()
      backlog.isLong = true
      harness.gate("/t.T/Call")?.shut(while: backlog)
      try harness.receive(harness.call(1))
      #expect(!harness.readsOn)
      let reads = harness.reads
      #expect(harness.connection.lineEnds(UnreadWait(any: Limits.refusedPause)) && harness.reads == reads + 1)
      if !isThere { harness.connection.hasCaughtUp() }
      if isLarge { harness.workForOthers(Limits.promptWork) }
      // Of these the first could wait for 25 ms, and the second for 750.
      try harness.receive(
        (isLarge ? harness.filler() : []) + harness.call(2, "/t.T/Other", timeout: "500m")
          + harness.call(3, "/t.T/Other", timeout: "60S"))
      harness.connection.hasCaughtUp()
      harness.letTurnsPass()
      #expect(harness.handledNumbers == (isThere ? [3] : [2, 3]))
      try harness.receive(harness.call(4, "/t.T/Other", timeout: "500m"))
      #expect(harness.handledNumbers.last == 4)
    }
  }

  @Test("What a late read had no room for is as late, and no more of it than some reads")
  func fullReads() throws {
    let harness = try Harness()
    let backlog = Backlog()
    backlog.isLong = true
    harness.gate("/t.T/Call")?.shut(while: backlog)
    try harness.receive(harness.call(1))
    #expect(!harness.readsOn && harness.connection.lineEnds(UnreadWait(any: Limits.refusedPause)))
    for number in 0...Limits.fullReads {
      try harness.channel.writeInbound(harness.full(harness.call(UInt8(number), "/t.T/Other", timeout: "500m")))
      #expect(harness.handledNumbers == [] && !harness.readsOn)
      let reads = harness.reads
      for _ in 0..<100 where harness.reads == reads {
        harness.channel.embeddedEventLoop.advanceTime(by: .microseconds(100))
      }
      #expect(harness.reads == reads + 1)
    }
    try harness.channel.writeInbound(harness.full(harness.call(99, "/t.T/Other", timeout: "500m")))
    #expect(harness.handledNumbers == [99])
  }

  @Test("However often a connection was late, what a late read had no room for is as late", arguments: 1...6)
  func fullReadsOfEachPause(pauses: Int) throws {
    let harness = try Harness()
    let backlog = Backlog()
    backlog.isLong = true
    harness.gate("/t.T/Call")?.shut(while: backlog)
    try harness.receive(harness.call(1))
    for number in 1...pauses {
      #expect(!harness.readsOn && harness.connection.lineEnds(UnreadWait(any: Limits.refusedPause)))
      try harness.channel.writeInbound(harness.full(harness.call(UInt8(number), "/t.T/Other", timeout: "500m")))
      harness.connection.hasCaughtUp()
    }
    #expect(!harness.readsOn && harness.connection.lineEnds(UnreadWait(any: .milliseconds(1))))
    try harness.receive(harness.call(99, "/t.T/Other", timeout: "500m"))
    #expect(harness.handledNumbers == [])
  }

  @Test("What comes long after a late read that had no room for more is no rest of it")
  func restOfRead() throws {
    for isRest in [true, false] {
      let harness = try Harness()
      let backlog = Backlog()
      backlog.isLong = true
      harness.gate("/t.T/Call")?.shut(while: backlog)
      try harness.receive(harness.call(1))
      #expect(!harness.readsOn && harness.connection.lineEnds(UnreadWait(any: Limits.refusedPause)))
      try harness.channel.writeInbound(harness.full(harness.call(2, "/t.T/Other", timeout: "500m")))
      harness.connection.hasCaughtUp()
      let pause = isRest ? Limits.restOfRead : Limits.restOfRead + .nanoseconds(1)
      harness.channel.embeddedEventLoop.advanceTime(by: pause)
      try harness.receive(harness.call(3, "/t.T/Other", timeout: "500m"))
      #expect(harness.handledNumbers == (isRest ? [] : [3]))
    }
  }

  @Test("What a late read left, and then waited for longer, is late by the longer wait")
  func restIsLater() throws {
    let harness = try Harness()
    let backlog = Backlog()
    backlog.isLong = true
    harness.gate("/t.T/Call")?.shut(while: backlog)
    try harness.receive(harness.call(1))
    #expect(!harness.readsOn && harness.connection.lineEnds(UnreadWait(any: .milliseconds(26))))
    try harness.channel.writeInbound(harness.full(harness.call(2, "/t.T/Other", timeout: "500m")))
    #expect(!harness.readsOn && harness.connection.lineEnds(UnreadWait(any: Limits.refusedPause)))
    // Which may wait for 100 ms.
    try harness.receive(harness.call(3, "/t.T/Other", timeout: "3S"))
    #expect(harness.handledNumbers == [])
  }

  @Test(
    "What was left unread since a door was shut is late for what needs the same queue, unless its source has little there",
    arguments: [true, false])
  func lateForQueue(isLittle: Bool) throws {
    let harness = try Harness()
    let backlog = Backlog()
    backlog.isLong = true
    for name in ["Call", "Yield"] { harness.gate("/t.T/\(name)")?.shut(while: backlog) }
    harness.gate("/t.T/Other")?.shut(while: Backlog())
    try harness.receive(harness.call(1))
    #expect(!harness.readsOn && harness.handledNumbers == [])
    backlog.isLong = false
    if isLittle {
      for _ in 0..<1000 { backlog.entered(NetworkAddress("192.0.2.9")) }
    }
    #expect(harness.connection.lineEnds(UnreadWait(queued: .milliseconds(26), for: backlog)))
    // Of these each but the last may wait for 25 ms.
    try harness.receive(
      harness.call(2, timeout: "500m") + harness.call(3, "/t.T/Yield", timeout: "500m")
        + harness.call(4, "/t.T/Other", timeout: "500m") + harness.call(5, timeout: "2S"))
    harness.letTurnsPass()
    #expect(harness.handledNumbers.sorted() == (isLittle ? [2, 3, 4, 5] : [4, 5]))
    harness.connection.hasCaughtUp()
    try harness.receive(harness.call(6, timeout: "500m"))
    #expect(harness.handledNumbers.last == 6)
  }

  @Test("What a read of one lateness left, and then waited for another reason, is as late as both")
  func lateForBoth() throws {
    let harness = try Harness()
    let backlog = Backlog()
    backlog.isLong = true
    harness.gate("/t.T/Call")?.shut(while: backlog)
    try harness.receive(harness.call(1))
    backlog.isLong = false
    #expect(!harness.readsOn && harness.connection.lineEnds(UnreadWait(queued: .milliseconds(60), for: backlog)))
    try harness.channel.writeInbound(harness.full(harness.call(2, timeout: "500m")))
    #expect(!harness.readsOn && harness.connection.lineEnds(UnreadWait(any: .milliseconds(30))))
    try harness.receive(
      harness.call(3, timeout: "1S") + harness.call(4, "/t.T/Other", timeout: "500m")
        + harness.call(5, "/t.T/Other", timeout: "1S"))
    harness.letTurnsPass()
    #expect(harness.handledNumbers == [5])
  }

  @Test("Who was never left unread is not late")
  func neverUnread() throws {
    let harness = try Harness()
    let backlog = Backlog()
    backlog.isLong = true
    harness.gate("/t.T/Call")?.shut(while: backlog)
    // Nobody has asked for more when the line ends.
    try harness.channel.writeInbound(ByteBuffer(bytes: harness.call(1)))
    #expect(harness.connection.lineEnds(UnreadWait(any: Limits.refusedPause)))
    try harness.receive(harness.call(2, "/t.T/Other", timeout: "500m"))
    #expect(harness.handledNumbers == [2])
  }

  @Test("What is read after a late read that had room for more is not late")
  func readWithRoom() throws {
    let harness = try Harness()
    let backlog = Backlog()
    backlog.isLong = true
    harness.gate("/t.T/Call")?.shut(while: backlog)
    try harness.receive(harness.call(1))
    #expect(!harness.readsOn && harness.connection.lineEnds(UnreadWait(any: Limits.refusedPause)))
    var read = harness.full(harness.call(2, "/t.T/Other", timeout: "500m"))
    read.reserveCapacity(4096)
    try harness.channel.writeInbound(read)
    #expect(harness.handledNumbers == [])
    harness.connection.hasCaughtUp()
    try harness.receive(harness.call(3, "/t.T/Other", timeout: "500m"))
    #expect(harness.handledNumbers == [3])
  }

  @Test("What cannot be read yet when its time in the line is over is not late for ever")
  func unwritable() throws {
    let harness = try Harness()
    let backlog = Backlog()
    backlog.isLong = true
    harness.gate("/t.T/Call")?.shut(while: backlog)
    try harness.receive(harness.call(1))
    #expect(!harness.readsOn)
    harness.channel.isWritable = false
    harness.channel.pipeline.fireChannelWritabilityChanged()
    #expect(!harness.connection.lineEnds(UnreadWait(any: Limits.refusedPause)))
    harness.channel.isWritable = true
    harness.channel.pipeline.fireChannelWritabilityChanged()
    harness.letTurnsPass()
    try harness.receive(harness.call(2, "/t.T/Other", timeout: "500m"))
    #expect(harness.handledNumbers == [2])
  }

  @Test("A connection that has gone is not read")
  func closed() throws {
    let harness = try Harness()
    let backlog = Backlog()
    backlog.isLong = true
    harness.gate("/t.T/Call")?.shut(while: backlog)
    try harness.receive(harness.call(1))
    #expect(!harness.readsOn)
    try harness.channel.close().wait()
    #expect(!harness.connection.lineEnds(UnreadWait()))
  }

  @Test("A connection that is to go is read to its end")
  func drained() throws {
    let harness = try Harness()
    let backlog = Backlog()
    backlog.isLong = true
    harness.gate("/t.T/Call")?.shut(while: backlog)
    try harness.receive(harness.call(1))
    #expect(!harness.readsOn)
    let reads = harness.reads
    harness.channel.pipeline.fireUserInboundEventTriggered(ServerDrain())
    #expect(harness.reads == reads + 1)
    try harness.receive(harness.call(2))
    #expect(harness.readsOn && harness.refused == ["/t.T/Call": 2])
  }

  @Test("R50: what handlers of a proxy's clients go on with is done by turns of the clients, not in the calls' order")
  func turnsOfClients() throws {
    let harness = try Harness(proxy: NetworkAddress("127.0.0.1"))
    harness.workForOthers(Limits.promptWork)
    // Of different header blocks.
    let many = (1...6).flatMap { harness.call($0, "/t.T/Yield", timeout: "\($0)M", client: "192.0.2.1") }
    try harness.receive(many + harness.call(7, "/t.T/Yield", client: "192.0.2.2"))
    #expect(harness.handledNumbers == [])
    // Each takes a whole turn.
    harness.whenYielded { [unowned harness] in harness.channel.embeddedEventLoop.advanceTime(by: Limits.turn) }
    harness.letTurnsPass()
    #expect(Set(harness.handledNumbers) == Set(1...7))
    let place = try #require(harness.handledNumbers.firstIndex(of: 7))
    #expect(place <= 2, "\(harness.handledNumbers)")
  }

  @Test("R50: on a shared connection who has little of what waits is served, and who has much is refused as late")
  func littleOfProxys() throws {
    let harness = try Harness(proxy: NetworkAddress("127.0.0.1"))
    let large = harness.environment.budget.sources.account(of: NetworkAddress("192.0.2.1"))
    for _ in 0..<4 { harness.environment.budget.callWaits(large) }
    let others = [Other(), Other()]
    harness.turns.wait(others[0])
    harness.workForOthers(.milliseconds(900))
    harness.turns.wait(others[1])
    try harness.receive(harness.call(1, client: "192.0.2.1") + harness.call(2, client: "192.0.2.2"))
    #expect(harness.handledNumbers == [2] && harness.refused == ["/t.T/Call": 1])
  }

  @Test("R50: what waited with others' bytes on a shared connection is refused of who has much, then of everybody")
  func lateBytesOfProxys() throws {
    for (waited, handled) in [(800, [2]), (1100, [])] as [(Int64, [UInt8])] {
      let harness = try Harness(proxy: NetworkAddress("127.0.0.1"))
      let large = harness.environment.budget.sources.account(of: NetworkAddress("192.0.2.1"))
      for _ in 0..<4 { harness.environment.budget.callWaits(large) }
      harness.workForOthers(Limits.promptWork)
      try harness.receive(
        harness.filler() + harness.call(1, client: "192.0.2.1") + harness.call(2, client: "192.0.2.2"))
      harness.workForOthers(.milliseconds(waited))
      harness.letTurnsPass()
      #expect(harness.handledNumbers == handled)
    }
  }

  @Test("Who is served in the same pass, and whoever comes through a proxy, is read on although calls are refused")
  func noPause() throws {
    let backlog = Backlog()
    backlog.isLong = true
    func harness(proxy: NetworkAddress? = nil) throws -> Harness {
      let harness = try Harness(proxy: proxy)
      harness.gate("/t.T/Call")?.shut(while: backlog)
      return harness
    }
    let served = try harness()
    try served.receive(served.call(1, "/t.T/Other") + served.call(2))
    #expect(served.handledNumbers == [1] && served.readsOn)
    func read(refusing count: UInt8) throws -> Bool {
      let harness = try harness()
      let served = harness.call(0, "/t.T/Other")
      try harness.receive(served + (1...count).flatMap { harness.call($0) })
      #expect(harness.handledNumbers == [0] && harness.refused == ["/t.T/Call": Int(count)])
      return harness.readsOn
    }
    let most = UInt8(Limits.refusedForEachServed)
    #expect(try read(refusing: most))
    #expect(try !read(refusing: most + 1), "one call that is served is no reason to read any number that is not")
    let proxied = try harness(proxy: NetworkAddress("192.0.2.1"))
    try proxied.receive(proxied.call(1))
    #expect(proxied.handledNumbers == [] && proxied.readsOn)
  }

  @Test("A handler shuts the door of its own method alone, and of one that is essential in vain")
  func shutByHandlers() throws {
    let harness = try Harness()
    try harness.receive(harness.call(1, "/t.T/Shut") + harness.call(2, "/t.T/Shut") + harness.call(3))
    #expect(harness.handledNumbers == [1, 3])
    #expect(harness.refused == ["/t.T/Shut": 1])
    harness.gate("/t.T/Health")?.shut(while: harness.backlog)
    try harness.receive(harness.call(4, "/t.T/Health") + harness.call(5, "/t.T/Shut"))
    #expect(harness.handledNumbers == [1, 3, 4])
    harness.backlog.isLong = false
    try harness.receive(harness.call(6, "/t.T/Shut"))
    #expect(harness.handledNumbers == [1, 3, 4, 6])
  }

  @Test("A health check is answered however late it is")
  func essential() throws {
    let harness = try Harness()
    harness.workForOthers(Limits.promptWork)
    try harness.receive(harness.filler() + harness.call(1) + harness.call(2, "/t.T/Health"))
    harness.workForOthers(.seconds(10))
    harness.letTurnsPass()
    #expect(harness.handledNumbers == [2])
  }

  @Test("What a connection waits for itself makes none of its calls late")
  func ownWork() throws {
    let harness = try Harness()
    harness.workForOthers(Limits.promptWork)
    try harness.receive(harness.filler() + harness.call(1))
    let now = harness.channel.eventLoop.now
    harness.executor.worked(from: now, until: now + .seconds(10))
    harness.letTurnsPass()
    // What is written of its answers is its own as well.
    let before = harness.executor.othersWork
    #expect(harness.executor.promptly { harness.channel.embeddedEventLoop.advanceTime(by: .seconds(10)) })
    #expect(harness.executor.othersWork == before)
    #expect(harness.handledNumbers == [1])
    #expect(harness.environment.budget.usage.refusedCalls == 0)
  }

  @Test("What comes while tasks of the connection wait too long for their turn is refused")
  func lateTasks() throws {
    let harness = try Harness()
    harness.workForOthers(Limits.promptWork)
    // There is no time for tasks before the loop has looked at its sockets.
    Task.immediate(executorPreference: harness.executor) { await Task.yield() }
    harness.channel.embeddedEventLoop.run()
    #expect(harness.executor.isBehind)
    harness.workForOthers(Limits.longestWait + .milliseconds(1))
    try harness.receive(harness.call(1))
    #expect(harness.handledNumbers == [] && harness.environment.budget.usage.refusedCalls == 1)
    harness.letTurnsPass()
    try harness.receive(harness.call(2))
    #expect(harness.handledNumbers == [2])
  }

  @Test("What is read after reading was held has waited since the socket was last read")
  func heldReads() {
    var wait = WaitForOthers()
    wait.read(.seconds(1), isMore: false, isFew: false)
    #expect(wait.length(.seconds(1)) == .zero)
    wait.held()
    wait.read(.seconds(3), isMore: true, isFew: false)
    #expect(wait.length(.seconds(4)) == .seconds(3))
    wait.held()
    wait.goesOn(.seconds(5))
    wait.read(.seconds(5) + Limits.looksAfterHold, isMore: false, isFew: false)
    #expect(wait.length(.seconds(5) + Limits.looksAfterHold) == .seconds(2) + Limits.looksAfterHold)
    wait.read(.seconds(7), isMore: false, isFew: false)
    #expect(wait.length(.seconds(7)) == .zero)
  }

  @Test(
    "A call that is read after reading was held has waited for half of that, and many for all of it",
    arguments: [false, true])
  func heldConnection(isMany: Bool) throws {
    let harness = try Harness()
    harness.workForOthers(Limits.promptWork)
    Task.immediate(executorPreference: harness.executor) { await Task.yield() }
    harness.channel.embeddedEventLoop.run()
    #expect(harness.executor.isBehind && !harness.readsOn)
    // More than the 100 ms for which the call may wait, and not twice as long.
    harness.workForOthers(.milliseconds(150))
    harness.letTurnsPass()
    #expect(!harness.executor.isBehind && harness.readsOn)
    try harness.receive((isMany ? harness.filler() : []) + harness.call(1, timeout: "3S"))
    harness.letTurnsPass()
    #expect(harness.handledNumbers == (isMany ? [] : [1]))
    #expect(harness.environment.budget.usage.refusedCalls == (isMany ? 1 : 0))
  }

  @Test("A few calls that are read after reading was held count as having come in the middle of it")
  func heldReadOfFew() {
    var wait = WaitForOthers()
    wait.read(.seconds(1), isMore: false, isFew: true)
    #expect(wait.length(.seconds(1)) == .zero)
    wait.held()
    wait.goesOn(.seconds(5))
    wait.read(.seconds(5), isMore: false, isFew: true)
    #expect(wait.length(.seconds(5)) == .seconds(2))
    #expect(wait.length(.seconds(6)) == .seconds(3))
    wait.read(.seconds(7), isMore: false, isFew: true)
    #expect(wait.length(.seconds(7)) == .zero)
  }

  @Test("What comes long after reading went on has just come, however much was done for others meanwhile")
  func quietAfterHold() {
    var wait = WaitForOthers()
    wait.read(.seconds(1), isMore: false, isFew: false)
    wait.held()
    wait.goesOn(.seconds(2))
    wait.read(.seconds(60), isMore: false, isFew: false)
    #expect(wait.length(.seconds(60)) == .zero)
  }

  @Test("A call whose deadline has passed when its request is whole is not begun")
  func expired() throws {
    let harness = try Harness()
    try harness.receive(harness.call(1, timeout: "0n") + harness.call(2))
    #expect(harness.handledNumbers == [2])
  }
}
