import Callers
import GRPC
import Logging
import NIOCore
import NIOEmbedded
import Testing
import TransportTestSupport

@testable import TransportServer

@Suite("gRPC-Web calls over HTTP/1.1 that come when there is too much to do, by a clock that the test turns")
struct LateWebCallsTests {
  /// A connection without a socket, and what the loop does for others.
  private final class Connection {
    let channel = EmbeddedChannel()
    let turns: LoopTurns
    let executor: EventLoopTaskExecutor
    let environment: ServerEnvironment
    let account: SourceAccount

    private final class Log: @unchecked Sendable {
      // Unchecked: the test and its event loop share one thread.
      var handled: [UInt8] = []
      var pageWork: () -> Void = {}
      var begun = 0
      var finished = 0
      var refused = 0
    }

    private struct Witness: ServerInterceptor {
      let log: Log

      func willHandle(_ context: ServerContext) throws(RPCError) { log.begun += 1 }
      func didRefuse(_ calls: Int, of method: RPCMethod, status: StatusCode) { log.refused += calls }
      func didFinish(_ context: ServerContext, status: StatusCode, duration: Duration) { log.finished += 1 }
    }

    private let log = Log()

    static let origin = "https://app.example"

    /// - Parameter hasRoom: whether the server has room for more of the peer's.
    init(hasRoom: Bool = true) throws {
      let log = log
      func route(_ name: String) -> RPCRoute {
        .unary(RPCMethod(path: "/t.T/\(name)", kind: .unary)) { (request: Blob, _) async throws(RPCError) -> Blob in
          log.handled += request.bytes
          return request
        }
      }
      let made: Page.Handler = { _ in
        log.pageWork()
        return PageResponse(text: "here")
      }
      environment = ServerEnvironment(
        configuration: RPCServer.Configuration(host: "127.0.0.1", port: 0),
        router: Router([route("Call"), route("Health").essential()]),
        interceptors: [Witness(log: log)],
        pages: PageTable(
          [Page("GET", "/page", made), Page("POST", "/page", made)],
          cors: try #require(CORSPolicy(allowing: [Self.origin]))
        ),
        statusDetailsEncoder: { _ in nil },
        logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
      )
      turns = LoopTurns(channel.eventLoop)
      executor = EventLoopTaskExecutor(turns)
      channel.embeddedEventLoop.advanceTime(by: .seconds(1))
      account =
        hasRoom
        ? environment.budget.sources.account(of: NetworkAddress("127.0.0.1")) : SourceAccount(isTurnedAway: true)
      let peer = ConnectionPeer(Peer(address: "127.0.0.1", port: 1), account: account)
      try PageHandler.addHandlers(
        to: channel.pipeline.syncOperations, environment: environment, executor: executor, peer: peer)
      try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    }

    deinit {
      _ = try? channel.close().wait()
      channel.embeddedEventLoop.advanceTime(by: .seconds(1))
      _ = try? channel.finish(acceptAlreadyClosed: true)
    }

    var handledNumbers: [UInt8] { log.handled }
    /// What interceptors saw begin and end, and heard of what was refused before that.
    var begun: Int { log.begun }
    var finished: Int { log.finished }
    var refused: Int { log.refused }

    func whilePageIsMade(_ work: @escaping () -> Void) { log.pageWork = work }

    /// A call whose message is `number`.
    func call(_ number: UInt8, _ path: String = "/t.T/Call", timeout: String) -> [UInt8] {
      let body = Blob([number]).frame
      let head =
        "POST \(path) HTTP/1.1\r\nhost: x\r\ncontent-type: application/grpc-web+proto\r\n"
        + "content-length: \(body.count)\r\ngrpc-timeout: \(timeout)\r\n\r\n"
      return Array(head.utf8) + body
    }

    /// A request for a page, so long that nothing behind it is parsed in the same piece.
    func page() -> [UInt8] {
      let (beginning, end) = ("GET /page HTTP/1.1\r\nhost: x\r\nx: ", "\r\n\r\n")
      let rest = Limits.pageBytesBetweenLooks - beginning.utf8.count - end.utf8.count
      return Array((beginning + String(repeating: "x", count: rest) + end).utf8)
    }

    func receive(_ bytes: [UInt8]) throws {
      try channel.writeInbound(ByteBuffer(bytes: bytes))
      channel.embeddedEventLoop.run()
    }

