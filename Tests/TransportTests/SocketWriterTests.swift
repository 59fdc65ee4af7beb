import Glibc
import NIOCore
import NIOPosix
import Testing

@testable import Transport

@Suite("Writing past a channel's queue")
struct SocketWriterTests {
  /// Writes the way handlers do: at once, and what is left through the channel.
  private final class Writer: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    var socket: SocketWriter?
    private var context: ChannelHandlerContext?
    private(set) var queuedWrites = 0

    func handlerAdded(context: ChannelHandlerContext) {
      self.context = context
      socket = SocketWriter(context)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
      self.context = nil
      socket = nil
    }

    func write(_ bytes: ByteBuffer) {
      var bytes = bytes
      guard socket?.write(&bytes) != true else { return }
      queuedWrites += 1
      context?.writeAndFlush(NIOAny(bytes), promise: nil)
    }
  }

  /// A channel on one end of a pair of sockets; the other is the test's.
  private func makePair() async throws -> (channel: any Channel, peer: CInt) {
    var ends: [CInt] = [-1, -1]
    // Writes two descriptors into the array that has room for them.
    let made = unsafe socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &ends)
    try #require(made == 0)
    let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(Writer()) }
      }
      .withConnectedSocket(ends[0]).get()
    return (channel, ends[1])
  }

  @Test("What the socket has no room for keeps its place: nothing that comes later overtakes it")
  func order() async throws {
    let (channel, peer) = try await makePair()
    defer { close(peer) }
    // More than a socket takes, in writes of which each can be told from the others.
    let count: UInt32 = 100_000
    let sent = try await channel.eventLoop.submit {
      let handler = try channel.pipeline.syncOperations.handler(type: Writer.self)
      for number in 0..<count { handler.write(ByteBuffer(integer: number)) }
      return handler.queuedWrites
    }.get()
    #expect(sent > 0, "the socket took everything: nothing had to wait")
    // There is room in the socket before the channel hears of it.
    var received = try await channel.eventLoop.submit {
      let received = try Self.read(1000, from: peer)
      let handler = try channel.pipeline.syncOperations.handler(type: Writer.self)
      handler.write(ByteBuffer(integer: count))
      return received
    }.get()
    received += try Self.read(4 * (Int(count) + 1) - received.count, from: peer)
    var bytes = ByteBuffer(bytes: received)
    for number in 0...count { try #require(bytes.readInteger(as: UInt32.self) == number) }
    try await channel.close()
  }

  @Test("A write after the channel has closed reaches nobody who has the socket's number by now")
  func closed() async throws {
    let (channel, peer) = try await makePair()
    defer { close(peer) }
    let taken = try await channel.eventLoop.submit { () -> Bool in
      let handler = try channel.pipeline.syncOperations.handler(type: Writer.self)
      let number = try channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(of: CInt.self) { $0 }
      guard let number else { throw ChannelError.inappropriateOperationForState }
      channel.close(promise: nil)
      // Somebody else's socket comes to the same number.
      var others: [CInt] = [-1, -1]
      // As above.
      guard unsafe socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &others) == 0 else {
        throw ChannelError.inappropriateOperationForState
      }
      if others[0] != number { dup2(others[0], number) }
      defer { for descriptor in Set(others + [number]) { close(descriptor) } }
      var bytes = ByteBuffer(string: "not for them")
      return handler.socket?.write(&bytes) == true || bytes.readableBytes != 12
    }.get()
    #expect(!taken)
  }

  private static func read(_ count: Int, from descriptor: CInt) throws -> [UInt8] {
    var all: [UInt8] = []
    var part = [UInt8](repeating: 0, count: 65_536)
    while all.count < count {
      let wanted = min(part.count, count - all.count)
      // Reads no more than the array has room for.
      let got = unsafe part.withUnsafeMutableBytes { unsafe recv(descriptor, $0.baseAddress, wanted, 0) }
      try #require(got > 0)
      all += part[..<got]
    }
    return all
  }
}
