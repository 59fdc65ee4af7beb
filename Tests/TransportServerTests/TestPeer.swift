import GRPC
import HTTP2
import Logging
import NIOCore
import NIOPosix
import Synchronization

@testable import TransportServer

/// What came back on one stream.
struct Answer: Sendable, Equatable {
  var fields: [String: String] = [:]
  var trailers: [String: String] = [:]
  var body: [UInt8] = []
  var closed: UInt32?

  var httpStatus: String? { fields[":status"] }
  var status: StatusCode? {
    (trailers["grpc-status"] ?? fields["grpc-status"]).flatMap(Int.init).flatMap(StatusCode.init)
  }
  var message: String? { (trailers["grpc-message"] ?? fields["grpc-message"]).map { PercentEncoding.decode($0.utf8) } }

  /// The messages of the body.
  var messages: [[UInt8]] {
    var messages: [[UInt8]] = []
    var rest = body[...]
    while rest.count >= 5 {
      let count = rest.dropFirst().prefix(4).reduce(0) { $0 << 8 | Int($1) }
      messages.append(Array(rest.dropFirst(5).prefix(count)))
      rest = rest.dropFirst(5 + count)
    }
    return messages
  }
}

/// A connection of a test to a server: raw bytes, or HTTP/2 by a session of ours.
final class TestPeer: ChannelInboundHandler, HTTP2ClientSessionDelegate, @unchecked Sendable {
  // Unchecked: only touched on its event loop.
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private(set) var channel: (any Channel)?
  private let session: HTTP2ClientSession
  private let goAway = Mutex<(code: UInt32, last: Int32)?>(nil)
  private let received = Mutex<[UInt8]>([])
  private var isAwaitingPing = false

  private init(initialWindow: UInt32?) throws {
    var limits = HTTP2.Limits()
    if let initialWindow { limits.streamWindow = initialWindow }
    session = try HTTP2ClientSession(limits: limits, allocator: ByteBufferAllocator(), now: .now())
  }