    func workForOthers(_ time: TimeAmount) {
      let start = channel.eventLoop.now
      channel.embeddedEventLoop.advanceTime(by: .nanoseconds(1))
      turns.worked(from: start, until: start + time)
    }

    func letTurnsPass() { channel.embeddedEventLoop.advanceTime(by: .milliseconds(100)) }

    func answers() throws -> String {
      var answers = ""
      while let bytes = try channel.readOutbound(as: ByteBuffer.self) {
        answers += String(decoding: bytes.readableBytesView, as: UTF8.self)
      }
      return answers
    }
  }

  private final class Other: TurnTaker {
    let source = TurnSource.address(nil)
    let isBegun = true

    func takeTurn(until end: NIODeadline) -> Bool { false }
  }

  @Test("A call that just came is refused while others have waited for their turns for longer than it may")
  func behindOthers() throws {
    for isLate in [false, true] {
      let connection = try Connection()
      let others = [Other(), Other()]
      connection.turns.wait(others[0])
      connection.workForOthers(isLate ? .milliseconds(100) + .nanoseconds(1) : .milliseconds(100))
      connection.turns.wait(others[1])
      try connection.receive(connection.call(1, timeout: "3S"))
      #expect(connection.handledNumbers == (isLate ? [] : [1]))
      #expect(connection.environment.budget.usage.refusedCalls == (isLate ? 1 : 0))
      try connection.receive(connection.call(2, "/t.T/Health", timeout: "3S"))
      #expect(connection.handledNumbers.last == 2)
      connection.letTurnsPass()
      // The connection is of use for the next call.
      try connection.receive(connection.call(3, timeout: "3S"))
      #expect(connection.handledNumbers.last == 3)
      let answers = try connection.answers()
      #expect(answers.contains("grpc-status: 8\r\ngrpc-message: the server has more to do") == isLate)
      #expect(answers.split(separator: "HTTP/1.1 200").count == 3 && connection.channel.isActive)
    }
  }

  @Test("What is asked of a page is refused that waited for longer than people wait, and a page that is read is not")
  func page() throws {
    let form = Array("POST /page HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}".utf8)
    for isLate in [false, true] {
      let connection = try Connection()
      let others = [Other(), Other()]
      connection.turns.wait(others[0])
      connection.workForOthers(isLate ? Limits.pagePatience + .nanoseconds(1) : Limits.pagePatience)
      connection.turns.wait(others[1])
      var made = 0
      connection.whilePageIsMade { made += 1 }
      try connection.receive(form)
      let answers = try connection.answers()
      #expect(answers.hasPrefix(isLate ? "HTTP/1.1 503 " : "HTTP/1.1 200 ") && made == (isLate ? 0 : 1))
      #expect(answers.contains("retry-after: ") == isLate && connection.channel.isActive)
      #expect(connection.environment.budget.usage.refusedCalls == (isLate ? 1 : 0))
      try connection.receive(connection.page())
      let read = try connection.answers()
      #expect(read.hasPrefix("HTTP/1.1 200 "))
      connection.letTurnsPass()
      try connection.receive(form)
      let next = try connection.answers()
      #expect(next.hasPrefix("HTTP/1.1 200 "))
    }
  }

  @Test("A page of another origin that may read answers reads also that it was refused, and for how long to wait")
  func otherOrigin() throws {
    for (hasRoom, origin) in [(false, Connection.origin), (false, "https://other.example"), (true, Connection.origin)] {
      let connection = try Connection(hasRoom: hasRoom)
      let others = [Other(), Other()]
      connection.turns.wait(others[0])
      connection.workForOthers(Limits.pagePatience + .nanoseconds(1))
      connection.turns.wait(others[1])
      // What is only read is not late.
      let request = hasRoom ? "POST /page HTTP/1.1\r\ncontent-length: 0\r\n" : "GET /page HTTP/1.1\r\n"
      try connection.receive(Array("\(request)host: x\r\norigin: \(origin)\r\n\r\n".utf8))
      let answer = try connection.answers()
      #expect(answer.hasPrefix("HTTP/1.1 503 ") && answer.contains(hasRoom ? "more to do" : "no room"))
      let mayRead = origin == Connection.origin
      #expect(answer.contains("access-control-allow-origin: \(origin)\r\n") == mayRead)
      #expect(answer.contains(", retry-after\r\n") == mayRead && answer.contains("vary: Origin\r\n"))
    }
  }

