internal import GRPC
internal import NIOCore

/// A gRPC call in the form that browsers can make: one request message, and the status at the end of the body.
///
///     message ──▶ running ──▶ answered
///        └───────────┴───────────▲       refused, deadline, client gone
///
/// A call that is parked goes from running to parked when its handler returns, and back for each turn.
///
/// The body is what gRPC sends over HTTP/2, the trailers as one more frame whose flag is 0x80, and in the text format
/// all of it in base64. Source: gRPC-Web "Protocol differences vs gRPC over HTTP2".
final class WebCall: CallWaker.Target, @unchecked Sendable {
  // Unchecked: only touched on its event loop, which is also the executor that its task prefers.

  private enum Phase {
    case message
    case running
    /// Nothing runs until the call is woken.
    case parked
    case answered
  }

  /// What the call needs of its connection.
  struct Place {
    let environment: ServerEnvironment
    let executor: EventLoopTaskExecutor
    let peer: Peer
    let account: SourceAccount
  }

  /// The flag of the frame that holds the trailers.
  private static let trailersFlag: UInt8 = 0x80

  private let place: Place
  private let format: WebFormat
  private let origin: String?
  private let call = ServerCall()
  private weak var sink: (any WebCallSink)?
  private var phase = Phase.message
  private var base64 = Base64Body()
  private var framer = MessageFramer()
  private var route: RPCRoute?
  private var hasRequest = false
  /// Bytes of the body that the call keeps, in whatever form.
  private(set) var heldBytes = 0
  private var hasInterceptedCall = false
  private var hasAnswered = false
  private var task: Task<Void, Never>?
  private(set) var isTaskRunning = false
  private var share = CallShare()
  /// Whose call waits; nil while it has not had to, or is over.
  var waitingAccount: SourceAccount? { phase == .answered ? nil : share.account }
  private var started = ContinuousClock.Instant.now
  private var timer: Scheduled<Void>?
  /// Where the frames that were sent end in the body, and how long they are for the outbox.
  private var unwritten = CircularBuffer<(end: Int, bytes: Int)>()
  private var sentBytes = 0
  private var writtenBytes = 0

  init(_ format: WebFormat, _ head: RequestHead, _ place: Place, sink: any WebCallSink) {
    self.format = format
    self.place = place
    self.sink = sink
    origin = head.fields.first("origin")
  }

  /// Takes the call that the header block asks for.
  func begin(_ head: RequestHead) {
    switch head.webVerdict {
    case .call(let route, let timeout): accept(route, timeout: timeout, head)
    case .refuse(let error): finish(error)
    case .unsupportedMediaType: finish(RPCError(.internal, "the request is not a call"))
    }
  }