  /// - Parameter initialWindow: what the server may send on a stream until this peer grants more.
  /// - Parameter source: the address to come from, of this machine.
  /// - Parameter preamble: what is sent before HTTP/2 begins.
  static func connect(
    _ address: SocketAddress,
    initialWindow: UInt32? = nil,
    from source: String? = nil,
    after preamble: [UInt8] = []
  ) async throws -> TestPeer {
    let peer = try TestPeer(initialWindow: initialWindow)
    peer.session.output.writeBytes(preamble)
    var bootstrap = ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton).channelInitializer { channel in
      channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(peer) }
    }
    if let source { bootstrap = bootstrap.bind(to: try SocketAddress(ipAddress: source, port: 0)) }
    // Before the server can end the connection, which ends the session, which lets go of the peer.
    peer.session.delegate = peer
    do {
      peer.channel = try await bootstrap.connect(to: address).get()
    } catch {
      peer.session.delegate = nil
      throw error
    }
    return peer
  }

  private var eventLoop: any EventLoop {
    get throws { try required(channel).eventLoop }
  }

  /// Whether the server has closed the connection, waiting for it up to the time given.
  func isClosed(within time: Duration = .seconds(60)) async -> Bool {
    guard let channel else { return true }
    return await withTaskGroup(of: Bool.self) { group in
      group.addTask {
        try? await channel.closeFuture.get()
        return true
      }
      group.addTask {
        try? await Task.sleep(for: time)
        return false
      }
      defer {
        group.cancelAll()
        channel.close(promise: nil)
      }
      return await group.next() ?? false
    }
  }

  func close() async {
    try? await channel?.close()
  }

  var lastGoAway: (code: UInt32, last: Int32)? { goAway.withLock { $0 } }
  var rawBytes: [UInt8] { received.withLock { $0 } }

  /// Sends bytes as they are.
  func send(raw bytes: [UInt8]) async throws {
    try await required(channel).writeAndFlush(ByteBuffer(bytes: bytes))
  }

  /// Ends this side of the connection.
  func endInput() async throws {
    try await required(channel).close(mode: .output)
  }

  /// A call whose request is `body`, cut as it is; nil leaves the stream open.
  ///
  /// - Parameter later: what is sent after the body, when it is there.
  /// - Parameter pingsOnData: sends a PING for DATA, one at a time, as clients do that measure their bandwidth.
  func call(
    _ path: String,
    _ body: [UInt8],
    headers: [(String, String)] = [("content-type", "application/grpc"), ("te", "trailers")],
    method: StaticString = "POST",
    endStream: Bool = true,
    later: Task<[UInt8], Never>? = nil,
    cancelAfter: TimeAmount? = nil,
    cancelCode: HTTP2ErrorCode = .cancel,
    pingsOnData: Bool = false
  ) async throws -> Answer {
    let loop = try eventLoop
    let promise = loop.makePromise(of: Answer.self)
    loop.execute { [self] in
      var fields = HTTP2FieldList()
      fields.add(":method", method)
      fields.add(":scheme", "http")
      fields.add(":path", path)
      fields.add(":authority", "localhost")
      for (name, value) in headers { fields.add(name.utf8, value.utf8) }
      do {
        let handler = AnswerHandler(session: session, promise: promise, onData: { [self] in if pingsOnData { ping() } })
        let stream = try session.request(fields, handler: handler)
        session.write(stream, ByteBuffer(bytes: body))
        if endStream { session.finish(stream) }
        flush()
        if let later {
          loop.makeFutureWithTask { await later.value }.assumeIsolated().whenSuccess { [self] bytes in
            session.write(stream, ByteBuffer(bytes: bytes))
            session.finish(stream)
            flush()
          }
        }
        if let cancelAfter {
          loop.assumeIsolated().scheduleTask(in: cancelAfter) { [self] in
            session.reset(stream, cancelCode)
            flush()
          }
        }
      } catch {
        promise.fail(error)
      }
    }
    return try await promise.futureResult.get()
  }

  private func ping() {
    guard !isAwaitingPing else { return }
    isAwaitingPing = true
    session.ping(1)
  }

  private func flush() {
    do { try session.produce() } catch { channel?.close(promise: nil) }
    guard session.output.readableBytes > 0 else { return }
    channel?.writeAndFlush(session.output, promise: nil)
    session.output = ByteBuffer()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let bytes = unwrapInboundIn(data)
    received.withLock { $0.append(contentsOf: bytes.readableBytesView.prefix(max(0, 1_000_000 - $0.count))) }
    // Read within the closure only.
    unsafe bytes.withUnsafeReadableBytes { unsafe session.receive($0, now: .now()) }
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    if session.openStreams > 0 || lastGoAway != nil { flush() }
  }

  func channelInactive(context: ChannelHandlerContext) {
    session.abandon()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    context.close(promise: nil)
  }

  func session(_ session: HTTP2ClientSession, receivedSettings acknowledged: Bool) {}

  func session(_ session: HTTP2ClientSession, receivedPing payload: UInt64, acknowledged: Bool) {
    isAwaitingPing = false
  }

  func session(
    _ session: HTTP2ClientSession,
    receivedGoAway code: HTTP2ErrorCode,
    lastStreamID: Int32,
    debug: [UInt8]
  ) {
    goAway.withLock { $0 = (code.rawValue, lastStreamID) }
  }
}

struct NotConnected: Error {}

/// The value, which is there.
func required<Value>(_ value: Value?) throws -> Value {
  guard let value else { throw NotConnected() }
  return value
}

private final class AnswerHandler: HTTP2StreamHandler {
  private let session: HTTP2ClientSession
  private let promise: EventLoopPromise<Answer>
  private let onData: () -> Void
  private var answer = Answer()
  private var block: [String: String] = [:]

  init(session: HTTP2ClientSession, promise: EventLoopPromise<Answer>, onData: @escaping () -> Void) {
    self.session = session
    self.promise = promise
    self.onData = onData
  }

  func stream(
    _ stream: HTTP2Stream,
    receivedField name: UnsafeRawBufferPointer,
    _ value: UnsafeRawBufferPointer
  ) -> Bool {
    unsafe block[String(decoding: name, as: UTF8.self)] = unsafe String(decoding: value, as: UTF8.self)
    return true
  }

  func stream(_ stream: HTTP2Stream, completedFields block: HTTP2FieldBlock) {
    if block == .trailers { answer.trailers = self.block } else { answer.fields = self.block }
    self.block = [:]
  }

  func stream(_ stream: HTTP2Stream, receivedData bytes: UnsafeRawBufferPointer) {
    unsafe answer.body.append(contentsOf: bytes)
    session.consume(stream, bytes.count)
    onData()
  }

  func streamReceivedEnd(_ stream: HTTP2Stream) {}

  func stream(_ stream: HTTP2Stream, wrote bytes: Int) {}

  func stream(_ stream: HTTP2Stream, closed code: HTTP2ErrorCode) {
    answer.closed = code.rawValue
    promise.succeed(answer)
  }
}