  @Test("A late call is refused when it is whole, which keeps the connection, or when it is let go before that")
  func inPieces() throws {
    for end in ["whole", "shed", "displaced", "gone"] {
      let connection = try Connection()
      let call = connection.call(1, timeout: "3S")
      let others = [Other(), Other()]
      connection.turns.wait(others[0])
      connection.workForOthers(.milliseconds(101))
      connection.turns.wait(others[1])
      try connection.receive(Array(call.dropLast()))
      connection.letTurnsPass()
      let early = try connection.answers()
      #expect(early == "" && connection.refused == 0)
      switch end {
      case "whole": try connection.receive(Array(call.suffix(1)))
      case "shed":
        let excess = ServerShed.Excess(connection.account, 1)
        connection.channel.pipeline.fireUserInboundEventTriggered(ServerShed(calls: [], bytes: [excess]))
      case "displaced": connection.channel.pipeline.fireUserInboundEventTriggered(ServerDisplacement())
      default: connection.channel.close(promise: nil)
      }
      connection.letTurnsPass()
      let answers = try connection.answers()
      #expect(answers.contains("grpc-status: 8") == (end != "gone") && connection.handledNumbers == [], "\(end)")
      #expect(answers.contains("more to do") == (end == "whole") && connection.channel.isActive == (end == "whole"))
      #expect(connection.begun == 0 && connection.finished == 0 && connection.refused == 1, "\(end)")
    }
  }

  @Test("A call whose door is shut is refused when it is whole, which keeps the connection, and the next one is served")
  func shut() throws {
    let connection = try Connection()
    let backlog = Backlog()
    backlog.isLong = true
    connection.environment.gate(of: RPCMethod(path: "/t.T/Call", kind: .unary))?.shut(while: backlog)
    for number: UInt8 in 1...2 {
      try connection.receive(connection.call(number, timeout: "3S"))
      let answers = try connection.answers()
      #expect(answers.contains("grpc-status: \(number == 1 ? 8 : 0)") && connection.channel.isActive)
      backlog.isLong = false
    }
    #expect(connection.handledNumbers == [2] && connection.refused == 1 && connection.begun == 1)
    #expect(connection.environment.budget.usage.refusedCalls == 1)
  }

  @Test("A call of whose source little waits is not refused for how long others wait, and for its own wait later")
  func little() throws {
    for (othersCalls, own, isServed) in [(3, 0, false), (4, 0, true), (4, 400, true), (4, 401, false)] {
      let connection = try Connection()
      let loop = connection.channel.embeddedEventLoop
      let large = connection.environment.budget.sources.account(of: NetworkAddress("192.0.2.9"))
      for _ in 0..<othersCalls { connection.environment.budget.callWaits(large) }
      if own == 0 {
        let others = [Other(), Other()]
        connection.turns.wait(others[0])
        connection.workForOthers(.seconds(2))
        connection.turns.wait(others[1])
        try connection.receive(connection.call(1, timeout: "3S"))
      } else {
        connection.whilePageIsMade { loop.advanceTime(by: .seconds(2)) }
        try connection.receive(connection.page() + connection.call(1, timeout: "3S"))
        connection.workForOthers(.milliseconds(Int64(own)))
        connection.letTurnsPass()
      }
      #expect(connection.handledNumbers == (isServed ? [1] : []), "\(othersCalls), \(own)")
    }
  }

  @Test("Bytes that waited for a turn are late by what the loop did for others, and not by the connection's work")
  func bytesThatWaited() throws {
    for (othersWork, isLate) in [(0, false), (100, false), (101, true)] as [(Int64, Bool)] {
      let connection = try Connection()
      let loop = connection.channel.embeddedEventLoop
      // Its turn is over with this.
      connection.whilePageIsMade { loop.advanceTime(by: .milliseconds(200)) }
      try connection.receive(connection.page() + connection.page() + connection.call(1, timeout: "3S"))
      #expect(connection.handledNumbers == [])
      connection.workForOthers(.milliseconds(othersWork))
      // The second page's time ends after that of the turns.
      for _ in 0..<5 { connection.letTurnsPass() }
      #expect(connection.handledNumbers == (isLate ? [] : [1]))
      try connection.receive(connection.call(2, timeout: "3S"))
      #expect(connection.handledNumbers.last == 2)
    }
  }
}
