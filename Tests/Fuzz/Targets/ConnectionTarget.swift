import NIOCore
import NIOEmbedded

@testable import TransportServer

/// A whole connection of a server, from its first byte: HTTP/2, HTTP/1.1, calls of all four kinds and pages.
struct ConnectionTarget: FuzzTarget {
  let name = "connection"

  func run(_ input: UnsafeRawBufferPointer) {
    let counter = CallCounter()
    let environment = FuzzedServer.environment(counter)
    let channel = EmbeddedChannel()
    let executor = EventLoopTaskExecutor(channel.embeddedEventLoop)
    do {
      try channel.pipeline.syncOperations.addHandler(ProtocolDetector(environment: environment, executor: executor))
      try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    } catch {
      preconditionFailure("no channel: \(error)")
    }
    unsafe input.forEachPiece { piece in
      guard channel.isActive else { return }
      // Copied into the buffer. What the pipeline throws is the peer's fault and ends the connection.
      _ = unsafe try? channel.writeInbound(ByteBuffer(bytes: piece))
      channel.embeddedEventLoop.advanceTime(by: .milliseconds(1))
      drain(channel)
    }
    _ = try? channel.finish(acceptAlreadyClosed: true)
    channel.embeddedEventLoop.run()
    precondition(counter.started == counter.finished, "a call that never finished")
  }

  private func drain(_ channel: EmbeddedChannel) {
    var total = 0
    while let buffer = (try? channel.readOutbound(as: ByteBuffer.self)) ?? nil { total += buffer.readableBytes }
    precondition(total <= 4 * 1024 * 1024, "one small piece was answered with megabytes")
  }
}
