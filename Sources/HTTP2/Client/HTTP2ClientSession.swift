internal import CNghttp2
package import NIOCore

/// The client's end of an HTTP/2 connection: bytes in, events out; calls in, bytes out. It knows no socket and no
/// clock.
///
/// Owns one `nghttp2_session`. Not thread-safe: everything happens on one event loop. The driver's loop is
///
///     session.receive(bytes, now: now)   // events reach the delegate and the handlers
///     try session.produce()              // what they and the callers say becomes bytes in `output`
///     write(session.output); session.output.clear()
///
/// Source: RFC 9113.
@safe package final class HTTP2ClientSession {
  package let limits: Limits
  /// Held strongly, since a weak reference costs on every event; `abandon` lets go of it.
  package var delegate: (any HTTP2ClientSessionDelegate)?

  /// Bytes for the socket. `produce` appends; the driver takes them and clears.
  package var output: ByteBuffer

  /// Why the session ended itself, once a GOAWAY other than a graceful one was sent or received bytes broke it.
  /// From then on `receive` ignores its input: the driver writes what is left and closes.
  package internal(set) var failure: HTTP2ErrorCode?

  /// The library's session. Valid from `init` to `deinit`, never handed out of the module.
  let raw: OpaquePointer

  private(set) var streams: [HTTP2Stream] = []
  /// Streams to use again, linked by `nextFree`.
  private var firstFree: HTTP2Stream?
  private var freeCount = 0
  var gathered = GatheredFields()
  /// Bytes of the header list that is being received, as RFC 9113 §6.5.2 counts them.
  var fieldBytes = 0
  var idleFrames: Budget
  var now: NIODeadline
  private var isDraining = false

  /// Sends the preface's SETTINGS with the first `produce`.
  package init(limits: Limits = Limits(), allocator: ByteBufferAllocator, now: NIODeadline) throws(HTTP2Error) {
    self.limits = limits
    self.now = now
    output = allocator.buffer(capacity: 0)
    idleFrames = Budget(limits.idleFrames, now: now)
    unsafe raw = try Self.makeSession(limits)
    // The callbacks reach `self` through this pointer; `deinit` ends the session before `self` goes.
    unsafe nghttp2_session_set_user_data(raw, Unmanaged.passUnretained(self).toOpaque())
    try submitSettings()
  }

  deinit {
    // Frees every stream of the library without calling back.
    unsafe nghttp2_session_del(raw)
  }

  // MARK: Bytes

  /// Parses what the peer sent. Events are delivered before it returns; `failure` says whether it made sense.
  package func receive(_ bytes: UnsafeRawBufferPointer, now: NIODeadline) {
    self.now = now
    guard failure == nil else { return }
    guard let base = bytes.baseAddress, bytes.count > 0 else { return }
    // The library reads `bytes.count` bytes and keeps no pointer into them.
    let read = unsafe nghttp2_session_mem_recv(raw, base.assumingMemoryBound(to: UInt8.self), bytes.count)
    guard read < 0 else { return }
    // No GOAWAY is queued by itself for errors of this kind.
    terminate(Int32(truncatingIfNeeded: read) == NGHTTP2_ERR_FLOODED.rawValue ? .enhanceYourCalm : .protocolError)
  }

  /// Appends to `output` what the session has to say, up to the limit on waiting output.
  ///
  /// To be called after every `receive`, so that the library knows its own GOAWAY as sent before it reads on.
  package func produce() throws(HTTP2Error) {
    while output.readableBytes < limits.outputBytes {
      var pointer: UnsafePointer<UInt8>?
      let count = unsafe nghttp2_session_mem_send(raw, &pointer)
      if count == 0 { return }
      guard count > 0, let pointer = unsafe pointer else {
        throw .refused(operation: "send", code: Int32(truncatingIfNeeded: count))
      }
      // Valid until the next call into the session; copied here.
      unsafe output.writeBytes(UnsafeRawBufferPointer(start: pointer, count: count))
    }
  }

  /// Whether the session has more to say than `produce` has put into `output`.
  package var wantsToWrite: Bool { unsafe nghttp2_session_want_write(raw) != 0 }

  /// False once nothing more is expected: after a final GOAWAY when the last stream is gone.
  package var wantsToRead: Bool {
    guard failure == nil else { return false }
    return unsafe nghttp2_session_want_read(raw) != 0
  }

  // MARK: Streams

  /// Streams that are open.
  package var openStreams: Int { streams.count - freeCount }

  /// How many streams the peer lets us open at once.
  package var peerConcurrentStreams: UInt32 {
    unsafe nghttp2_session_get_remote_settings(raw, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS)
  }

  /// Whether another request may start: no GOAWAY was seen and stream ids are left.
  package var allowsRequests: Bool {
    guard failure == nil, !isDraining else { return false }
    return unsafe nghttp2_session_check_request_allowed(raw) != 0
  }

  /// Opens a stream with a request.
  ///
  /// Beyond the peer's concurrent streams the request waits in the session: look at `peerConcurrentStreams`.
  package func request(
    _ fields: HTTP2FieldList,
    handler: any HTTP2StreamHandler,
    endStream: Bool = false
  ) throws(HTTP2Error) -> HTTP2Stream {
    guard allowsRequests else { throw .draining }
    let stream = takeStream()
    stream.handler = handler
    // The stream object stays in `streams` until the library has called `on_stream_close` for it.
    let context = unsafe Unmanaged.passUnretained(stream).toOpaque()
    var provider = unsafe Self.dataProvider(context)
    let id = unsafe fields.withFields { nva, count in
      if endStream {
        return unsafe nghttp2_submit_request(raw, nil, nva, count, nil, context)
      }
      return unsafe nghttp2_submit_request(raw, nil, nva, count, &provider, context)
    }
    guard id > 0 else {
      release(stream)
      throw .refused(operation: "request", code: id)
    }
    stream.id = id
    stream.hasAnswered = true
    stream.isFinished = endStream
    return stream
  }

  /// Lets `body` append to the bytes that the stream will send. What it appended is taken back when it throws.
  package func write<Failure: Error>(
    _ stream: HTTP2Stream,
    _ body: (inout ByteBuffer) throws(Failure) -> Void
  ) throws(Failure) {
    guard stream.id != 0, !stream.isFinished else { return }
    let mark = stream.pending.writerIndex
    do {
      try body(&stream.pending)
    } catch {
      stream.pending.moveWriterIndex(to: mark)
      throw error
    }
    resume(stream)
  }

  /// Appends bytes to what the stream will send, without copying when nothing waits.
  package func write(_ stream: HTTP2Stream, _ bytes: ByteBuffer) {
    guard stream.id != 0, !stream.isFinished else { return }
    if stream.pending.readableBytes == 0 {
      stream.pending = bytes
    } else {
      stream.pending.writeImmutableBuffer(bytes)
    }
    resume(stream)
  }

  /// Ends our side of the stream after the bytes that wait, with trailers if there are any.
  package func finish(_ stream: HTTP2Stream, trailers: HTTP2FieldList? = nil) {
    guard stream.id != 0, !stream.isFinished else { return }
    if let trailers, !trailers.isEmpty {
      stream.trailers = trailers
      stream.hasTrailers = true
    }
    stream.isFinished = true
    resume(stream)
  }

  /// Ends the stream at once, in both directions.
  package func reset(_ stream: HTTP2Stream, _ code: HTTP2ErrorCode) {
    guard stream.id != 0 else { return }
    _ = unsafe nghttp2_submit_rst_stream(raw, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream.id, code.rawValue)
  }

  /// Grants the peer `bytes` again: the reader of the stream has taken them.
  package func consume(_ stream: HTTP2Stream, _ bytes: Int) {
    guard stream.id != 0, bytes > 0 else { return }
    let taken = min(bytes, stream.unconsumed)
    stream.unconsumed -= taken
    _ = unsafe nghttp2_session_consume(raw, stream.id, taken)
  }

  private func resume(_ stream: HTTP2Stream) {
    guard stream.isDeferred else { return }
    stream.isDeferred = false
    _ = unsafe nghttp2_session_resume_data(raw, stream.id)
  }

  // MARK: The connection

  /// Tells the peer that nothing more is asked, while what was asked is still answered.
  package func shutDown() {
    guard failure == nil, !isDraining else { return }
    isDraining = true
    _ = unsafe nghttp2_submit_goaway(
      raw, UInt8(NGHTTP2_FLAG_NONE.rawValue), 0, HTTP2ErrorCode.noError.rawValue, nil, 0)
  }

  /// Ends the session for the peer's fault: GOAWAY, then silence.
  package func terminate(_ code: HTTP2ErrorCode, debug: StaticString = "") {
    guard failure == nil else { return }
    failure = code
    let last = unsafe nghttp2_session_get_last_proc_stream_id(raw)
    // The library copies the debug data; then it stops reading once the frame is sent.
    if debug.utf8CodeUnitCount > 0 {
      _ = unsafe nghttp2_submit_goaway(
        raw,
        UInt8(NGHTTP2_FLAG_NONE.rawValue),
        last,
        code.rawValue,
        debug.utf8Start,
        debug.utf8CodeUnitCount
      )
    }
    _ = unsafe nghttp2_session_terminate_session2(raw, last, code.rawValue)
  }

  /// Asks the peer for a sign of life.
  package func ping(_ payload: UInt64) {
    // Eight bytes, copied by the library.
    unsafe withUnsafeBytes(of: payload.bigEndian) { bytes in
      _ = unsafe nghttp2_submit_ping(
        raw,
        UInt8(NGHTTP2_FLAG_NONE.rawValue),
        bytes.baseAddress?.assumingMemoryBound(to: UInt8.self)
      )
    }
  }

  /// The connection is gone: every stream that is open closes with `code`, and nothing is sent any more.
  package func abandon(_ code: HTTP2ErrorCode = .cancel) {
    if failure == nil { failure = code }
    for stream in streams where stream.id != 0 {
      // The library still knows the object; it stays in the pool until the session goes.
      stream.id = 0
      let handler = stream.handler
      stream.handler = nil
      handler?.stream(stream, closed: code)
    }
    delegate = nil
  }

  // MARK: Set-up

  private func submitSettings() throws(HTTP2Error) {
    let settings = [
      nghttp2_settings_entry(settings_id: Int32(NGHTTP2_SETTINGS_ENABLE_PUSH.rawValue), value: 0),
      nghttp2_settings_entry(
        settings_id: Int32(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE.rawValue),
        value: limits.streamWindow
      ),
      nghttp2_settings_entry(
        settings_id: Int32(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE.rawValue),
        value: limits.headerListBytes
      ),
    ]
    let none = UInt8(NGHTTP2_FLAG_NONE.rawValue)
    // The library copies the entries.
    var code = unsafe nghttp2_submit_settings(raw, none, settings, settings.count)
    guard code == 0 else { throw .refused(operation: "settings", code: code) }
    code = unsafe nghttp2_session_set_local_window_size(raw, none, 0, Int32(limits.connectionWindow))
    guard code == 0 else { throw .refused(operation: "window", code: code) }
  }

  private static func makeSession(_ limits: Limits) throws(HTTP2Error) -> OpaquePointer {
    var option: OpaquePointer?
    guard unsafe nghttp2_option_new(&option) == 0, let option = unsafe option else {
      throw .refused(operation: "option", code: NGHTTP2_ERR_NOMEM.rawValue)
    }
    // Both are only read by `nghttp2_session_client_new2`, which copies them.
    defer { unsafe nghttp2_option_del(option) }
    unsafe nghttp2_option_set_no_auto_window_update(option, 1)
    unsafe nghttp2_option_set_no_closed_streams(option, 1)
    unsafe nghttp2_option_set_max_outbound_ack(option, limits.outboundAcknowledgements)
    unsafe nghttp2_option_set_max_settings(option, limits.settingsEntries)
    // Until the server says otherwise; RFC 9113 §6.5.2 suggests no less than 100.
    unsafe nghttp2_option_set_peer_max_concurrent_streams(option, 100)

    let callbacks = try unsafe makeCallbacks()
    defer { unsafe nghttp2_session_callbacks_del(callbacks) }
    var session: OpaquePointer?
    let code = unsafe nghttp2_session_client_new2(&session, callbacks, nil, option)
    guard code == 0, let session = unsafe session else { throw .refused(operation: "session", code: code) }
    return unsafe session
  }

  // MARK: The pool of streams

  func takeStream() -> HTTP2Stream {
    if let stream = firstFree {
      firstFree = stream.nextFree
      stream.nextFree = nil
      freeCount -= 1
      return stream
    }
    let stream = HTTP2Stream()
    streams.append(stream)
    return stream
  }

  func release(_ stream: HTTP2Stream) {
    stream.reset()
    stream.nextFree = firstFree
    firstFree = stream
    freeCount += 1
  }
}
