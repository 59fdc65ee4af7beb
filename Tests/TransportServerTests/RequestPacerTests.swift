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

  @Test("Requests that come together become requests one by one: those behind one that waits stay the bytes they were")
  func pipelining() throws {
    let channel = EmbeddedChannel()
    let gate = Gate()
    let page = Page("GET", "/") { _ in
      await gate.pass()
      return PageResponse(text: "here")
    }
    let environment = ServerEnvironment(
      configuration: RPCServer.Configuration(host: "127.0.0.1", port: 0),
      router: Router([]),
      interceptors: [],
      pages: PageTable([page]),
      statusDetailsEncoder: { _ in nil },
      logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    )
    let pipeline = channel.pipeline.syncOperations
    try PageHandler.addHandlers(
      to: pipeline,
      environment: environment,
      executor: EventLoopTaskExecutor(channel.eventLoop),
      peer: ConnectionPeer(Peer(address: "127.0.0.1", port: 1))
    )
    let tap = Tap()
    try pipeline.addHandler(tap, position: .after(pipeline.handler(type: RequestPacer.self)))
    try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()

    let request = "GET / HTTP/1.1\r\nhost: x\r\n\r\n"
    let count = Limits.readBytes / request.utf8.count
    try channel.writeInbound(ByteBuffer(string: String(repeating: request, count: count)))
    var answers = ""
    for answered in 0..<count {
      channel.embeddedEventLoop.advanceTime(by: Limits.roundPause)
      #expect(gate.count == 1)
      // A piece may end within a request.
      #expect(tap.bytes <= (answered + 1) * request.utf8.count + Limits.pageBytesBetweenLooks)
      // What waits counts as what it is.
      let waiting = count * request.utf8.count - tap.bytes
      #expect(environment.budget.usage.bufferedBytes == waiting)
      gate.open()
      channel.embeddedEventLoop.run()
      while let bytes = try channel.readOutbound(as: ByteBuffer.self) { answers += String(buffer: bytes) }
    }
    #expect(answers.split(separator: "HTTP/1.1 200").count == count)
    #expect(environment.budget.usage.bufferedBytes == 0 && environment.budget.usage.calls == 0)
    try channel.close().wait()
  }
}
