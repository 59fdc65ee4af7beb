import GRPC
import NIOCore
import NIOEmbedded

@testable import Transport

/// A whole connection of HTTP/1.1, pages and gRPC-Web calls one behind the other, whose writes begin to fail and whose
/// peer goes: every answer begins behind the end of the one before, and what was begun ends.
///
/// The first byte of the input is the first write that fails (255: none), the lowest bit of the second whether the peer
/// ends its side before it is gone; the others are what it sends, in pieces as in other targets.
struct PagesTarget: FuzzTarget {
  let name = "pages"

  func run(_ input: UnsafeRawBufferPointer) {
    guard input.count > 3 else { return }
    // In bounds by the line above; no closure keeps a pointer.
    let failing = unsafe input[0] == 255 ? Int.max : Int(input[0])
    let endsItsSide = unsafe input[1] & 1 == 1
    let counter = CallCounter()
    let environment = FuzzedServer.environment(counter)
    let channel = EmbeddedChannel()
    let socket = FailingSocket(failing: failing)
    connect(channel, socket, environment)
    unsafe UnsafeRawBufferPointer(rebasing: input[2...]).forEachPiece { piece in
      guard channel.isActive else { return }
      // Copied into the buffer. What the pipeline throws is the peer's fault and ends the connection.
      _ = unsafe try? channel.writeInbound(ByteBuffer(bytes: piece))
      channel.embeddedEventLoop.advanceTime(by: .milliseconds(1))
    }
    if endsItsSide {
      channel.pipeline.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
      channel.embeddedEventLoop.advanceTime(by: .milliseconds(1))
    }
    let said = socket.answers.count
    _ = try? channel.finish(acceptAlreadyClosed: true)
    channel.embeddedEventLoop.run()
    precondition(socket.answers.count == said, "something was said to a peer that was gone")
    precondition(counter.started == counter.finished, "a call that never finished")
    precondition(environment.budget.usage.calls == 0, "a call that was never given back")
    precondition(environment.budget.usage.bufferedBytes == 0, "bytes that were never given back")
  }

  private func connect(_ channel: EmbeddedChannel, _ socket: FailingSocket, _ environment: ServerEnvironment) {
    do {
      let pipeline = channel.pipeline.syncOperations
      try pipeline.addHandler(socket)
      try PageHandler.addHandlers(
        to: pipeline,
        environment: environment,
        executor: EventLoopTaskExecutor(channel.embeddedEventLoop),
        peer: ConnectionPeer(Peer(address: "127.0.0.1", port: 1, tlsNames: []))
      )
      try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    } catch {
      preconditionFailure("no channel: \(error)")
    }
  }
}
