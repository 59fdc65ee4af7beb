internal import GRPC
internal import NIOCore
internal import Synchronization

/// A call that the process makes of itself: the caller's end of it, and the carrier of the server's.
///
///     run ──▶ header block ──▶ request ──▶ frames ──▶ status
final class InProcessCall: CallCarrier, @unchecked Sendable {
  // Unchecked: but for what is constant, only touched on its event loop.

  /// What an unary call, or one of a stream of requests, is answered.
  typealias Answer = Result<ByteBuffer, RPCError>

  private let method: RPCMethod
  private let options: CallOptions
  private let environment: ServerEnvironment
  private let eventLoop: any EventLoop
  private let peer: Peer
  private let account: SourceAccount
  private let runner: CallRunner
  /// The messages that the server streams.
  let responses: MessageInbox
  /// The frames that the caller streams.
  let requests: MessageOutbox
  private let wire: Wire
  private var framer = MessageFramer(limit: .max)
  private var continuation: CheckedContinuation<Answer, Never>?
  private var timer: Scheduled<Void>?
  private var hasBegun = false
  /// The caller has streamed all of its messages.
  private var isRequestComplete = false
  /// Why the caller left before the call began.
  private var earlyEnd: RPCError?

  /// What tells the call of the caller's progress, made before the call is.
  private final class Wire: Sendable {
    private let call = Mutex<InProcessCall?>(nil)

    func connect(_ call: InProcessCall?) { self.call.withLock { $0 = call } }

    func tell(_ body: @escaping @Sendable (InProcessCall) -> Void) {
      guard let call = call.withLock({ $0 }) else { return }
      call.eventLoop.execute { body(call) }
    }
  }

  init(
    _ method: RPCMethod, _ options: CallOptions, _ environment: ServerEnvironment, _ executor: EventLoopTaskExecutor,
    _ peer: Peer
  ) {
    self.method = method
    self.options = options
    self.environment = environment
    self.peer = peer
    eventLoop = executor.eventLoop
    account = environment.budget.sources.account(of: nil)
    runner = CallRunner(environment: environment, executor: executor)
    let wire = Wire()
    self.wire = wire
    responses = MessageInbox { bytes in wire.tell { $0.tookResponse(bytes) } }
    requests = MessageOutbox { wire.tell { $0.sendRequests() } }
  }

  // MARK: The caller's end

  /// Makes the call. The answer is empty where the server streams.
  ///
  /// - Parameter request: the framed request; nil where the caller streams.
  func run(_ request: ByteBuffer?) async -> Answer {
    await start {
      $0.beginCall()
      guard let request else { return $0.sendRequests() }
      $0.send(request)
      $0.runner.receivedEnd()
    }
  }

  /// Begins the call and cancels it.
  func begin() async -> Result<Void, RPCError> {
    let left = RPCError(.cancelled, "the caller left before the request")
    let answer = await start {
      $0.beginCall()
      $0.runner.end(left)
    }
    guard case .failure(let error) = answer, error != left else { return .success(()) }
    return .failure(error)
  }

