internal import GRPC
internal import HTTP2
internal import NIOCore

/// One try at a call, on one stream of one connection.
///
/// ```
///   idle ──begin──▶ waiting ──open──▶ open ──▶ ended
///     └───────────────┴── cancel, deadline ──────▲
/// ```
///
/// Everything but `cancel`, `requestReady`, `responseConsumed` and `run` happens on the connection's event loop, which
/// is what makes it safe to share; those four hop there.
final class ClientAttempt: HTTP2StreamHandler, @unchecked Sendable {
  enum Outcome: Sendable {
    /// The one response of a call that has one.
    case message(ByteBuffer)
    /// The response stream has begun; its messages and its end go to the call's inbox.
    case streaming
    case failed(Failure)
  }

  struct Failure: Sendable {
    var error: RPCError
    var progress: RetryPolicy.Progress
    var pushback = RetryPushback.none
  }

  private enum State {
    case idle
    case waiting
    case open(HTTP2Stream)
    case ended
  }

  let call: ClientCall
  private let connection: ClientConnection
  private let previousAttempts: Int
  private var eventLoop: any EventLoop { connection.eventLoop }

  private var state = State.idle
  private var continuation: CheckedContinuation<Outcome, Never>?
  /// Kept when the end came before the continuation.
  private var earlyOutcome: Outcome?
  private var timer: Scheduled<Void>?
  private var reader: ResponseReader
  /// The one response of a call that has one.
  private var message: ByteBuffer?
  private var hasStreamed = false
  /// Bytes of request frames that left for the connection's output.
  private var sentBytes = 0
  /// Bytes of messages in the inbox that nobody has read: for these the server gets no new credit.
  private var unreadBytes = 0

  init(_ call: ClientCall, on connection: ClientConnection, previousAttempts: Int) {
    self.call = call
    self.connection = connection
    self.previousAttempts = previousAttempts
    reader = ResponseReader(
      messageLimit: connection.settings.messageLimit,
      decodeDetails: connection.settings.decodeDetails
    )
  }

  // MARK: - From any task

