package import NIOCore

/// The server's end of an HTTP/2 connection: bytes in, events out; calls in, bytes out. It knows no socket and no clock.
///
/// Not thread-safe: everything happens on one event loop. The driver's loop is
///
///     session.receive(bytes, now: now)   // events reach the delegate and the handlers, which answer
///     session.produce()                  // their answers become bytes in `output`
///     write(session.output); session.output.clear()
///
/// A frame is worked on once it is whole; header blocks go through libnghttp2's HPACK. A stream takes this way:
///
///     HEADERS ──▶ delegate: opened ──▶ handler: data, end ──▶ respond, write, finish ──▶ queue ──▶ output ──▶ closed
///        │                                    ▲
///        └──▶ undecided ── a short body ──▶ delegate: answers directly ──▶ output
///
/// Source: RFC 9113.
@safe package final class HTTP2ServerSession {
  package let limits: Limits
  /// Held strongly, since a weak reference costs on every event; `abandon` lets go of it.
  package var delegate: (any HTTP2ServerSessionDelegate)?

  /// Bytes for the socket. The driver takes them and clears.
  package var output: ByteBuffer

  /// Why the session ended itself, once a GOAWAY other than a graceful one was sent or received bytes broke it.
  /// From then on `receive` ignores its input: the driver writes what is left and closes.
  package internal(set) var failure: HTTP2ErrorCode?

  /// Bytes at the end of what it was last given that the session has not looked at, since the delegate had it stop. It
  /// wants them again, before any others.
  package private(set) var untaken = 0

  // Receiving.
  var now: NIODeadline
  private var prefaceMatched = 0
  private var hasSettings = false
  /// The beginning of a frame whose end has not come yet, and when the first byte of it came.
  private(set) var partial: [UInt8] = []
  private(set) var partialBegan = NIODeadline.uptimeNanoseconds(0)
  var decoder: HeaderDecoder
  var blocks = RequestBlockCache()
  /// The block that is being received in pieces.
  var openBlock: OpenBlock? { didSet { isBlockOpen = openBlock != nil } }
  /// What each frame asks: asking the block itself costs ten times as much.
  private(set) var isBlockOpen = false
  /// Memory for the header blocks of one `receive`, one after the other.
  var gathering = GatheredFields()
  var closedStreams = ClosedStreams()
  var highestPeerStream: Int32 = 0
  var lookAhead = LookAhead()
  var idleFrames: Budget
  var ownResets: Budget
  var peerResets: Budget
  var excessResets: Budget

  /// A handler was given something since the delegate was last asked whether to go on: a call may have run within it, which
  /// is more than some frames.
  var isLookDue = false
  /// Bytes since then, received and decoded: a few that are received may stand for all that a header list may have.
  var worked = 0

  // Streams.
  var table = StreamTable()
  private var firstFree: HTTP2Stream?
  private var freeCount = 0
  /// Streams whose body will be answered directly, or not; they have no handler yet.
  package internal(set) var undecided = 0
  /// What their header blocks hold, or what the delegate made of those.
  package internal(set) var undecidedBytes = 0
  /// How late what is received comes to be worked on; the driver says so.
  package var lateness = TimeAmount.zero
  /// When the latest stream began or ended.
  package internal(set) var lastStream: NIODeadline

  // Sending.
  var encoder: HeaderEncoder
  let common: HTTP2CommonAnswer
  /// Streams with something to send or to end.
  var ready: [HTTP2Stream] = []
  var readyHead = 0
  /// Streams that wait for the connection's window.
  var blocked: [HTTP2Stream] = []
  /// Bytes of bodies that wait for the windows or for `produce`.
  var queued = 0
  /// Bytes of bodies that have left.
  var sent = 0
  var sendWindow = HTTP2ServerSession.defaultWindow
  var peerInitialWindow = HTTP2ServerSession.defaultWindow

  // Windows of ours.
  /// Bytes of DATA received since they were last granted again, and those of them that were consumed.
  var outstanding = 0
  var consumed = 0
  let connectionWindow: Int
  let streamWindow: Int

  // The connection.
  var isSettingsAcknowledged = false
  private var isDraining = false
  private var lastAccepted = Int32.max
  var isPeerDraining = false

  /// RFC 9113 §6.9.2.
  static let defaultWindow = 65_535
  /// RFC 9113 §4.2: what every peer takes, and what ours may be.
  static let frameBytes = 16_384
  /// RFC 9113 §3.4.
  private static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

  /// Sends the preface's SETTINGS with the first output.
  ///
  /// - Parameter common: the fields that most answers have.
  package init(
    limits: Limits = Limits(),
    common: HTTP2CommonAnswer = HTTP2CommonAnswer(),
    allocator: ByteBufferAllocator,
    now: NIODeadline
  ) throws(HTTP2Error) {
    self.limits = limits
    self.common = common
    self.now = now
    lastStream = now
    output = allocator.buffer(capacity: 0)
    idleFrames = Budget(limits.idleFrames, now: now)
    ownResets = Budget(limits.ownResets, now: now)
    peerResets = Budget(limits.peerResets, now: now)
    excessResets = Budget(limits.excessResets, now: now)
    decoder = try HeaderDecoder()
    encoder = HeaderEncoder()
    // Until our SETTINGS are acknowledged the peer may go by the default.
    streamWindow = max(Int(limits.streamWindow), Self.defaultWindow)
    connectionWindow = limits.isShared ? limits.sharedWindow : max(Int(limits.connectionWindow), Self.defaultWindow)
    writeSettings()
    if connectionWindow > Self.defaultWindow { writeWindowUpdate(0, connectionWindow - Self.defaultWindow) }
  }

  // MARK: Bytes

  /// Parses what the peer sent. Events are delivered before it returns; `failure` says whether it made sense, and
  /// `untaken` whether that was all of it.
  package func receive(_ bytes: UnsafeRawBufferPointer, now: NIODeadline) {
    self.now = now
    (untaken, worked) = (0, 0)
    guard failure == nil else { return }
    defer { gathering.free() }
    lookAhead = LookAhead()
    var index = 0
    if prefaceMatched < Self.preface.count {
      guard unsafe matchPreface(bytes, &index) else { return terminate(.protocolError) }
    }
    if !partial.isEmpty {
      // Every pointer here is read before the call returns.
      guard unsafe completePartial(bytes, &index) else { return }
    }
    while failure == nil, bytes.count - index >= FrameHeader.byteCount {
      // In bounds by the loop's condition, and by the second guard.
      let header = unsafe FrameHeader(UnsafeRawBufferPointer(rebasing: bytes[index...]))
      guard isAcceptable(header) else { return }
      let start = index + FrameHeader.byteCount
      guard bytes.count - start >= header.length else { break }
      index = start + header.length
      unsafe handle(header, UnsafeRawBufferPointer(rebasing: bytes[start..<index]))
      // Read before the call returns.
      if lookAhead.isOn { unsafe lookAhead(in: bytes, from: index, after: header) }
      worked += header.length + Limits.frameOverhead
      if isLookDue || worked >= Limits.bytesBetweenLooks {
        worked = 0
        isLookDue = false
        if let delegate, !delegate.sessionMayGoOn(self) {
          untaken = bytes.count - index
          return
        }
      }
    }
    guard failure == nil, index < bytes.count else { return }
    partialBegan = now
    unsafe partial.append(contentsOf: bytes[index...])
  }

  /// Tells the delegate of the bodies that come next.
  private func lookAhead(in bytes: UnsafeRawBufferPointer, from index: Int, after header: FrameHeader) {
    if lookAhead.place < index {
      lookAhead.place = index
      lookAhead.bodies = 0
    } else if header.isWholeBody {
      lookAhead.bodies -= 1
    }
    while lookAhead.bodies < Limits.foreseenBodies, bytes.count - lookAhead.place >= FrameHeader.byteCount {
      // In bounds by the loop's condition, and by the guard.
      let header = unsafe FrameHeader(UnsafeRawBufferPointer(rebasing: bytes[lookAhead.place...]))
      let start = lookAhead.place + FrameHeader.byteCount
      guard bytes.count - start >= header.length else { return }
      lookAhead.place = start + header.length
      guard header.isWholeBody else { continue }
      let body = unsafe UnsafeRawBufferPointer(rebasing: bytes[start..<lookAhead.place])
      guard let delegate, unsafe delegate.session(self, foresees: body) else {
        lookAhead.state = .off
        return
      }
      lookAhead.bodies += 1
    }
  }

  private func matchPreface(_ bytes: UnsafeRawBufferPointer, _ index: inout Int) -> Bool {
    while prefaceMatched < Self.preface.count, index < bytes.count {
      // In bounds by the loop's condition.
      guard unsafe bytes[index] == Self.preface[prefaceMatched] else { return false }
      prefaceMatched += 1
      index += 1
    }
    return true
  }

  /// Adds to the frame that came in part, and handles it when it is whole. False when there is nothing left to do.
  private func completePartial(_ bytes: UnsafeRawBufferPointer, _ index: inout Int) -> Bool {
    // The counts are bounded by what is left of `bytes`.
    if partial.count < FrameHeader.byteCount {
      let count = min(FrameHeader.byteCount - partial.count, bytes.count - index)
      unsafe partial.append(contentsOf: bytes[index..<index + count])
      index += count
      guard partial.count == FrameHeader.byteCount else { return false }
    }
    let header = unsafe partial.withUnsafeBytes { unsafe FrameHeader($0) }
    guard isAcceptable(header) else { return false }
    let count = min(FrameHeader.byteCount + header.length - partial.count, bytes.count - index)
    unsafe partial.append(contentsOf: bytes[index..<index + count])
    index += count
    guard partial.count == FrameHeader.byteCount + header.length else { return false }
    var frame: [UInt8] = []
    swap(&frame, &partial)
    // The frame stays as it is while it is handled: the session holds no reference to it.
    unsafe frame.withUnsafeBytes { frame in
      unsafe handle(header, UnsafeRawBufferPointer(rebasing: frame[FrameHeader.byteCount...]))
    }
    if frame.capacity <= Limits.keptFieldCapacity {
      frame.removeAll(keepingCapacity: true)
      swap(&frame, &partial)
    }
    return failure == nil
  }

  /// RFC 9113 §4.2. A larger frame is the connection's error: most of them change its state.
  private func isAcceptable(_ header: FrameHeader) -> Bool {
    guard header.length <= Self.frameBytes else {
      terminate(.frameSizeError)
      return false
    }
    return true
  }

  private func handle(_ header: FrameHeader, _ payload: UnsafeRawBufferPointer) {
    if isBlockOpen || !hasSettings {
      guard isExpected(header) else { return terminate(.protocolError) }
    }
    // The pointer is only passed on to calls that end before this one.
    switch header.type {
    case FrameType.data.rawValue: unsafe receivedData(header, payload)
    case FrameType.headers.rawValue: unsafe receivedHeaders(header, payload)
    case FrameType.continuation.rawValue: unsafe receivedContinuation(header, payload)
    case FrameType.settings.rawValue: unsafe receivedSettings(header, payload)
    case FrameType.windowUpdate.rawValue: unsafe receivedWindowUpdate(header, payload)
    case FrameType.ping.rawValue: unsafe receivedPing(header, payload)
    case FrameType.reset.rawValue: unsafe receivedReset(header, payload)
    case FrameType.priority.rawValue: unsafe receivedPriority(header, payload)
    case FrameType.goAway.rawValue: unsafe receivedGoAway(header, payload)
    // RFC 9113 §8.4: a client does not push.
    case FrameType.pushPromise.rawValue: terminate(.protocolError)
    // §5.5: what we do not know is passed over.
    default: spendIdle()
    }
  }

  /// RFC 9113 §3.4: SETTINGS come first; §6.10: nothing comes between the pieces of a block.
  private func isExpected(_ header: FrameHeader) -> Bool {
    if let openBlock {
      return header.type == FrameType.continuation.rawValue && header.streamID == openBlock.streamID
    }
    guard header.type == FrameType.settings.rawValue, !header.has(FrameFlag.acknowledgement) else { return false }
    hasSettings = true
    return true
  }

  func spendIdle() {
    if !idleFrames.spend(now: now) { terminate(.enhanceYourCalm, debug: "too_many_frames") }
  }

  // MARK: Streams

  /// Streams that are open.
  package var openStreams: Int { table.count }

  /// Whether a stream of this number may still begin.
  func accepts(_ id: Int32) -> Bool { id <= lastAccepted }

  func openStream(_ id: Int32, _ block: HTTP2RequestBlock) -> HTTP2Stream {
    let stream: HTTP2Stream
    if let free = firstFree {
      stream = free
      firstFree = free.nextFree
      free.nextFree = nil
      freeCount -= 1
    } else {
      stream = HTTP2Stream()
    }
    stream.id = id
    stream.opened = now
    stream.sendWindow = peerInitialWindow
    stream.contentLength = block.contentLength
    table.insert(stream)
    closedStreams.record(id, .open)
    lastStream = now
    return stream
  }

  /// Gives the stream a handler of its own.
  func decide(_ stream: HTTP2Stream) {
    guard let block = stream.block, let delegate else { return reset(stream, .internalError) }
    stream.block = nil
    stream.handler = delegate.session(self, opened: stream, block)
    isLookDue = true
  }

  /// Gives every stream a handler of its own that has waited for its body since `latest` or longer. Answers since when
  /// the first of the others waits.
  package func decide(openedUpTo latest: NIODeadline) -> NIODeadline? {
    guard undecided > 0 else { return nil }
    var first: NIODeadline?
    for stream in table.all where stream.isUndecided {
      guard stream.opened <= latest else {
        first = min(first ?? stream.opened, stream.opened)
        continue
      }
      decideAtLast(stream)
    }
    return first
  }

  /// Takes a stream out of the session and tells its handler.
  func close(_ stream: HTTP2Stream, _ code: HTTP2ErrorCode, _ verdict: ClosedStreams.Verdict) {
    table.remove(stream)
    closedStreams.close(stream.id, verdict)
    lastStream = now
    if stream.unconsumed > 0 {
      grantConnection(stream.unconsumed)
      stream.unconsumed = 0
    }
    queued -= stream.pending.readableBytes
    if stream.isUndecided { endWait(stream) }
    if stream.isBlocked { blocked.removeAll { $0 === stream } }
    if let handler = stream.handler {
      stream.handler = nil
      handler.stream(stream, closed: code)
    }
    stream.reset()
    guard freeCount < Limits.keptStreams else { return }
    stream.nextFree = firstFree
    firstFree = stream
    freeCount += 1
  }

  /// Puts the stream into the queue of what `produce` looks at.
  func enqueue(_ stream: HTTP2Stream) {
    guard !stream.isQueued else { return }
    stream.isQueued = true
    ready.append(stream)
  }

  /// Ends the stream at once, in both directions.
  package func reset(_ stream: HTTP2Stream, _ code: HTTP2ErrorCode) {
    guard stream.id != 0, stream.resetCode == nil else { return }
    stream.resetCode = code
    enqueue(stream)
  }

  /// Ends the stream at once because others want what it holds: no mistake of the peer's. gRPC's clients take the code
  /// for RESOURCE_EXHAUSTED.
  package func shed(_ stream: HTTP2Stream) {
    stream.isShed = true
    reset(stream, .enhanceYourCalm)
  }

  /// Stream objects that wait for their next stream.
  var spareStreams: Int { freeCount }

  func freeStreams() {
    // One after the other: each holds the next.
    while let stream = firstFree {
      firstFree = stream.nextFree
      stream.nextFree = nil
    }
    freeCount = 0
  }

  // MARK: The connection

  /// Tells the peer to start nothing new, while what is on its way is still served. First step of a drain.
  package func announceShutdown() {
    guard failure == nil, !isDraining else { return }
    writeGoAway(.max, .noError)
  }

  /// Fixes the last stream that will be served. Second step of a drain, a round trip after the first.
  package func shutDown() {
    guard failure == nil, !isDraining else { return }
    isDraining = true
    lastAccepted = highestPeerStream
    writeGoAway(lastAccepted, .noError)
  }

  /// Ends the session for the peer's fault: GOAWAY, then silence.
  package func terminate(_ code: HTTP2ErrorCode, debug: StaticString = "") {
    guard failure == nil else { return }
    failure = code
    writeGoAway(highestPeerStream, code, debug: debug)
  }

  /// Asks the peer for a sign of life.
  package func ping(_ payload: UInt64) {
    guard failure == nil else { return }
    writePing(payload, isAnswer: false)
  }

  /// False once nothing more is expected: after a final GOAWAY when the last stream is gone.
  package var wantsToRead: Bool {
    guard failure == nil else { return false }
    return table.count > 0 || !(isDraining || isPeerDraining)
  }

  /// The connection is gone: every stream that is open closes with `code`, and nothing is sent any more.
  package func abandon(_ code: HTTP2ErrorCode = .cancel) {
    if failure == nil { failure = code }
    let streams = table.all
    table.removeAll()
    ready = []
    readyHead = 0
    blocked = []
    (undecided, undecidedBytes) = (0, 0)
    freeStreams()
    for stream in streams {
      stream.id = 0
      let handler = stream.handler
      stream.handler = nil
      handler?.stream(stream, closed: code)
    }
    delegate = nil
  }
}
