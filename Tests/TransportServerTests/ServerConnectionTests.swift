import GRPC
import Logging
import NIOCore
import NIOEmbedded
import Testing

@testable import TransportServer

@Suite("A server's connection, without a socket")
struct ServerConnectionTests {
  /// Counts how often the channel is asked to read.
  private final class ReadCounter: ChannelOutboundHandler {
    typealias OutboundIn = ByteBuffer
    var count = 0

    func read(context: ChannelHandlerContext) { count += 1 }
  }

  @Test("While the peer takes none of our bytes, none of its bytes are read; then reading goes on by itself")
  func heldReads() throws {
    let channel = EmbeddedChannel()
    let environment = ServerEnvironment(
      configuration: RPCServer.Configuration(host: "127.0.0.1", port: 0),
      router: Router([]),
      interceptors: [],
      pages: PageTable([]),
      statusDetailsEncoder: { _ in nil },
      logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    )
    let connection = ServerConnection(
      environment: environment,
      executor: EventLoopTaskExecutor(channel.eventLoop),
      peer: ConnectionPeer(Peer(address: "127.0.0.1", port: 1))
    )
    let reads = ReadCounter()
    try channel.pipeline.syncOperations.addHandlers([reads, connection])
    channel.pipeline.read()
    #expect(reads.count == 1)
    channel.isWritable = false
    channel.pipeline.fireChannelWritabilityChanged()
    for _ in 0..<3 { channel.pipeline.read() }
    #expect(reads.count == 1)
    channel.isWritable = true
    channel.pipeline.fireChannelWritabilityChanged()
    #expect(reads.count == 2)
    channel.pipeline.read()
    #expect(reads.count == 3)
    // The turn that the connection waits for.
    channel.embeddedEventLoop.advanceTime(by: .seconds(1))
    _ = try channel.finish(acceptAlreadyClosed: true)
  }
}
