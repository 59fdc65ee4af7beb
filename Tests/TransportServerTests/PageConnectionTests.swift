import GRPC
import Glibc
import Logging
import NIOCore
import NIOEmbedded
import Synchronization
import Testing
import TransportTestSupport

@testable import TransportServer

@Suite("Connections of HTTP/1.1 that end at any time") struct PageConnectionTests {
  /// What a client may ask for, well or badly.
  private static let requests: [(name: String, text: String)] = [
    ("a page", "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"),
    ("a page that waits", Self.later),
    ("a page that waits for ever", Self.wait),
    ("a large page", "GET /large HTTP/1.1\r\nhost: x\r\n\r\n"),
    ("the head of a page", "HEAD /large HTTP/1.1\r\nhost: x\r\n\r\n"),
    (
      "a page that asks first", "POST /form HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\na=b"
    ),
    ("chunks", "POST /form HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\na=b\r\n0\r\nx: y\r\n\r\n"),
    ("a page that ends", "GET /healthz HTTP/1.0\r\n\r\n"),
    ("a page without a host", "GET /healthz HTTP/1.1\r\n\r\n"),
    ("no page", "\u{1}\r\n\r\n"),
    ("an unfinished page", "POST /form HTTP/1.1\r\nhost: x\r\ncontent-length: 400\r\n\r\n"),
    ("a call", web("/t.T/Echo", "\0\0\0\0\u{2}hi")),
    ("a call that waits", web("/t.T/Yield", "\0\0\0\0\u{2}hi")),
    ("a call with many answers", web("/t.T/Many", "\0\0\0\0\u{1}\u{3}")),
    ("a refused call", web("/none/none", "\0\0\0\0\0")),
    ("a broken call", web("/t.T/Echo", "\0\0\0\0\u{9}hi")),
    ("a call with two messages", web("/t.T/Echo", "\0\0\0\0\0\0\0\0\0\0")),
    ("an unfinished call", "POST /t.T/Echo HTTP/1.1\r\nhost: x\r\ncontent-type: application/grpc-web\r\n\r\n"),
    ("another protocol", "GET /healthz HTTP/1.1\r\nhost: x\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"),
  ]

  private static let later = "GET /later HTTP/1.1\r\nhost: x\r\n\r\n"
  private static let wait = "GET /wait HTTP/1.1\r\nhost: x\r\n\r\n"

  private static func web(_ path: String, _ body: String) -> String {
    "POST \(path) HTTP/1.1\r\nhost: x\r\ncontent-type: application/grpc-web+proto\r\n"
      + "content-length: \(body.utf8.count)\r\n\r\n\(body)"
  }

  /// How a connection goes.
  private struct Course {
    /// Bytes of one read.
    var readBytes = Int.max
    /// The first write that fails.
    var failing = Int.max
    /// Bytes that come before the peer is gone.
    var end = Int.max
    /// The peer ends its side only.
    var isHalfClosed = false
  }

  @Test("Whatever is asked for together, and whichever write fails: no answer is begun within another one")
  func writes() throws {
    for first in Self.requests {
      for second in Self.requests {
        for third in ["GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n", Self.web("/t.T/Echo", "\0\0\0\0\0")] {
          let text = first.text + second.text + third
          let name = Comment(rawValue: "\(first.name), \(second.name)")
          let whole = try run(text, Course())
          checkOrder(whole.answers, name)
          for failing in 0..<whole.writes {
            let course = Course(failing: failing)
            let cut = try run(text, course)
            #expect(whole.answers.starts(with: cut.answers), "\(name), write \(failing) fails")
          }
        }
      }
    }
  }

  @Test("Wherever the peer ends the connection, all that was begun for it ends as well")
  func cuts() throws {
    for request in Self.requests {
      let text = "GET /later HTTP/1.1\r\nhost: x\r\n\r\n" + request.text + Self.web("/t.T/Many", "\0\0\0\0\u{1}\u{2}")
      let whole = try run(text, Course())
      for end in 0...text.utf8.count {
        let closed = try run(text, Course(end: end))
        #expect(whole.answers.starts(with: closed.answers), "\(request.name), closed after \(end)")
        let half = try run(text, Course(end: end, isHalfClosed: true))
        checkOrder(half.answers, "\(request.name), closed by half after \(end)")
        for failing in 0..<2 { _ = try run(text, Course(failing: failing, end: end, isHalfClosed: true)) }
      }
    }
  }