  private func start(_ body: @escaping @Sendable (InProcessCall) -> Void) async -> Answer {
    wire.connect(self)
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        eventLoop.execute {
          self.continuation = continuation
          if let error = self.earlyEnd { return self.finish(.failure(error)) }
          body(self)
        }
      }
    } onCancel: {
      cancel(RPCError(.cancelled, "the call was cancelled"))
    }
  }

  /// The caller leaves.
  func cancel(_ error: RPCError) {
    eventLoop.execute { [self] in
      if hasBegun { runner.end(error) } else { earlyEnd = error }
    }
  }

  /// The caller has streamed all of its messages.
  func completeRequest() {
    eventLoop.execute { [self] in
      isRequestComplete = true
      sendRequests()
    }
  }

  private func beginCall() {
    hasBegun = true
    var fields: [(name: String, value: [UInt8])] = [
      (":method", Array("POST".utf8)), (":path", Array(method.path.utf8)),
      ("content-type", Array("application/grpc".utf8)),
    ]
    if options.compression == .gzip { fields.append(("grpc-encoding", Array("gzip".utf8))) }
    var head = RequestHead()
    for field in fields + options.metadata.carriedFields {
      // Read before the calls return.
      unsafe Array(field.name.utf8).withUnsafeBytes { name in
        unsafe field.value.withUnsafeBytes { value in unsafe head.receive(name, value, environment.router) }
      }
    }
    switch head.verdict {
    case .call(let route, _):
      let request = CallRunner.Request(
        head: head, route: route, timeout: options.timeout, peer: peer, account: account)
      runner.begin(request, carriedBy: self)
    case .refuse(let error): runner.refuse(error, carriedBy: self)
    case .unsupportedMediaType: runner.refuse(RPCError(.internal, "the request is not a call"), carriedBy: self)
    }
  }

  private func send(_ frame: ByteBuffer) {
    guard runner.isTakingBytes else { return }
    // Read before the call returns.
    _ = unsafe frame.withUnsafeReadableBytes { bytes in unsafe runner.receive(bytes) }
  }

  /// Takes what the caller has streamed. What it streams before the call has begun waits.
  private func sendRequests() {
    guard hasBegun else { return }
    for frame in requests.take() {
      send(frame)
      requests.sent(frame.readableBytes)
    }
    if isRequestComplete { runner.receivedEnd() }
  }

  /// The caller has taken a message, whose frame had a prefix of five bytes besides.
  private func tookResponse(_ bytes: Int) { runner.call.outbox?.sent(bytes + 5) }

  private func finish(_ answer: Answer) {
    wire.connect(nil)
    switch answer {
    case .success:
      responses.finish()
      requests.close(RPCError(.cancelled, "the call is over"))
    case .failure(let error):
      responses.finish(error, afterMessages: true)
      requests.close(error)
    }
    continuation?.resume(returning: answer)
    continuation = nil
  }

  // MARK: The carrier

  var now: NIODeadline { eventLoop.now }

  var hasRoom: Bool { environment.budget.hasRoom(for: account) }

  func callEnds(at end: NIODeadline?) {
    timer?.cancel()
    timer = end.map { end in
      eventLoop.assumeIsolated().scheduleTask(deadline: end) {
        self.runner.end(RPCError(.deadlineExceeded, "the deadline passed"))
      }
    }
  }

  /// Requests are handed on as they are streamed.
  func callTookMessages() {}

  /// Nothing is kept here.
  func callKeeps(_ bytes: Int) {}

  func callKeepsLittle() {}

  func send(_ frames: [ByteBuffer]) {
    for frame in frames {
      // Framed by our own routes: nothing in it can be at fault. Read before the call returns.
      unsafe frame.withUnsafeReadableBytes { bytes in
        try? unsafe framer.receive(bytes) { message throws(RPCError) in
          responses.deliver(message)
          message.bytes = ByteBuffer()
        }
      }
    }
  }

  func send(_ failure: RPCError?, of call: ServerCall) {
    let trailing = call.context?.trailingMetadata ?? Metadata()
    if let received = options.responseMetadata {
      received.receivedInitial((call.context?.initialMetadata ?? Metadata()).block)
      received.receivedTrailing(trailing.block)
    }
    guard var failure else {
      var answer = call.answer
      // What follows the prefix; there is none where the server streams.
      answer.moveReaderIndex(forwardBy: min(answer.readableBytes, 5))
      return finish(.success(answer))
    }
    failure.metadata.append(contentsOf: trailing)
    finish(.failure(failure))
  }

  func handlerReturned() { runner.release() }
}

extension Metadata {
  /// The metadata as it travels.
  fileprivate var block: FieldBlock {
    var block = FieldBlock()
    for field in carriedFields {
      // Copied before the calls return.
      unsafe Array(field.name.utf8).withUnsafeBytes { name in
        unsafe field.value.withUnsafeBytes { value in unsafe block.append(name, value) }
      }
    }
    return block
  }
}