  /// Tries, and answers when the call is decided or its response stream has begun.
  func run() async -> Outcome {
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        connection.onEventLoop { self.begin(continuation) }
      }
    } onCancel: {
      cancel(RPCError(.cancelled, "the call was cancelled"))
    }
  }

  /// Ends the attempt from the caller's side; the server learns it by RST_STREAM(CANCEL).
  func cancel(_ error: RPCError) {
    connection.onEventLoop { self.end(.failed(Failure(error: error, progress: .answered))) }
  }

  /// Frames wait in the outbox, or the request is complete.
  func requestReady() {
    connection.onEventLoop { self.sendFrames() }
  }

  /// The reader took a message of this size.
  func responseConsumed(_ bytes: Int) {
    connection.onEventLoop { self.consumed(bytes) }
  }

  // MARK: - Life

  private func begin(_ continuation: CheckedContinuation<Outcome, Never>) {
    if let earlyOutcome {
      continuation.resume(returning: earlyOutcome)
      return
    }
    self.continuation = continuation
    if let failure = call.failure {
      end(.failed(Failure(error: failure, progress: .answered)))
      return
    }
    if let deadline = call.deadline {
      timer = eventLoop.scheduleTask(deadline: deadline) {
        self.end(.failed(Failure(error: Self.deadlineExceeded, progress: .answered)))
      }
    }
    state = .waiting
    connection.admit(self)
  }

  static let deadlineExceeded = RPCError(.deadlineExceeded, "the deadline passed before the call was answered")

  /// Whether it still wants a stream.
  var isWaiting: Bool { if case .waiting = state { true } else { false } }

  /// Opens the stream and sends what there is of the request.
  func open(_ session: HTTP2ClientSession) {
    guard case .waiting = state else { return }
    do {
      let fields = try RequestFields.make(
        path: call.path,
        authority: connection.settings.authority,
        isSecure: connection.settings.isSecure,
        timeout: call.deadline.map { .nanoseconds(max(0, ($0 - .now()).nanoseconds)) },
        userAgent: connection.settings.userAgent,
        previousAttempts: previousAttempts,
        coding: call.coding,
        metadata: call.metadata
      )
      let stream = try session.request(fields, handler: self)
      connection.opened()
      state = .open(stream)
      let earlier = call.start(self)
      switch call.request {
      case .message(let frame):
        session.write(stream, frame)
        session.finish(stream)
      case .stream:
        for frame in earlier { session.write(stream, frame) }
        sendFrames()
      }
    } catch let error as RPCError {
      end(.failed(Failure(error: error, progress: .answered)))
    } catch HTTP2Error.draining {
      // The session takes no requests any more: another connection will.
      connection.shutDown()
      end(.failed(Failure(error: RPCError(.unavailable, "the connection is draining"), progress: .notSent)))
    } catch {
      end(.failed(Failure(error: RPCError(.internal, "the request was not accepted: \(error)"), progress: .answered)))
    }
  }

  /// The connection is going, or gone, before the request was sent.
  func release(_ error: RPCError) {
    end(.failed(Failure(error: error, progress: .notSent)))
  }

  /// Refused by this side: too many calls wait already.
  func refuse(_ error: RPCError) {
    end(.failed(Failure(error: error, progress: .answered)))
  }

  private func end(_ outcome: Outcome, afterMessages: Bool = false) {
    let stream: HTTP2Stream?
    switch state {
    case .ended: return
    case .idle, .waiting: stream = nil
    case .open(let open): stream = open
    }
    state = .ended
    timer?.cancel()
    timer = nil
    if let stream {
      // Ended on both sides, it only waits to be closed; otherwise the server should stop.
      if !stream.isRemoteEnded {
        connection.session?.reset(stream, .cancel)
      } else if !stream.isLocalEnded {
        connection.session?.reset(stream, .noError)
      }
      connection.flushSoon()
    }
    call.end(self)
    call.responseMetadata?.receivedTrailing(reader.trailingFields)
    settle(outcome, afterMessages: afterMessages)
  }

  /// Tells the caller, and for a stream its reader and its writer.
  private func settle(_ outcome: Outcome, afterMessages: Bool = false) {
    if hasStreamed {
      if case .failed(let failure) = outcome {
        call.inbox?.finish(failure.error, afterMessages: afterMessages)
      } else {
        call.inbox?.finish()
      }
      call.outbox.close(RPCError(.cancelled, "the call is over"))
      return
    }
    if let continuation {
      self.continuation = nil
      continuation.resume(returning: outcome)
    } else {
      earlyOutcome = outcome
    }
  }

  // MARK: - The request

  private func sendFrames() {
    guard case .open(let stream) = state, case .stream = call.request, let session = connection.session else { return }
    let (frames, isLast) = call.takeFrames()
    for frame in frames { session.write(stream, frame) }
    if isLast { session.finish(stream) }
    connection.flushSoon()
  }

  func stream(_ stream: HTTP2Stream, wrote bytes: Int) {
    sentBytes += bytes
    if case .stream = call.request { call.sent(upTo: sentBytes) }
  }

  // MARK: - The response

  func stream(
    _ stream: HTTP2Stream,
    receivedField name: UnsafeRawBufferPointer,
    _ value: UnsafeRawBufferPointer
  ) -> Bool {
    // Only read during the call.
    if case .open = state { unsafe reader.receive(name, value) }
    return true
  }

  func stream(_ stream: HTTP2Stream, completedFields block: HTTP2FieldBlock) {
    connection.answered()
    guard case .open = state else { return }
    switch block {
    case .informational:
      reader.completeInformational()
    case .initial:
      if let error = reader.completeHead() {
        end(.failed(Failure(error: error, progress: .unanswered)))
        return
      }
      guard reader.hasHeaders else { return }
      call.commit()
      call.responseMetadata?.receivedInitial(reader.initialFields)
      guard call.inbox != nil else { return }
      settle(.streaming)
      hasStreamed = true
    case .trailers:
      reader.completeTrailers()
    }
  }

  func stream(_ stream: HTTP2Stream, receivedData bytes: UnsafeRawBufferPointer) {
    guard case .open = state else {
      connection.session?.consume(stream, bytes.count)
      return
    }
    do {
      // Only read during the call.
      try unsafe reader.receive(bytes) { message throws(RPCError) in try self.deliver(message) }
    } catch {
      end(.failed(Failure(error: error, progress: .answered)))
    }
    // Bytes of a message that is not whole yet are kept by us, so their credit is given back as well: a message may
    // be larger than the window.
    if unreadBytes == 0 { connection.session?.consume(stream, Int.max) }
  }

  private func deliver(_ message: ReceivedMessage) throws(RPCError) {
    if let inbox = call.inbox {
      unreadBytes += message.bytes.readableBytes
      inbox.deliver(message)
    } else if self.message == nil {
      self.message = try message.expanded(limit: connection.settings.messageLimit)
      call.responseMetadata?.receivedMessage(compressed: message.isCompressed)
    } else {
      throw RPCError(.internal, "the server sent two responses where there is one")
    }
  }

  private func consumed(_ bytes: Int) {
    unreadBytes -= bytes
    guard case .open(let stream) = state, unreadBytes == 0 else { return }
    connection.session?.consume(stream, Int.max)
    connection.flushSoon()
  }

  func streamReceivedEnd(_ stream: HTTP2Stream) {
    guard case .open = state else { return }
    let hadHeaders = reader.hasHeaders
    let result = reader.finish()
    if let error = result.error {
      let progress: RetryPolicy.Progress = hadHeaders ? .answered : .unanswered
      // The server's own status ends what it sent; it takes none of it back.
      end(.failed(Failure(error: error, progress: progress, pushback: result.pushback)), afterMessages: true)
    } else if call.inbox != nil {
      if !hadHeaders {
        // OK without a message, in one block.
        settle(.streaming)
        hasStreamed = true
      }
      end(.streaming)
    } else if let message {
      end(.message(message))
    } else {
      end(
        .failed(Failure(error: RPCError(.internal, "the server answered OK without a response"), progress: .answered))
      )
    }
  }

  func stream(_ stream: HTTP2Stream, closed code: HTTP2ErrorCode) {
    defer { connection.closed() }
    guard case .open = state else { return }
    state = .open(stream)
    let failure: Failure
    if let loss = connection.loss {
      failure = Failure(error: loss, progress: reader.hasHeaders ? .answered : .lost)
    } else if code == .refusedStream {
      failure = Failure(
        error: RPCError(.unavailable, "the server refused the stream before it looked at it"),
        progress: reader.hasHeaders ? .answered : .refused
      )
    } else {
      let error = RPCError(StatusCode(http2ErrorCode: code.rawValue), "the server reset the stream (\(code.name))")
      failure = Failure(error: error, progress: reader.hasHeaders ? .answered : .unanswered)
    }
    endClosed(.failed(failure))
  }

  /// Ends without touching the stream, which is gone.
  private func endClosed(_ outcome: Outcome) {
    state = .waiting
    end(outcome)
  }
}

extension HTTP2ErrorCode {
  fileprivate var name: String {
    switch self {
    case .noError: "NO_ERROR"
    case .protocolError: "PROTOCOL_ERROR"
    case .internalError: "INTERNAL_ERROR"
    case .flowControlError: "FLOW_CONTROL_ERROR"
    case .streamClosed: "STREAM_CLOSED"
    case .cancel: "CANCEL"
    case .enhanceYourCalm: "ENHANCE_YOUR_CALM"
    case .inadequateSecurity: "INADEQUATE_SECURITY"
    default: "error \(rawValue)"
    }
  }
}