  @Test("Wherever reads end, the answers are the same")
  func reads() throws {
    for first in Self.requests {
      for second in Self.requests {
        let whole = try run(first.text + second.text, Course())
        for bytes in [1, 7, 64] {
          let cut = try run(first.text + second.text, Course(readBytes: bytes))
          #expect(whole.answers == cut.answers, "\(first.name), \(second.name), \(bytes) bytes a read")
        }
      }
    }
  }

  @Test("Whatever ends a connection ends the page that waits on it, and what waits is given back once")
  func waitingPages() throws {
    let ahead = Self.requests.filter { ["a page", "a page that waits", "a large page"].contains($0.name) }
    for text in [""] + ahead.map(\.text) {
      for end in End.allCases {
        let connection = try Connection()
        weak let handler: PageHandler? = try connection.handler
        connection.receive(text + Self.wait + Self.later)
        #expect(connection.pages.begun == 1 && connection.pages.cancelled == 0, "\(text)")
        #expect(handler?.pageTask != nil)
        #expect(connection.waitingCalls == [1, 1])
        let answers = connection.socket.answers
        connection.end(end)
        #expect(connection.pages.cancelled == 1 && !connection.channel.isActive, "\(text), \(end)")
        #expect(connection.waitingCalls == [0, 0])
        connection.finish()
        // Who is let go for others is told so, and nobody else hears anything more.
        let told = String(decoding: connection.socket.answers.dropFirst(answers.count), as: UTF8.self)
        let isTold = end == .shedding || end == .displacement
        #expect(isTold ? told.hasPrefix("HTTP/1.1 503 ") && told.split(separator: "HTTP/1.1").count == 1 : told == "")
        #expect(connection.socket.answers.starts(with: answers))
        #expect(handler == nil, "\(text), \(end)")
      }
    }
  }

  @Test("Whichever write fails of what is said to who is let go for others, nothing is left of the connection")
  func failingFarewell() throws {
    for text in [Self.wait, "GET /lat", Self.web("/t.T/Wait", "\0\0\0\0\0")] {
      for (end, failing) in [End.shedding, .displacement].flatMap({ end in (0..<6).map { (end, $0) } }) {
        let connection = try Connection(failing: failing)
        connection.receive(text)
        connection.end(end)
        connection.end(.displacement)
        connection.letWork()
        #expect(!connection.channel.isActive && connection.calls.open == 0, "\(text), \(end), \(failing)")
        #expect(connection.waitingCalls == [0, 0])
        connection.finish()
      }
    }
  }

  @Test("A call whose client has ended its side ends at once, whatever was sent behind it")
  func goneBehind() throws {
    for behind in ["", Self.later, "GET /lat", "\u{1}"] {
      let connection = try Connection()
      connection.receive(Self.web("/t.T/Wait", "\0\0\0\0\0") + behind)
      #expect(connection.pages.begun == 1 && connection.calls.open == 1)
      connection.channel.pipeline.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
      connection.letWork()
      #expect(connection.pages.cancelled == 1 && connection.calls.open == 0, "\(behind)")
      #expect(!connection.channel.isActive, "\(behind)")
      connection.finish()
    }
  }

  @Test("Of pages that were answered nothing is kept, however many there were on a connection")
  func manyPages() throws {
    let connection = try Connection()
    let handler = try connection.handler
    for _ in 0..<1000 {
      _ = try connection.channel.writeInbound(ByteBuffer(string: Self.later))
      #expect(handler.pageTask != nil && connection.waitingCalls == [1, 1])
      connection.letWork()
      #expect(handler.pageTask == nil && connection.waitingCalls == [0, 0])
    }
    #expect(String(decoding: connection.socket.answers, as: UTF8.self).split(separator: "late\n").count == 1000)
    connection.end(.close)
    connection.finish()
  }

  /// Each head comes at the beginning or right behind a whole body.
  private func checkOrder(_ answers: [UInt8], _ name: Comment) {
    var rest = answers[...]
    while !rest.isEmpty {
      guard let head = takeHead(&rest) else {
        let text = String(decoding: rest.prefix(200), as: UTF8.self)
        Issue.record("\(name): no head where one must be: \(text)")
        return
      }
      // An answer to HEAD says how long it would be. It is the only one here with this length.
      guard let body = head.length, head.status != 100, !isHead(rest, body) else {
        if head.isChunked { takeChunks(&rest) }
        continue
      }
      #expect(rest.count >= body, name)
      rest = rest.dropFirst(body)
    }
  }

  private func isHead(_ rest: ArraySlice<UInt8>, _ length: Int) -> Bool {
    length == Self.largePage.count && !rest.starts(with: Self.largePage.prefix(16))
  }

