internal import GRPC
internal import NIOCore

/// A gRPC call in the form that browsers can make: one request message, and the status at the end of the body.
///
/// The body is what gRPC sends over HTTP/2, the trailers as one more frame whose flag is 0x80, and in the text format
/// all of it in base64. Source: gRPC-Web "Protocol differences vs gRPC over HTTP2".
final class WebCall: CallCarrier, @unchecked Sendable {
  // Unchecked: only touched on its event loop, which is also the executor that its task prefers.

  /// What the call needs of its connection.
  struct Place {
    let environment: ServerEnvironment
    let executor: EventLoopTaskExecutor
    let peer: Peer
    let account: SourceAccount
    /// An answer to half a request ends the connection, so that the next one costs more than the call.
    let answersWhole: Bool
  }

  private let place: Place
  private let answer: WebAnswer
  private let runner: CallRunner
  private weak var sink: (any WebCallSink)?
  private var base64 = Base64Body()
  /// Bytes of the body that the call keeps, in whatever form.
  private(set) var heldBytes = 0
  private var hasAnswered = false
  private var timer: LoopTimer?
  /// What was asked for, if it is refused and its end is still to come.
  private var refused: (method: RPCMethod, isLate: Bool)?
  /// Where the frames that were sent end in the body, and how long they are for the outbox.
  private var unwritten = CircularBuffer<(end: Int, bytes: Int)>()
  private var sentBytes = 0
  private var writtenBytes = 0

  init(_ format: WebFormat, _ head: RequestHead, _ place: Place, sink: any WebCallSink) {
    self.place = place
    self.sink = sink
    runner = CallRunner(environment: place.environment, executor: place.executor)
    answer = WebAnswer(format: format, origin: head.fields.first("origin"), environment: place.environment)
  }

  var now: NIODeadline { place.executor.eventLoop.now }

  var hasRoom: Bool { place.environment.budget.hasRoom(for: place.account) }

  /// Whose call waits; nil while it has not had to, or is over.
  var waitingAccount: SourceAccount? { runner.waitingAccount }

  var isHandlerRunning: Bool { runner.isHandlerRunning }

  /// Takes the call that the header block asks for.
  func begin(_ head: RequestHead) {
    switch head.webVerdict {
    case .call(let route, let timeout):
      switch route.method.kind {
      case .unary, .serverStreaming: break
      case .clientStreaming, .bidirectional:
        let error = RPCError(.unimplemented, "gRPC-Web has no streams of requests: use gRPC over HTTP/2")
        return runner.refuse(error, carriedBy: self)
      }
      let request = CallRunner.Request(
        head: head, route: route, timeout: timeout, peer: place.peer, account: place.account,
        gate: place.environment.gate(of: route.method))
      guard place.answersWhole, !route.isEssential else { return runner.begin(request, carriedBy: self) }
      let limit = route.refusable(timeout, within: place.environment.configuration)
      let isLate = limit.map { sink?.webCall(self, isLateAfter: Limits.patience(within: $0)) == true } ?? false
      if isLate || !hasRoom || request.isShut || place.account.rests {
        refused = (route.method, isLate)
      } else {
        runner.begin(request, carriedBy: self)
      }
    case .refuse(let error): runner.refuse(error, carriedBy: self)
    case .unsupportedMediaType:
      runner.refuse(RPCError(.internal, "the request is not a call"), carriedBy: self)
    }
  }

  // MARK: The request

  /// Takes a part of the body.
  func receive(_ bytes: UnsafeRawBufferPointer) {
    guard runner.isTakingBytes else { return }
    heldBytes += bytes.count
    switch answer.format {
    // The pointers are read before `receive` returns.
    case .binary: _ = unsafe runner.receive(bytes)
    case .text:
      guard let decoded = unsafe base64.decode(bytes) else { return runner.end(Self.notBase64) }
      _ = unsafe decoded.withUnsafeBytes { bytes in unsafe runner.receive(bytes) }
    }
  }

  /// The body is complete.
  func receivedEnd() {
    if let refused {
      guard refused.isLate else { return end(place.environment.budget.refusal()) }
      place.environment.budget.callRefused()
      return end(ServerBudget.refusalOfLate())
    }
    guard base64.isComplete else { return runner.end(Self.notBase64) }
    runner.receivedEnd()
  }

  private static let notBase64 = RPCError(.internal, "the request body is not base64")

  /// Ends the call from outside: the deadline passed, or the client is gone.
  func end(_ error: RPCError) {
    guard let refused else { return runner.end(error) }
    self.refused = nil
    place.environment.interceptors.didRefuse(1, of: refused.method, status: error.code)
    runner.refuse(error, carriedBy: self)
  }

  // MARK: Of the carrier

  func callEnds(at end: NIODeadline?) {
    timer?.cancel()
    timer = end.map { end in
      place.executor.schedule(at: end) {
        self.end(RPCError(.deadlineExceeded, "the deadline passed"))
      }
    }
  }

  /// There are no streams of requests.
  func callTookMessages() {}

  func callKeeps(_ bytes: Int) { heldBytes += bytes }

  func callKeepsLittle() {
    heldBytes = 0
    sink?.webCallKeepsLittle(self)
  }

  func handlerReturned() {
    runner.release()
    sink?.webCallReturned(self)
  }

  // MARK: The answer

  /// So many bytes of the body have left.
  func wrote(_ bytes: Int) {
    writtenBytes += bytes
    while let first = unwritten.first, first.end <= writtenBytes {
      unwritten.removeFirst()
      runner.call.outbox?.sent(first.bytes)
    }
  }

  func send(_ frames: [ByteBuffer]) {
    for frame in frames {
      sendHead()
      send(frame, ofOutbox: frame.readableBytes)
    }
  }

  private func sendHead() {
    guard !hasAnswered else { return }
    hasAnswered = true
    let context = runner.call.context
    let metadata = context?.initialMetadata.carriedFields ?? []
    sink?.webCall(self, answers: answer.head(metadata, isCompressed: context?.settledCoding == .gzip))
  }

  /// - Parameter count: the bytes that the outbox hears of when they have left.
  private func send(_ bytes: ByteBuffer, ofOutbox count: Int = 0) {
    let body = answer.body(bytes)
    sentBytes += body.readableBytes
    // They may have left by the time that the call below returns.
    if count > 0 { unwritten.append((end: sentBytes, bytes: count)) }
    sink?.webCall(self, sends: body)
  }

  func send(_ failure: RPCError?, of call: ServerCall) {
    if heldBytes > 0 {
      // The answer may wait for long; nobody reads the request again.
      runner.dropRequest()
      callKeepsLittle()
    }
    sendHead()
    if failure == nil, call.answer.readableBytes > 0 { send(call.answer) }
    send(answer.trailers(failure, runner.call.context?.trailingMetadata.carriedFields ?? []))
    sink?.webCallEnded(self)
  }
}
