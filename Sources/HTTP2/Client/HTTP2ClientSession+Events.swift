internal import CNghttp2
internal import NIOCore

/// What the library tells of the frames that it reads, on the way to the delegate and to the streams' handlers.
extension HTTP2ClientSession {
  func beganFrame(type: UInt8, flags: UInt8, length: Int) {
    switch UInt32(type) {
    case NGHTTP2_HEADERS.rawValue: idleFrames.earn()
    case NGHTTP2_DATA.rawValue:
      if length > 0 || flags & UInt8(NGHTTP2_FLAG_END_STREAM.rawValue) != 0 { idleFrames.earn() } else { spendIdle() }
    case NGHTTP2_CONTINUATION.rawValue: break
    default: spendIdle()
    }
  }

  private func spendIdle() {
    if !idleFrames.spend(now: now) { terminate(.enhanceYourCalm, debug: "too_many_frames") }
  }

  /// A header block begins: what an unfinished one left is of no use.
  func beganBlock() {
    gathered.removeAll()
    fieldBytes = 0
  }

  /// Takes one field of the block. False resets the stream.
  func receivedField(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) -> Bool {
    fieldBytes += name.count + value.count + 32
    guard fieldBytes <= Int(limits.headerListBytes), failure == nil else { return false }
    // Copied before the call returns.
    unsafe gathered.append(name, value)
    return true
  }

  /// Hands the gathered fields to the stream's handler. False when it does not want the stream.
  private func deliverFields(_ stream: HTTP2Stream) -> Bool {
    defer { beganBlock() }
    guard let handler = stream.handler else { return false }
    let seeksStatus = !stream.hasFinalFields
    return unsafe gathered.deliver { name, value in
      // RFC 9110 §15.2: only a response can be informational, and only its status says so.
      if seeksStatus, unsafe name.elementsEqual(":status".utf8) {
        stream.isInformational = unsafe value.first == UInt8(ascii: "1")
      }
      return unsafe handler.stream(stream, receivedField: name, value)
    }
  }

  func receivedData(_ stream: HTTP2Stream, _ bytes: UnsafeRawBufferPointer) {
    stream.unconsumed += bytes.count
    guard failure == nil else { return }
    unsafe stream.handler?.stream(stream, receivedData: bytes)
  }

  func receivedHeaders(_ stream: HTTP2Stream, endStream: Bool) {
    guard failure == nil else { return }
    guard deliverFields(stream) else { return reset(stream, .internalError) }
    let block: HTTP2FieldBlock
    if stream.hasFinalFields {
      block = .trailers
    } else if stream.isInformational {
      stream.isInformational = false
      block = .informational
    } else {
      stream.hasFinalFields = true
      block = .initial
    }
    stream.handler?.stream(stream, completedFields: block)
    if endStream { receivedEnd(stream) }
  }

  func receivedEnd(_ stream: HTTP2Stream) {
    guard failure == nil, stream.id != 0 else { return }
    stream.isRemoteEnded = true
    stream.handler?.streamReceivedEnd(stream)
  }

  func receivedSettings(acknowledged: Bool) {
    delegate?.session(self, receivedSettings: acknowledged)
  }

  func receivedPing(_ payload: UInt64, acknowledged: Bool) {
    guard failure == nil else { return }
    delegate?.session(self, receivedPing: payload, acknowledged: acknowledged)
  }

  func receivedGoAway(_ code: HTTP2ErrorCode, lastStreamID: Int32, debug: [UInt8]) {
    delegate?.session(self, receivedGoAway: code, lastStreamID: lastStreamID, debug: debug)
  }

  /// How many bytes of the body the next DATA frame takes.
  enum NextData {
    case bytes(Int, isLast: Bool)
    case wait
  }

  func nextData(_ stream: HTTP2Stream, limit: Int) -> NextData {
    let available = stream.pending.readableBytes
    guard available > 0 || stream.isFinished else {
      stream.isDeferred = true
      return .wait
    }
    let count = min(available, limit)
    return .bytes(count, isLast: stream.isFinished && count == available)
  }

  /// Queues the trailers, if the stream has any. False when there are none.
  func submitTrailers(_ stream: HTTP2Stream) -> Bool {
    guard stream.hasTrailers else { return false }
    let code = unsafe stream.trailers.withFields { nva, count in
      unsafe nghttp2_submit_trailer(raw, stream.id, nva, count)
    }
    if code != 0 { reset(stream, .internalError) }
    return true
  }

  /// Moves a DATA frame into the output.
  func sendData(_ stream: HTTP2Stream, header: UnsafeRawBufferPointer, count: Int) {
    unsafe output.writeBytes(header)
    // Read within the closure only.
    unsafe stream.pending.readWithUnsafeReadableBytes { bytes in
      unsafe output.writeBytes(UnsafeRawBufferPointer(rebasing: bytes.prefix(count)))
      return min(count, bytes.count)
    }
    if stream.pending.readableBytes == 0 { stream.pending.clear() }
    if count > 0 { idleFrames.earn() }
    stream.handler?.stream(stream, wrote: count)
  }

  func sentEnd(_ stream: HTTP2Stream) {
    stream.isLocalEnded = true
  }

  /// The library ended the session by itself.
  func sentGoAway(_ code: HTTP2ErrorCode) {
    if code != .noError, failure == nil { failure = code }
  }

  func closed(_ stream: HTTP2Stream, code: HTTP2ErrorCode) {
    // A request that a dying session did not send is reported twice: as a frame not sent and as a stream closed. Given
    // back twice, the object would be in the pool twice.
    guard stream.id != 0 else { return }
    if stream.unconsumed > 0 {
      _ = unsafe nghttp2_session_consume_connection(raw, stream.unconsumed)
      stream.unconsumed = 0
    }
    let handler = stream.handler
    stream.handler = nil
    handler?.stream(stream, closed: code)
    release(stream)
  }

  /// A request that never became a stream, because the peer said GOAWAY first.
  func requestNotSent(_ id: Int32) {
    guard let stream = streams.first(where: { $0.id == id }) else { return }
    closed(stream, code: .refusedStream)
  }
}
