import Callers
import Dispatch
import Glibc
import Logging
import NIOCore
import NIOPosix
import Synchronization
import Testing
import TransportTestSupport

@testable import TransportServer

@Suite("Connections of a crowd") struct CrowdTests {
  private let loops = MultiThreadedEventLoopGroup(numberOfThreads: 1)
  private let crowdLoops = MultiThreadedEventLoopGroup(numberOfThreads: 1)
  private let clients = MultiThreadedEventLoopGroup(numberOfThreads: 1)

  private func server(_ adjust: (inout RPCServer.Configuration) -> Void = { _ in }) -> RPCServer {
    var configuration = RPCServer.Configuration(host: "127.0.0.1", port: 0)
    adjust(&configuration)
    let crowdLoop = crowdLoops.next()
    return RPCServer(
      configuration: configuration,
      group: loops,
      crowd: crowdLoops,
      routes: [],
      pages: [
        Page("GET", "/loop") { _ in PageResponse(text: crowdLoop.inEventLoop ? "crowd" : "everybody") }
      ],
      logger: .init(label: "test") { _ in SwiftLogNoOpLogHandler() }
    )
  }

  /// Reads what a page says over HTTP/1.1, and ends when the connection does.
  private final class Reader: ChannelInboundHandler, Sendable {
    typealias InboundIn = ByteBuffer

    let text = Mutex("")

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      let piece = String(buffer: unwrapInboundIn(data))
      text.withLock { $0 += piece }
    }
  }

  private struct Client {
    let channel: any Channel
    let reader: Reader

    func ask() async throws -> String {
      reader.text.withLock { $0 = "" }
      try await channel.writeAndFlush(ByteBuffer(string: "GET /loop HTTP/1.1\r\nhost: x\r\n\r\n"))
      while true {
        let text = reader.text.withLock { $0 }
        if text.hasSuffix("crowd") { return "crowd" }
        if text.hasSuffix("everybody") { return "everybody" }
        try #require(channel.isActive)
        try await Task.sleep(for: .milliseconds(1))
      }
    }
  }

  private func connect(_ address: SocketAddress, from source: String) async throws -> Client {
    let reader = Reader()
    let channel = try await ClientBootstrap(group: clients)
      .bind(to: SocketAddress(ipAddress: source, port: 0))
      .channelInitializer { $0.pipeline.addHandler(reader) }
      .connect(to: address).get()
    return Client(channel: channel, reader: reader)
  }

  private func end(_ server: RPCServer) async throws {
    await server.shutDown()
    for group in [clients, loops, crowdLoops] { try await group.shutdownGracefully() }
  }

  @Test(
    "What a source has beyond its part is served on the crowds' loop, others on everybody's", .timeLimit(.minutes(1)))
  func loop() async throws {
    let server = server()
    let address = try await server.start()
    let part = Limits.placesOfLoop / 2
    var many: [Client] = []
    for _ in 0..<(part + 20) { many.append(try await connect(address, from: "127.0.0.2")) }
    #expect(try await many[part - 1].ask() == "everybody")
    #expect(try await many[part].ask() == "crowd")
    #expect(try await many[part + 19].ask() == "crowd")
    let other = try await connect(address, from: "127.0.0.3")
    #expect(try await other.ask() == "everybody")
    // Also when it has fewer again.
    // Some may have been closed as silent ones by then.
    for client in many { try? await client.channel.close() }
    let again = try await connect(address, from: "127.0.0.2")
    #expect(try await again.ask() == "crowd")
    try await end(server)
  }

  @Test("Places are given back by connections that were closed, refused or never set up", .timeLimit(.minutes(1)))
  func places() async throws {
    let server = server { $0.budget.connections = 20 }
    let address = try await server.start()
    for _ in 0..<20 {
      var clients: [Client] = []
      for _ in 0..<10 { clients.append(try await connect(address, from: "127.0.0.2")) }
      #expect(try await clients[0].ask() == "everybody")
      for client in clients { try await client.channel.close() }
      while server.connectionCount > 0 { try await Task.sleep(for: .milliseconds(1)) }
    }
    // More than there is room for, so that most are refused.
    for _ in 0..<3 {
      var clients: [Client] = []
      for _ in 0..<100 { clients.append(try await connect(address, from: "127.0.0.3")) }
      // Some are closed already.
      for client in clients { try? await client.channel.close() }
      while server.connectionCount > 0 { try await Task.sleep(for: .milliseconds(1)) }
    }
    #expect(try await connect(address, from: "127.0.0.3").ask() == "everybody")
    let last = try await connect(address, from: "127.0.0.2")
    // Two and three hundred have been there, and as many as are a crowd at a time never were.
    #expect(try await last.ask() == "everybody")
    try await end(server)
  }

  @Test(
    "R50: where others have all places, who has none waits for one, and is let go when the server ends",
    .timeLimit(.minutes(1)))
  func full() async throws {
    let server = server { $0.budget.arrivals = 2 }
    let address = try await server.start()
    for isEnding in [false, true] {
      let gate = DispatchSemaphore(value: 0)
      await withCheckedContinuation { isClosed in
        loops.next().execute {
          isClosed.resume()
          gate.wait()
        }
      }
      let clients = [
        try await connect(address, from: "127.0.0.2"), try await connect(address, from: "127.0.0.3"),
        try await connect(address, from: "127.0.0.4"),
      ]
      try await Task.sleep(for: .milliseconds(100))
      #expect(clients.allSatisfy { $0.channel.isActive })
      guard isEnding else {
        gate.signal()
        for client in clients { #expect(try await client.ask() == "everybody") }
        continue
      }
      async let end: Void = server.shutDown()
      // The loop does nothing still.
      try await clients[1].channel.closeFuture.get()
      gate.signal()
      await end
    }
    for group in [clients, loops, crowdLoops] { try await group.shutdownGracefully() }
  }

  @Test("R50: a request is not served of which nobody can say any more from where it came", .timeLimit(.minutes(1)))
  func nameless() async throws {
    let server = server()
    let address = try await server.start()
    let listener = try Listener(host: "127.0.0.1", port: 0)
    let (stream, continuation) = AsyncStream.makeStream(of: AcceptedSocket.self)
    listener.start { continuation.yield($0) }
    var sockets = stream.makeAsyncIterator()
    for isReset in [false, true] {
      let client = try await connect(listener.address, from: "127.0.0.2")
      let socket = try #require(await sockets.next())
      try await client.channel.writeAndFlush(ByteBuffer(string: "GET /loop HTTP/1.1\r\nhost: x\r\n\r\n"))
      let before = server.usage.connections
      if isReset {
        // The reset comes between two looks: the error has been asked for, and the peer's address has not.
        let options = try #require(client.channel as? any SocketOptionProvider)
        try await options.setSoLinger(linger(l_onoff: 1, l_linger: 0)).get()
        try await client.channel.close()
        var error: CInt = 0
        var size = socklen_t(MemoryLayout<CInt>.size)
        // getsockopt fills the number and keeps nothing.
        while error == 0 { unsafe getsockopt(socket.number, SOL_SOCKET, SO_ERROR, &error, &size) }
        server.receive(socket)
        // Whoever comes later on the same loop is served after it.
        _ = try await connect(address, from: "127.0.0.3").ask()
        #expect(server.usage.connections == before + 1)
      } else {
        server.receive(socket)
        while server.usage.connections == before { try await Task.sleep(for: .milliseconds(1)) }
        while client.reader.text.withLock({ !$0.hasSuffix("everybody") }) {
          try await Task.sleep(for: .milliseconds(1))
        }
      }
    }
    await listener.close()
    try await end(server)
  }
}