  private func accept(_ route: RPCRoute, timeout: Duration?, _ head: RequestHead) {
    let configuration = place.environment.configuration
    switch route.method.kind {
    case .unary, .serverStreaming: break
    case .clientStreaming, .bidirectional:
      return finish(RPCError(.unimplemented, "gRPC-Web has no streams of requests: use gRPC over HTTP/2"))
    }
    self.route = route
    framer.reset(limit: route.messageLimit)
    framer.coding = head.requestCoding
    let limit = route.timeLimit ?? configuration.timeLimit(route.method.kind)
    let time = timeout.map { min($0, limit ?? $0) } ?? limit
    if let time {
      timer = place.executor.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(time)) {
        self.end(RPCError(.deadlineExceeded, "the deadline passed"))
      }
    }
    let context = ServerContext(
      method: route.method,
      fields: head.fields,
      deadline: time.map { started + $0 },
      peer: place.peer,
      acceptedCoding: head.acceptedCoding,
      compressesResponses: configuration.compressesResponses
    )
    call.context = context
    hasInterceptedCall = true
    if !route.isEssential, !place.environment.budget.hasRoom(for: place.account) {
      return finish(place.environment.budget.refusal())
    }
    for interceptor in place.environment.interceptors {
      do throws(RPCError) {
        try interceptor.willHandle(context)
      } catch {
        return finish(error)
      }
    }
    guard route.method.kind == .serverStreaming else { return }
    call.outbox = MessageOutbox(canPark: true) { [self, eventLoop = place.executor.eventLoop] in
      eventLoop.runNow { self.sendWaiting() }
    }
  }

  // MARK: The request

  /// Takes a part of the body.
  func receive(_ bytes: UnsafeRawBufferPointer) {
    guard phase == .message else { return }
    heldBytes += bytes.count
    do throws(RPCError) {
      switch format {
      // The pointers are read before `receive` returns.
      case .binary: unsafe try frame(bytes)
      case .text:
        guard let decoded = unsafe base64.decode(bytes) else {
          throw RPCError(.internal, "the request body is not base64")
        }
        var failure: RPCError?
        unsafe decoded.withUnsafeBytes { bytes in
          do throws(RPCError) { unsafe try frame(bytes) } catch { failure = error }
        }
        if let failure { throw failure }
      }
    } catch {
      finish(error)
    }
  }

  private func frame(_ bytes: UnsafeRawBufferPointer) throws(RPCError) {
    // Read before `receive` returns.
    unsafe try framer.receive(bytes) { message throws(RPCError) in
      guard !hasRequest else { throw RPCError(.unimplemented, "the method takes one request message") }
      hasRequest = true
      call.request = try message.expanded(limit: route?.messageLimit ?? 0)
      call.context?.wasRequestCompressed = message.isCompressed
      message.bytes = ByteBuffer()
    }
  }

  /// The body is complete.
  func receivedEnd() {
    guard phase == .message else { return }
    guard base64.isComplete else { return finish(RPCError(.internal, "the request body is not base64")) }
    guard framer.isBetweenMessages else { return finish(RPCError(.internal, "the request ends within a message")) }
    guard hasRequest, let route else {
      return finish(RPCError(.unimplemented, "the method takes one request message"))
    }
    run { [call] () async throws(RPCError) in try await route.run(call) }
  }

  // MARK: The handler

  private func run(_ work: @escaping @Sendable () async throws(RPCError) -> Void) {
    phase = .running
    isTaskRunning = true
    let task = Task.immediate(executorPreference: place.executor) { [self] in
      var failure: RPCError?
      do throws(RPCError) {
        try await work()
      } catch {
        failure = error
      }
      taskEnded(failure)
    }
    guard isTaskRunning else { return }
    self.task = task
    share.take(of: place.environment.budget, for: place.account)
  }

  private func taskEnded(_ failure: RPCError?) {
    isTaskRunning = false
    task = nil
    if failure == nil, phase == .running, let parked = call.outbox?.parked { return park(parked) }
    finish(failure)
    share.giveBack(to: place.environment.budget)
    sink?.webCallReturned(self)
  }

  /// The call waits, and keeps little meanwhile.
  private func park(_ parked: any ParkedCall) {
    sendWaiting()
    phase = .parked
    call.request = ByteBuffer()
    framer = MessageFramer()
    heldBytes = 0
    share.take(of: place.environment.budget, for: place.account)
    if !parked.park(CallWaker(self, number: 0)) { wake(0) }
  }

  /// Of `CallWaker.Target`. Never runs the turn at once: whoever wakes may be within another call.
  func wake(_ number: Int) {
    place.executor.eventLoop.execute {
      guard self.phase == .parked, let outbox = self.call.outbox, let parked = outbox.parked else { return }
      self.run { () async throws(RPCError) in
        parked.unpark()
        if try await parked.turn() { outbox.endParking() }
      }
    }
  }

  /// Ends the call from outside: the deadline passed, or the client is gone.
  func end(_ error: RPCError) {
    call.outbox?.parked?.unpark()
    finish(error)
    call.context?.cancel()
    task?.cancel()
    task = nil
  }

  // MARK: The answer

  /// So many bytes of the body have left.
  func wrote(_ bytes: Int) {
    writtenBytes += bytes
    while let first = unwritten.first, first.end <= writtenBytes {
      unwritten.removeFirst()
      call.outbox?.sent(first.bytes)
    }
  }

  private func sendWaiting() {
    guard phase == .running, let outbox = call.outbox else { return }
    for frame in outbox.take() {
      sendHead()
      send(frame)
      unwritten.append((end: sentBytes, bytes: frame.readableBytes))
    }
  }

  private func sendHead() {
    guard !hasAnswered else { return }
    hasAnswered = true
    var headers: [(name: String, value: String)] = [("content-type", format.contentType)]
    if call.context?.settledCoding == .gzip { headers.append(("grpc-encoding", "gzip")) }
    let metadata = call.context?.initialMetadata.carriedFields ?? []
    for field in metadata { headers.append((field.name, String(decoding: field.value, as: UTF8.self))) }
    headers += place.environment.pages.cors.fields(origin: origin, exposing: metadata.map(\.name))
    sink?.webCall(self, answers: headers)
  }

  private func send(_ bytes: ByteBuffer) {
    let body: ByteBuffer
    switch format {
    case .binary: body = bytes
    case .text:
      let letters = BinaryMetadata.encode(Array(bytes.readableBytesView))
      body = ByteBuffer(bytes: letters + [UInt8](repeating: UInt8(ascii: "="), count: -letters.count & 3))
    }
    sentBytes += body.readableBytes
    sink?.webCall(self, sends: body)
  }

  /// Ends the call: nil for OK with the answer that the handler left.
  private func finish(_ failure: RPCError?) {
    guard phase != .answered else { return }
    sendWaiting()
    // A write that fails ends the call within it.
    guard phase != .answered else { return }
    phase = .answered
    timer?.cancel()
    timer = nil
    if hasInterceptedCall, let context = call.context {
      let duration = started.duration(to: .now)
      for interceptor in place.environment.interceptors {
        interceptor.didFinish(context, status: failure?.code ?? .ok, duration: duration)
      }
    }
    sendHead()
    if failure == nil, call.answer.readableBytes > 0 { send(call.answer) }
    send(trailers(failure))
    call.outbox?.close(failure ?? RPCError(.cancelled, "the call is over"))
    // It holds this call, by what it does when frames wait, and a parked call holds it.
    call.outbox?.endParking()
    call.outbox = nil
    if !isTaskRunning { share.giveBack(to: place.environment.budget) }
    sink?.webCallEnded(self)
  }

  /// The last frame: what HTTP/2 would send as trailers, written as HTTP/1.1 writes fields.
  private func trailers(_ failure: RPCError?) -> ByteBuffer {
    var fields: [(name: String, value: [UInt8])] = [
      ("grpc-status", Array(String((failure?.code ?? .ok).rawValue).utf8))
    ]
    if let failure {
      if !failure.message.isEmpty { fields.append(("grpc-message", PercentEncoding.encode(failure.message))) }
      if let details = place.environment.statusDetailsEncoder(failure) {
        fields.append(("grpc-status-details-bin", BinaryMetadata.encode(details)))
      }
      fields += failure.metadata.carriedFields
    }
    fields += call.context?.trailingMetadata.carriedFields ?? []
    var text = ByteBuffer()
    for field in fields {
      text.writeString("\(field.name): ")
      text.writeBytes(field.value)
      text.writeString("\r\n")
    }
    var frame = ByteBuffer()
    frame.writeInteger(Self.trailersFlag)
    // A few fields, each within the limits of header lists.
    frame.writeInteger(UInt32(truncatingIfNeeded: text.readableBytes))
    frame.writeBuffer(&text)
    return frame
  }
}
