import GRPC
import Logging
import NIOCore
import NIOEmbedded
import Testing

@testable import TransportServer

@Suite("The pace of requests over HTTP/1.1") struct RequestPacerTests {
  /// Counts what goes on to be parsed.
  private final class Tap: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    var bytes = 0

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      bytes += unwrapInboundIn(data).readableBytes
      context.fireChannelRead(data)
    }
  }

  /// What is written stays here until the end.
  private final class FullSocket: ChannelOutboundHandler {
    typealias OutboundIn = ByteBuffer
    private var promises: [EventLoopPromise<Void>] = []
    private(set) var writes = 0

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
      writes += 1
      if let promise { promises.append(promise) }
    }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
      for promise in promises { promise.fail(ChannelError.ioOnClosedChannel) }
      promises = []
      context.close(mode: mode, promise: promise)
    }
  }

  /// Keeps whoever comes until it opens.
  private final class Gate: @unchecked Sendable {
    // Unchecked: the test and its event loop share one thread.
    private var waiting: [CheckedContinuation<Void, Never>] = []

    var count: Int { waiting.count }

    func pass() async { await withCheckedContinuation { waiting.append($0) } }

    func open() {
      for continuation in waiting { continuation.resume() }
      waiting = []
    }
  }

  /// A connection of HTTP/1.1 to one page.
  private struct Connection {
    let channel = EmbeddedChannel()
    let gate = Gate()
    let tap = Tap()
    let peer = ConnectionPeer(Peer(address: "127.0.0.1", port: 1))
    let environment: ServerEnvironment

    init() throws {
      let gate = gate
      let page = Page("POST", "/") { _ in
        await gate.pass()
        return PageResponse(text: "here")
      }
      environment = ServerEnvironment(
        configuration: RPCServer.Configuration(host: "127.0.0.1", port: 0),
        router: Router([]),
        interceptors: [],
        pages: PageTable([page]),
        statusDetailsEncoder: { _ in nil },
        logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
      )
      let pipeline = channel.pipeline.syncOperations
      try PageHandler.addHandlers(
        to: pipeline, environment: environment, executor: EventLoopTaskExecutor(channel.eventLoop), peer: peer)
      try pipeline.addHandler(tap, position: .after(pipeline.handler(type: RequestPacer.self)))
      try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    }

    /// What the server's budget knows of.
    var counted: Int { environment.budget.usage.bufferedBytes }

    func send(_ text: String) throws {
      try channel.writeInbound(ByteBuffer(string: text))
      letTurnsPass()
    }

    func letTurnsPass() { channel.embeddedEventLoop.advanceTime(by: .milliseconds(100)) }

    /// Lets the page answer, and returns what came of it.
    func answers() throws -> String {
      gate.open()
      channel.embeddedEventLoop.run()
      var answers = ""
      while let bytes = try channel.readOutbound(as: ByteBuffer.self) { answers += String(buffer: bytes) }
      return answers
    }
  }

  @Test("Requests that come together become requests one by one: those behind one that waits stay the bytes they were")
  func pipelining() throws {
    let connection = try Connection()
    let (channel, gate, tap) = (connection.channel, connection.gate, connection.tap)
    let request = "POST / HTTP/1.1\r\nhost: x\r\n\r\n"
    let count = Limits.readBytes / request.utf8.count
    try channel.writeInbound(ByteBuffer(string: String(repeating: request, count: count)))
    var answers = ""
    for answered in 0..<count {
      channel.embeddedEventLoop.advanceTime(by: Limits.roundPause)
      #expect(gate.count == 1)
      // A piece may end within a request.
      #expect(tap.bytes <= (answered + 1) * request.utf8.count + Limits.pageBytesBetweenLooks)
      // What waits counts as what it is, and the request that is answered with what came with it.
      let waiting = count * request.utf8.count - tap.bytes
      #expect((waiting...waiting + Limits.pageBytesBetweenLooks).contains(connection.counted))
      answers += try connection.answers()
    }
    #expect(answers.split(separator: "HTTP/1.1 200").count == count)
    #expect(connection.counted == 0 && connection.environment.budget.usage.calls == 0)
    try channel.close().wait()
  }

  @Test("A request counts from the first byte of its head until it is answered, be it the first one or not")
  func heads() throws {
    let connection = try Connection()
    for _ in 0..<3 {
      let head = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5000\r\nx: " + String(repeating: "x", count: 10_000)
      // Each line's end is one Character.
      let part = String(head.prefix(7_000))
      try connection.send(part)
      #expect(connection.counted == part.utf8.count)
      try connection.send(head.dropFirst(7_000) + "\r\n\r\n")
      #expect(connection.counted == head.utf8.count + 4)
      try connection.send(String(repeating: "b", count: 5_000))
      #expect(connection.counted == head.utf8.count + 5_004)
      #expect(try connection.answers().contains("here"))
      #expect(connection.counted == 0)
    }
    try connection.channel.close().wait()
  }

  @Test("A head that does not end is given up for others, and counts no more", arguments: [true, false])
  func unfinishedHead(isShed: Bool) throws {
    let connection = try Connection()
    try connection.send("POST / HTTP/1.1\r\nx: " + String(repeating: "x", count: 9_000))
    #expect(connection.counted > 9_000)
    if isShed {
      let shed = ServerShed(calls: [], bytes: [ServerShed.Excess(connection.peer.account, 1)])
      connection.channel.pipeline.fireUserInboundEventTriggered(shed)
      connection.letTurnsPass()
    } else {
      connection.channel.close(promise: nil)
    }
    #expect(connection.counted == 0 && !connection.channel.isActive)
    #expect(try connection.answers().contains("HTTP/1.1 503 ") == isShed)
  }

  @Test("Who is let go for others' sake is told so, unless nothing was asked for or its answers are not taken")
  func told() throws {
    let asked = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n"
    let cases = [("", 0), ("POST", 1), (asked, 1), (asked + "b", 1), (asked + "bb", 1), (asked + "bb" + asked, 1)]
    for (sent, answers) in cases {
      for isShed in [false, true] {
        let connection = try Connection()
        if sent != "" { try connection.send(sent) }
        // Of two of its requests one is told so, which ends the connection.
        if isShed, sent.hasSuffix("bb") || connection.counted > 0 {
          let excess = ServerShed.Excess(connection.peer.account, 1)
          let shed = ServerShed(calls: [excess], bytes: connection.counted > 0 ? [excess] : [])
          connection.channel.pipeline.fireUserInboundEventTriggered(shed)
        } else {
          connection.channel.pipeline.fireUserInboundEventTriggered(ServerDisplacement())
        }
        connection.letTurnsPass()
        let told = try connection.answers()
        let refusals = told.split(separator: "HTTP/1.1 503 ", omittingEmptySubsequences: false).count - 1
        #expect(refusals == answers, "\(sent)")
        #expect(!told.contains("here") && !connection.channel.isActive && connection.counted == 0)
        #expect(connection.environment.budget.usage.calls == 0)
      }
    }
    let deaf = try Connection()
    let socket = FullSocket()
    try deaf.channel.pipeline.syncOperations.addHandler(socket, position: .first)
    try deaf.send(asked + "bb")
    _ = try deaf.answers()
    try deaf.send("POST")
    let writes = socket.writes
    #expect(writes > 0)
    deaf.channel.pipeline.fireUserInboundEventTriggered(ServerDisplacement())
    #expect(!deaf.channel.isActive && socket.writes == writes)
  }

  @Test(
    "What the parser keeps and does not count ends the connection: blanks before a field's value, wherever fields are",
    arguments: [
      "POST / HTTP/1.1\r\nx:", "POST /", "\r\n",
      "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx:",
      "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5;x=",
    ])
  func blanks(_ beginning: String) throws {
    let connection = try Connection()
    let filler = beginning.hasSuffix("\r\n") ? "\r\n" : " "
    try connection.send(beginning)
    var most = 0
    for _ in 0..<200 where connection.channel.isActive {
      try connection.send(String(repeating: filler, count: 1000 / filler.utf8.count))
      most = max(most, connection.counted)
    }
    #expect(!connection.channel.isActive)
    #expect(most <= Limits.unparsedPageBytes && connection.counted == 0)
  }

  @Test("R50: a head of the usual size counts while it comes, and not while its request is answered")
  func usualHead() throws {
    let connection = try Connection()
    try connection.send("POST / HTTP/1.1\r\nhost: x\r\nx: " + String(repeating: "x", count: 3_000))
    #expect(connection.counted > 3_000)
    try connection.send("\r\n\r\n")
    #expect(connection.gate.count == 1 && connection.counted == 0)
    #expect(try connection.answers().contains("here"))
    try connection.channel.close().wait()
  }
}