  private func takeHead(_ rest: inout ArraySlice<UInt8>) -> (status: Int, length: Int?, isChunked: Bool)? {
    guard rest.starts(with: Array("HTTP/1.".utf8)) else { return nil }
    let text = String(decoding: rest.prefix(2048), as: UTF8.self)
    guard let end = text.firstRange(of: "\r\n\r\n"), let status = Int(text.dropFirst(9).prefix(3)) else { return nil }
    let fields = text[..<end.lowerBound].lowercased().split(separator: "\r\n")
    rest = rest.dropFirst(text[..<end.upperBound].utf8.count)
    let length = fields.first { $0.hasPrefix("content-length: ") }.flatMap { Int($0.dropFirst(16)) }
    return (status, length, fields.contains("transfer-encoding: chunked"))
  }

  private func takeChunks(_ rest: inout ArraySlice<UInt8>) {
    while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
      let line = String(decoding: rest[..<end].dropLast(), as: UTF8.self)
      guard let count = Int(line, radix: 16) else {
        Issue.record("\(line) is no length of a chunk")
        return
      }
      rest = rest[(end + 1)...].dropFirst(count + 2)
      if count == 0 { return }
    }
    Issue.record("chunks without an end")
  }

  // MARK: One connection

  private static let largePage = [UInt8](repeating: UInt8(ascii: "x"), count: 20_000)

  /// Takes writes as a socket does: from the one that fails on they fail when they are flushed, and the channel closes
  /// within that.
  private final class Socket: ChannelOutboundHandler {
    typealias OutboundIn = ByteBuffer

    private let failing: Int
    private var unwritten: [(bytes: ByteBuffer, promise: EventLoopPromise<Void>?)] = []
    private(set) var writes = 0
    private(set) var answers: [UInt8] = []

    init(failing: Int) {
      self.failing = failing
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
      guard context.channel.isActive else { return promise?.fail(ChannelError.ioOnClosedChannel) ?? () }
      unwritten.append((unwrapOutboundIn(data), promise))
    }

    func flush(context: ChannelHandlerContext) {
      while !unwritten.isEmpty {
        let next = unwritten.removeFirst()
        guard writes < failing else {
          next.promise?.fail(ChannelError.ioOnClosedChannel)
          for write in unwritten { write.promise?.fail(ChannelError.ioOnClosedChannel) }
          unwritten = []
          return context.close(promise: nil)
        }
        writes += 1
        answers.append(contentsOf: next.bytes.readableBytesView)
        next.promise?.succeed()
      }
    }
  }

  private final class Counter: ServerInterceptor, @unchecked Sendable {
    // Unchecked: the test and its event loop share one thread.
    var open = 0

    func willHandle(_ context: ServerContext) throws(RPCError) { open += 1 }

    func didFinish(_ context: ServerContext, status: StatusCode, duration: Duration) { open -= 1 }
  }

  /// Pages that wait until nobody waits for them.
  private final class WaitingPages: @unchecked Sendable {
    // Unchecked: the test and its event loop share one thread.
    private(set) var begun = 0
    private(set) var cancelled = 0

    func wait() async -> PageResponse {
      begun += 1
      // Ends when the task is cancelled.
      for await _ in AsyncStream<Void>.makeStream().stream {}
      if Task.isCancelled { cancelled += 1 }
      return PageResponse(text: "nobody waits\n")
    }
  }

  /// What may end a connection, besides a write that fails.
  private enum End: CaseIterable {
    case close, failure, shedding, displacement
  }

  private struct Connection {
    let channel = EmbeddedChannel()
    let socket: Socket
    let calls = Counter()
    let pages = WaitingPages()
    let environment: ServerEnvironment
    /// Of whoever connects.
    let account = SourceAccount()

    init(failing: Int = .max) throws {
      socket = Socket(failing: failing)
      environment = PageConnectionTests.environment(calls, pages)
      let pipeline = channel.pipeline.syncOperations
      try pipeline.addHandler(socket)
      try PageHandler.addHandlers(
        to: pipeline,
        environment: environment,
        executor: EventLoopTaskExecutor(channel.eventLoop),
        peer: ConnectionPeer(Peer(address: "127.0.0.1", port: 1), account: account)
      )
      try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    }

    var handler: PageHandler {
      get throws { try channel.pipeline.syncOperations.handler(type: PageHandler.self) }
    }

    /// Calls that wait, of all and of who connects.
    var waitingCalls: [Int] { [environment.budget.usage.calls, account.calls.load(ordering: .relaxed)] }

    func receive(_ text: String) { receive(Array(text.utf8)[...]) }

    func receive(_ bytes: ArraySlice<UInt8>) {
      // What the pipeline throws is the peer's fault.
      _ = try? channel.writeInbound(ByteBuffer(bytes: bytes))
      letWork()
    }

    func letWork() {
      for _ in 0..<8 { channel.embeddedEventLoop.advanceTime(by: .microseconds(200)) }
    }

    func end(_ end: End) {
      let pipeline = channel.pipeline
      switch end {
      case .close: channel.close(promise: nil)
      case .failure: pipeline.fireErrorCaught(ChannelError.ioOnClosedChannel)
      case .shedding:
        let shed = ServerShed(calls: [ServerShed.Excess(account, 1)], bytes: [])
        pipeline.fireUserInboundEventTriggered(shed)
      case .displacement: pipeline.fireUserInboundEventTriggered(ServerDisplacement())
      }
      channel.embeddedEventLoop.run()
    }

    /// The peer is gone. Expects that nothing is left of what it asked for.
    func finish() {
      _ = try? channel.finish(acceptAlreadyClosed: true)
      channel.embeddedEventLoop.run()
      #expect(calls.open == 0)
      #expect(pages.begun == pages.cancelled)
      #expect(waitingCalls == [0, 0] && environment.budget.usage.bufferedBytes == 0)
    }
  }

  /// What came out, and in how many writes. Expects that nothing is left of the connection.
  private func run(_ text: String, _ course: Course) throws -> (answers: [UInt8], writes: Int) {
    let connection = try Connection(failing: course.failing)
    var rest = Array(text.utf8).prefix(course.end)
    while !rest.isEmpty, connection.channel.isActive {
      connection.receive(rest.prefix(course.readBytes))
      rest = rest.dropFirst(course.readBytes)
    }
    if course.isHalfClosed {
      connection.channel.pipeline.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
      connection.letWork()
    }
    let answers = connection.socket.answers
    connection.finish()
    #expect(connection.socket.answers == answers, "something was said to a peer that was gone")
    return (withoutDates(answers), connection.socket.writes)
  }

  /// The time goes on while a test runs.
  private func withoutDates(_ answers: [UInt8]) -> [UInt8] {
    var answers = answers
    let field = Array("\r\ndate: ".utf8)
    // Finds within the bytes that it is given; a date has 29 of them.
    unsafe answers.withUnsafeMutableBytes { bytes in
      guard let first = bytes.baseAddress else { return }
      var index = 0
      while let found = unsafe memchr(first + index, CInt(field[0]), bytes.count - index) {
        index = unsafe first.distance(to: found) + 1
        guard index + field.count + 28 <= bytes.count, unsafe memcmp(found, field, field.count) == 0 else { continue }
        for place in 0..<29 { unsafe bytes[index - 1 + field.count + place] = UInt8(ascii: "-") }
      }
    }
    return answers
  }

  private static func environment(_ calls: Counter, _ waiting: WaitingPages) -> ServerEnvironment {
    ServerEnvironment(
      configuration: RPCServer.Configuration(host: "127.0.0.1", port: 0),
      router: Router([
        .unary(RPCMethod(path: "/t.T/Echo", kind: .unary)) { (request: Blob, _) async throws(RPCError) -> Blob in
          request
        },
        .unary(RPCMethod(path: "/t.T/Yield", kind: .unary)) { (request: Blob, _) async throws(RPCError) -> Blob in
          await Task.yield()
          return request
        },
        .unary(RPCMethod(path: "/t.T/Wait", kind: .unary)) { (request: Blob, _) async throws(RPCError) -> Blob in
          _ = await waiting.wait()
          return request
        },
        .serverStreaming(RPCMethod(path: "/t.T/Many", kind: .serverStreaming)) {
          (request: Blob, writer: ResponseWriter<Blob>, _) async throws(RPCError) in
          for _ in 0..<(request.bytes.first ?? 0) { try await writer.write(request) }
        },
      ]),
      interceptors: [calls],
      pages: PageTable([
        .health,
        Page("GET", "/large") { _ in PageResponse(body: Self.largePage) },
        Page("POST", "/form") { request in PageResponse(body: request.body) },
        Page("GET", "/later") { _ in
          await Task.yield()
          return PageResponse(text: "late\n")
        },
        Page("GET", "/wait") { _ in await waiting.wait() },
      ]),
      statusDetailsEncoder: { _ in nil },
      logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    )
  }
}
