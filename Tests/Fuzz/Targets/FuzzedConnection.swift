import NIOCore
import NIOEmbedded
import TLS

@testable import Transport
@testable import TransportServer

/// A whole connection of a server above a socket whose writes may fail. When it is over, nothing may be left of it.
final class FuzzedConnection {
  let channel = EmbeddedChannel()
  let socket: FailingSocket
  private let counter = CallCounter()
  private let environment: ServerEnvironment
  private let executor: EventLoopTaskExecutor

  /// - Parameters:
  ///   - failing: the first write that fails.
  ///   - addHandlers: adds what stands above the socket.
  init(
    failing: Int,
    tls: TLSServerContext? = nil,
    _ addHandlers: (
      (ChannelPipeline.SynchronousOperations, EventLoopTaskExecutor, ServerEnvironment) throws -> Void
    )? = nil
  ) {
    socket = FailingSocket(failing: failing)
    environment = FuzzedServer.environment(counter, tls: tls)
    executor = EventLoopTaskExecutor(channel.embeddedEventLoop)
    do {
      let pipeline = channel.pipeline.syncOperations
      try pipeline.addHandler(socket)
      if let addHandlers {
        try addHandlers(pipeline, executor, environment)
      } else {
        try addServer(pipeline, executor)
      }
      try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    } catch {
      preconditionFailure("no channel: \(error)")
    }
  }

  /// What an accepted connection begins with.
  private func addServer(
    _ pipeline: ChannelPipeline.SynchronousOperations,
    _ executor: EventLoopTaskExecutor
  ) throws {
    if let tls = environment.configuration.tls {
      try pipeline.addHandler(TLSHandler(server: tls, handshakeTimeout: .seconds(5), turns: executor))
    }
    try pipeline.addHandler(ProtocolDetector(environment: environment, executor: executor))
  }

  /// What one read brings.
  func receive(_ bytes: UnsafeRawBufferPointer) {
    // Copied.
    unsafe receive(ByteBuffer(bytes: bytes))
  }

  func receive(_ bytes: ByteBuffer) {
    guard channel.isActive else { return }
    let said = socket.answers.count
    // What the pipeline throws is the peer's fault and ends the connection.
    _ = try? channel.writeInbound(bytes)
    channel.embeddedEventLoop.advanceTime(by: .milliseconds(1))
    precondition(socket.answers.count - said <= 4 * 1024 * 1024, "one small piece was answered with megabytes")
  }

  /// Gives the connection a course by what the bits say, and ends it: whether all that comes comes while there is too much to do,
  /// whether it is let go for another source, and whether the peer ends its side, before it is gone.
  func run(_ bits: UInt8, _ bytes: UnsafeRawBufferPointer) {
    unsafe bytes.forEachPiece { piece in
      if bits & 2 != 0 { makeLate() }
      unsafe receive(piece)
    }
    if bits & 4 != 0 {
      channel.pipeline.fireUserInboundEventTriggered(ServerDisplacement())
      channel.embeddedEventLoop.advanceTime(by: .milliseconds(1))
    }
    if bits & 1 != 0 { receiveEnd() }
    finish()
  }

  private final class Waiting: TurnTaker {
    let source = TurnSource.address(nil)
    let isBegun = true

    func takeTurn(until end: NIODeadline) -> Bool { false }
  }

  /// Whoever comes waits for turns longer than anybody may.
  private func makeLate() {
    let now = channel.eventLoop.now
    executor.turns.wait(Waiting())
    executor.turns.worked(from: now, until: now + .seconds(2))
    executor.turns.wait(Waiting())
  }

  /// The peer ends its side.
  func receiveEnd() {
    guard channel.isActive else { return }
    channel.pipeline.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
    channel.embeddedEventLoop.advanceTime(by: .milliseconds(1))
  }

  /// The peer is gone.
  func finish() {
    let said = socket.answers.count
    _ = try? channel.finish(acceptAlreadyClosed: true)
    channel.embeddedEventLoop.run()
    precondition(socket.answers.count - said <= farewell, "something was said to a peer that was gone")
    precondition(counter.started == counter.finished, "a call that never finished")
    precondition(environment.budget.usage.calls == 0, "a call that was never given back")
    precondition(environment.budget.usage.bufferedBytes == 0, "bytes that were never given back")
  }

  /// Who ends a connection of TLS says so, in one record.
  private var farewell: Int { environment.configuration.tls == nil ? 0 : 64 }
}
