internal import GRPC
internal import NIOCore
internal import Synchronization

/// One call as its attempts share it: what to send, until when, and where the answer goes.
///
/// The caller's task makes it; the attempt of the moment, on its connection's event loop, takes and gives.
final class ClientCall: Sendable {
  enum Request: Sendable {
    /// The one message, framed.
    case message(ByteBuffer)
    case stream
  }

  private struct State {
    var attempt: ClientAttempt?
    /// Ended by the caller: no further attempt may start.
    var failure: RPCError?
    /// The writer has written its last message.
    var isRequestComplete = false
    /// The answer has begun, or too much was sent to keep: there is no trying again.
    var isCommitted = false
    /// Frames that were sent, until the call is committed.
    var replay: [ByteBuffer] = []
    var replayBytes = 0
    /// Bytes of frames that the writer was told have left.
    var creditedBytes = 0
  }

  let path: String
  let metadata: Metadata
  let deadline: NIODeadline?
  let waitForReady: Bool
  let isIdempotent: Bool
  let responseMetadata: ResponseMetadata?
  let coding: MessageCoding
  let request: Request
  /// Where the writer puts the frames of a request stream.
  let outbox: MessageOutbox
  /// Where the messages of a response stream go; nil for a call with one response.
  let inbox: MessageInbox?

  /// A few fields are changed per message by two threads; an actor would suspend the event loop's side.
  private let state: Mutex<State>

  init(
    _ method: RPCMethod,
    _ options: CallOptions,
    deadline: NIODeadline?,
    responseLimit: Int,
    request: Request
  ) {
    path = method.path
    metadata = options.metadata
    self.deadline = deadline
    waitForReady = options.waitForReady
    isIdempotent = options.isIdempotent
    responseMetadata = options.responseMetadata
    coding = options.compression
    self.request = request
    state = Mutex(State())
    let current = CurrentAttempt()
    self.current = current
    outbox = MessageOutbox { current.attempt?.requestReady() }
    inbox =
      switch method.kind {
      case .unary, .clientStreaming: nil
      case .serverStreaming, .bidirectional:
        MessageInbox(messageLimit: responseLimit) { current.attempt?.responseConsumed($0) }
      }
  }

  /// Lets the two boxes find the attempt without holding the call.
  private final class CurrentAttempt: Sendable {
    private let value = Mutex<ClientAttempt?>(nil)

    var attempt: ClientAttempt? {
      get { value.withLock { $0 } }
      set { value.withLock { $0 = newValue } }
    }
  }

  private let current: CurrentAttempt

  // MARK: - The caller's side

  /// Ends the call, now and for every later attempt. Does nothing to one that has ended.
  func cancel(_ error: RPCError) {
    state.withLock { if $0.failure == nil { $0.failure = error } }
    current.attempt?.cancel(error)
  }

  /// The writer has written its last message.
  func completeRequest() {
    state.withLock { $0.isRequestComplete = true }
    current.attempt?.requestReady()
  }

  /// Why no attempt may start any more.
  var failure: RPCError? { state.withLock { $0.failure } }

  /// Whether the request can still be sent from its beginning.
  var canReplay: Bool { state.withLock { !$0.isCommitted } }

  // MARK: - The attempt's side

  /// Makes `attempt` the one that sends; answers the frames that an earlier one has sent.
  func start(_ attempt: ClientAttempt) -> [ByteBuffer] {
    current.attempt = attempt
    return state.withLock { $0.replay }
  }

  /// The attempt is over.
  func end(_ attempt: ClientAttempt) {
    if current.attempt === attempt { current.attempt = nil }
  }

  /// The frames that the writer has put by, and whether there will be no more.
  func takeFrames() -> (frames: [ByteBuffer], isLast: Bool) {
    // Read first: what is complete now has all its frames in the outbox.
    let isLast = state.withLock { $0.isRequestComplete }
    let frames = outbox.take()
    state.withLock { state in
      guard !state.isCommitted else { return }
      for frame in frames { state.replayBytes += frame.readableBytes }
      if state.replayBytes > Limits.replayBytes {
        state.isCommitted = true
        state.replay = []
      } else {
        state.replay.append(contentsOf: frames)
      }
    }
    return (frames, isLast)
  }

  /// `position` bytes of the request have left in this attempt; the writer hears only of what is new.
  func sent(upTo position: Int) {
    let new = state.withLock { state in
      let new = max(0, position - state.creditedBytes)
      state.creditedBytes += new
      return new
    }
    if new > 0 { outbox.sent(new) }
  }

  /// The answer has begun: nothing will be sent again.
  func commit() {
    state.withLock { state in
      state.isCommitted = true
      state.replay = []
    }
  }
}
